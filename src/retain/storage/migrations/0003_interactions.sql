-- One row for each model call.

-- up
create table interactions (
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
create index interactions_by_time on interactions (tenant, created_at, id);
create index interactions_by_user on interactions (tenant, user_id) where user_id is not null;

-- down
drop table interactions;
