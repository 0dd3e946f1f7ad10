-- Views with the names and columns of earlier designs. A line `-- DESIGN.NAME` begins a view; the designs are the maps of
-- importing/maps. `(temporary)`: memorist has a table of this name, so the view can exist in a connection only. Tables of
-- memorist are named `memorist.TABLE`; `{time VALUE}` is a time as text.
--
-- The times of messages ascend in the order of the session, because the queries of the designs sort by them: where stored
-- times are equal or go back, microseconds are added.

-- langchain.chat_message_history
select seq as id,
       session_id,
       json_object(
           'type', coalesce(
               content ->> '$.langchain.type',
               case role when 'user' then 'human' when 'assistant' then 'ai' else role end
           ),
           'data', json(json_patch(
               coalesce(
                   content -> '$.langchain.data',
                   case when content -> '$.langchain' is null and content -> '$.tool_calls' is not null then
                       json_object('additional_kwargs', json_object('tool_calls', json(content -> '$.tool_calls')))
                   end,
                   '{}'
               ),
               json_object(
                   'content', json(coalesce(
                       content -> '$.langchain.data.content', content -> '$.parts', content -> '$.text', '""'
                   )),
                   'name', content ->> '$.name',
                   'tool_call_id', content ->> '$.tool_call_id',
                   'tool_calls', json(
                       case when content -> '$.langchain' is not null then content -> '$.tool_calls' end
                   )
               )
           ))
       ) as message,
       {time at} as created_at,
       tenant
from (
    select tenant, session_id, seq, role, content,
           seq + max(created_at - seq) over (partition by tenant, session_id order by seq) as at
    from memorist.messages where chatter <> 2
)

-- langchain.user_agent_active_sessions
select user_id,
       agent as agent_name,
       active_session_id,
       {time last_active_at} as last_active_at,
       {time created_at} as created_at,
       tenant
from memorist.active_sessions

-- langchain.agent_long_term_memory
select user_id || '/' || agent as id,
       user_id,
       agent as agent_name,
       text as notes,
       {time created_at} as created_at,
       {time updated_at} as updated_at,
       tenant
from memorist.notes

-- agent-journal.agents (temporary)
select name as id, name, tenant from memorist.agents
union select agent, agent, tenant from memorist.entries where kind in ('journal', 'core')

-- agent-journal.agent_memories
select id,
       agent as agent_id,
       content,
       case kind when 'journal' then 0 else 1 end as memory_type,
       {time created_at} as created_at,
       {time updated_at} as updated_at,
       tenant
from memorist.entries where kind in ('journal', 'core') and review = 'accepted'

-- agent-memories.agents (temporary)
select name as id, name, tenant from memorist.agents
union select agent, agent, tenant from memorist.refs where agent is not null

-- agent-memories.agent_memories
select key as id,
       agent as agent_id,
       session_id as thread_id,
       key as memory_key,
       type as memory_type,
       summary,
       (
           select case when sum(encoding <> 'text') = 0 then group_concat(data, '') end
           from (
               select encoding, data from memorist.blob_parts part
               where part.tenant = stored.tenant and part.user_id = stored.user_id and part.digest = stored.digest
               order by part.part
           )
       ) as content,
       metadata as content_metadata,
       {time created_at} as created_at,
       is_active,
       tenant
from memorist.refs stored

-- chat-sessions.chat_sessions
select id,
       user_id,
       agent as agent_name,
       label as name,
       summary,
       (
           select count(*) from memorist.messages message
           where message.tenant = stored.tenant and message.session_id = stored.id
           and message.chatter = 0 and message.seq <= stored.summarized_count
       ) as summarized_count,
       {time created_at} as created_at,
       {time max(touched_at, coalesce(last_at, 0))} as updated_at,
       tenant
from (
    select session.*, (
        select max(message.created_at) from memorist.messages message
        where message.tenant = session.tenant and message.session_id = session.id
    ) as last_at
    from memorist.sessions session
) stored

-- chat-sessions.chat_messages
select seq as id,
       session_id,
       role,
       coalesce(nullif(content ->> '$.text', ''), (
           select group_concat(part.value ->> '$.text', char(10))
           from json_each(stored.content, '$.parts') part where part.type = 'object'
       ), '') as content,
       {time at} as created_at,
       tenant
from (
    select tenant, session_id, seq, role, content,
           seq + max(created_at - seq) over (partition by tenant, session_id order by seq) as at
    from memorist.messages where chatter = 0
) stored

-- conversations.conversations
select id,
       tenant as tenant_id,
       user_id,
       label,
       {time created_at} as created_at,
       {time max(touched_at, coalesce(last_at, 0))} as updated_at,
       attributes as attrs_json
from (
    select session.*, (
        select max(message.created_at) from memorist.messages message
        where message.tenant = session.tenant and message.session_id = session.id
    ) as last_at
    from memorist.sessions session
)

-- conversations.messages (temporary)
select seq as id,
       session_id as conversation_id,
       tenant as tenant_id,
       role,
       content as content_json,
       tokens_in,
       tokens_out,
       cost,
       {time at} as created_at
from (
    select tenant, session_id, seq, role, content, tokens_in, tokens_out, cost,
           seq + max(created_at - seq) over (partition by tenant, session_id order by seq) as at
    from memorist.messages where chatter <> 2 and role <> 'tool'
)

-- conversations.memory_kv
select area || '/' || key as id,
       tenant as tenant_id,
       coalesce(session_id, user_id) as scope_id,
       key as k,
       value as v_json,
       {time expires_at} as ttl_ts,
       {time updated_at} as updated_at
from memorist.state
where expires_at is null or expires_at > unixepoch() * 1000000

-- conversations.memory_long
select id as conversation_id,
       summary as summary_text,
       {time at} as updated_at,
       tenant as tenant_id
from (
    select session.*, coalesce((
        select max(newest.created_at) from memorist.summaries newest
        where newest.tenant = session.tenant and newest.session_id = session.id
    ), touched_at) as at
    from memorist.sessions session where summary <> ''
)

-- conversations.interactions (temporary)
select id,
       tenant as tenant_id,
       route,
       model as model_id,
       parameters as params_json,
       latency_ms,
       tokens_in,
       tokens_out,
       cost as cost_est,
       {time created_at} as created_at
from memorist.interactions
