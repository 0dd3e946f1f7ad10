-- Views with the names and columns of earlier designs. A line `-- DESIGN.NAME` begins a view; the designs are the maps of
-- importing/maps. Tables of memorist are named `memorist.TABLE`.
--
-- Every query has a `with`, so that PostgreSQL rejects writes. The times of messages ascend in the order of the session,
-- because the queries of the designs sort by them: where stored times are equal or go back, microseconds are added.

-- langchain.chat_message_history
with stored as (
    select tenant, session_id, seq, role, content::jsonb as content,
           seq + max(created_at - seq) over (partition by tenant, session_id order by seq) as at
    from memorist.messages where chatter <> 2
)
select seq as id,
       session_id,
       jsonb_build_object(
           'type', coalesce(
               content #>> '{langchain,type}',
               case role when 'user' then 'human' when 'assistant' then 'ai' else role end
           ),
           'data', jsonb_build_object('content', coalesce(content -> 'parts', content -> 'text', '""'))
               || case when content ? 'name' then jsonb_build_object('name', content -> 'name') else '{}' end
               || case when content ? 'tool_call_id'
                  then jsonb_build_object('tool_call_id', content -> 'tool_call_id') else '{}' end
               || case when not content ? 'tool_calls' then '{}'
                  when content ? 'langchain' then jsonb_build_object('tool_calls', content -> 'tool_calls')
                  else jsonb_build_object(
                      'additional_kwargs', jsonb_build_object('tool_calls', content -> 'tool_calls')
                  ) end
               || coalesce(content #> '{langchain,data}', '{}')
       ) as message,
       timestamptz 'epoch' + at * interval '1 microsecond' as created_at,
       tenant
from stored

-- langchain.user_agent_active_sessions
with stored as (select * from memorist.active_sessions)
select user_id,
       agent as agent_name,
       active_session_id,
       timestamptz 'epoch' + last_active_at * interval '1 microsecond' as last_active_at,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at,
       tenant
from stored

-- langchain.agent_long_term_memory
with stored as (select * from memorist.notes)
select user_id || '/' || agent as id,
       user_id,
       agent as agent_name,
       text as notes,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at,
       timestamptz 'epoch' + updated_at * interval '1 microsecond' as updated_at,
       tenant
from stored

-- agent-journal.agents
with stored as (
    select tenant, name from memorist.agents
    union select tenant, agent from memorist.entries where kind in ('journal', 'core')
)
select name as id, name, tenant from stored

-- agent-journal.agent_memories
with stored as (
    select * from memorist.entries where kind in ('journal', 'core') and review = 'accepted'
)
select id,
       agent as agent_id,
       content,
       case kind when 'journal' then 0 else 1 end as memory_type,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at,
       timestamptz 'epoch' + updated_at * interval '1 microsecond' as updated_at,
       tenant
from stored

-- agent-memories.agents
with stored as (
    select tenant, name from memorist.agents
    union select tenant, agent from memorist.refs where agent is not null
)
select name as id, name, tenant from stored

-- agent-memories.agent_memories
with stored as (select * from memorist.refs)
select key as id,
       agent as agent_id,
       session_id as thread_id,
       key as memory_key,
       type as memory_type,
       summary,
       parts.content,
       metadata::jsonb as content_metadata,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at,
       is_active = 1 as is_active,
       stored.tenant
from stored left join lateral (
    select case when bool_and(part.encoding = 'text') then string_agg(part.data, '' order by part.part) end as content
    from memorist.blob_parts part
    where part.tenant = stored.tenant and part.user_id = stored.user_id and part.digest = stored.digest
) parts on true

-- chat-sessions.chat_sessions
with stored as (select * from memorist.sessions)
select id,
       user_id,
       agent as agent_name,
       label as name,
       summary,
       messages.summarized as summarized_count,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at,
       timestamptz 'epoch' + greatest(touched_at, messages.last_at) * interval '1 microsecond' as updated_at,
       stored.tenant
from stored left join lateral (
    select count(*) filter (where message.chatter = 0 and message.seq <= stored.summarized_count) as summarized,
           max(message.created_at) as last_at
    from memorist.messages message
    where message.tenant = stored.tenant and message.session_id = stored.id
) messages on true

-- chat-sessions.chat_messages
with stored as (
    select tenant, session_id, seq, role, content::jsonb as content,
           seq + max(created_at - seq) over (partition by tenant, session_id order by seq) as at
    from memorist.messages where chatter = 0
)
select seq as id,
       session_id,
       role,
       coalesce(nullif(content ->> 'text', ''), (
           select string_agg(part ->> 'text', E'\n' order by number)
           from jsonb_array_elements(
               case jsonb_typeof(content -> 'parts') when 'array' then content -> 'parts' else '[]' end
           ) with ordinality listed (part, number)
       ), '') as content,
       timestamptz 'epoch' + at * interval '1 microsecond' as created_at,
       tenant
from stored

-- conversations.conversations
with stored as (select * from memorist.sessions)
select id,
       stored.tenant as tenant_id,
       user_id,
       label,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at,
       timestamptz 'epoch' + greatest(touched_at, messages.last_at) * interval '1 microsecond' as updated_at,
       attributes::jsonb as attrs_json
from stored left join lateral (
    select max(message.created_at) as last_at from memorist.messages message
    where message.tenant = stored.tenant and message.session_id = stored.id
) messages on true

-- conversations.messages
with stored as (
    select tenant, session_id, seq, role, content::jsonb as content, tokens_in, tokens_out, cost,
           seq + max(created_at - seq) over (partition by tenant, session_id order by seq) as at
    from memorist.messages where chatter <> 2 and role <> 'tool'
)
select seq as id,
       session_id as conversation_id,
       tenant as tenant_id,
       role,
       content as content_json,
       tokens_in,
       tokens_out,
       cost,
       timestamptz 'epoch' + at * interval '1 microsecond' as created_at
from stored

-- conversations.memory_kv
with stored as (
    select * from memorist.state
    where expires_at is null or expires_at > extract(epoch from now()) * 1000000
)
select area || '/' || key as id,
       tenant as tenant_id,
       coalesce(session_id, user_id) as scope_id,
       key as k,
       value::jsonb as v_json,
       timestamptz 'epoch' + expires_at * interval '1 microsecond' as ttl_ts,
       timestamptz 'epoch' + updated_at * interval '1 microsecond' as updated_at
from stored

-- conversations.memory_long
with stored as (select * from memorist.sessions where summary <> '')
select id as conversation_id,
       summary as summary_text,
       timestamptz 'epoch' + coalesce(written.at, touched_at) * interval '1 microsecond' as updated_at,
       stored.tenant as tenant_id
from stored left join lateral (
    select max(newest.created_at) as at from memorist.summaries newest
    where newest.tenant = stored.tenant and newest.session_id = stored.id
) written on true

-- conversations.interactions
with stored as (select * from memorist.interactions)
select id,
       tenant as tenant_id,
       route,
       model as model_id,
       parameters::jsonb as params_json,
       latency_ms,
       tokens_in,
       tokens_out,
       cost as cost_est,
       timestamptz 'epoch' + created_at * interval '1 microsecond' as created_at
from stored
