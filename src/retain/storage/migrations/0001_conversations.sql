-- Tenants, agents, sessions and the messages in them.
--
-- Words in braces are what engines spell differently: types ({key} compares byte by byte on all of them), and {strict}
-- where an engine must be asked to keep columns to their types. Row-level security
-- and grants are not written here: the engine that has them puts them on every table, so that none can be forgotten.

-- up
create table tenants (
    tenant {key} not null primary key,
    created_at {time} not null
) {strict};

create table agents (
    tenant {key} not null references tenants (tenant),
    name {key} not null,
    prompt {text} not null,
    model {text} not null,
    tools {json} not null,
    color {text} not null,
    icon {text} not null,
    version {int} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, name)
) {strict};

-- Appending writes to this table at most once a minute: touched_at is the last activity exact to that, first_seq the number of
-- the oldest message there is or will be, and first_at a moment at or before it; the rest is read off the last message.
create table sessions (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    agent {key} not null,
    label {text} not null,
    attributes {json} not null,
    summary {text} not null,
    summarized_count {int} not null,
    first_seq {int} not null,
    first_at {time} not null,
    touched_at {time} not null,
    created_at {time} not null,
    primary key (tenant, id)
) {strict};
create index sessions_by_user on sessions (tenant, user_id, touched_at);
create index sessions_by_activity on sessions (tenant, touched_at);
create index sessions_by_first_message on sessions (tenant, first_at);

create table active_sessions (
    tenant {key} not null,
    user_id {key} not null,
    agent {key} not null,
    active_session_id {key} not null,
    last_active_at {time} not null,
    created_at {time} not null,
    primary key (tenant, user_id, agent),
    foreign key (tenant, active_session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index active_sessions_by_session on active_sessions (tenant, active_session_id);

-- chatter is 1 for what a replay of user messages and final answers leaves out.
create table messages (
    tenant {key} not null,
    session_id {key} not null,
    seq {int} not null,
    role {key} not null check (role in ('system', 'user', 'assistant', 'tool')),
    content {json} not null,
    author {text},
    chatter {int} not null,
    tokens {int} not null,
    tokens_in {int},
    tokens_out {int},
    cost {real},
    created_at {time} not null,
    primary key (tenant, session_id, seq),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- What was answered to a request that brought an idempotency key.
create table message_keys (
    tenant {key} not null,
    session_id {key} not null,
    key {key} not null,
    digest {key} not null,
    first_seq {int} not null,
    last_seq {int} not null,
    created_at {time} not null,
    primary key (tenant, session_id, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- down
drop table message_keys;
drop table messages;
drop table active_sessions;
drop table sessions;
drop table agents;
drop table tenants;
