-- Model calls of which tokens and latency are not known. A column cannot lose its `not null`, so the table is copied.

-- up
create table new_interactions (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key},
    agent {key},
    session_id {key},
    route {text} not null,
    model {text} not null,
    parameters {json} not null,
    latency_ms {real},
    tokens_in {int},
    tokens_out {int},
    cost {real},
    error {text} not null,
    created_at {time} not null,
    primary key (tenant, id)
) {strict};
insert into new_interactions
    select tenant, id, user_id, agent, session_id, route, model, parameters, latency_ms, tokens_in, tokens_out, cost,
           error, created_at
    from interactions;
drop table interactions;
alter table new_interactions rename to interactions;
create index interactions_by_time on interactions (tenant, created_at, id);
create index interactions_by_user on interactions (tenant, user_id) where user_id is not null;

-- down
create table old_interactions (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key},
    agent {key},
    session_id {key},
    route {text} not null,
    model {text} not null,
    parameters {json} not null,
    latency_ms {real} not null,
    tokens_in {int} not null,
    tokens_out {int} not null,
    cost {real},
    error {text} not null,
    created_at {time} not null,
    primary key (tenant, id)
) {strict};
insert into old_interactions
    select tenant, id, user_id, agent, session_id, route, model, parameters, coalesce(latency_ms, 0),
           coalesce(tokens_in, 0), coalesce(tokens_out, 0), cost, error, created_at
    from interactions;
drop table interactions;
alter table old_interactions rename to interactions;
create index interactions_by_time on interactions (tenant, created_at, id);
create index interactions_by_user on interactions (tenant, user_id) where user_id is not null;
