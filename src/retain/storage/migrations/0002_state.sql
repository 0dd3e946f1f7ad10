-- Key-value state of a user, a session or the tenant.

-- up
create table state (
    tenant {key} not null references tenants (tenant),
    area {key} not null,
    key {key} not null,
    user_id {key},
    session_id {key},
    value {json} not null,
    version {int} not null,
    expires_at {time},
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, area, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index state_by_expiry on state (tenant, expires_at) where expires_at is not null;
create index state_by_session on state (tenant, session_id) where session_id is not null;
create index state_by_user on state (tenant, user_id) where user_id is not null;

-- down
drop table state;
