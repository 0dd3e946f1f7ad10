-- Notes: one Markdown document for each user and agent, with every version it ever had.

-- up
create table notes (
    tenant {key} not null references tenants (tenant),
    user_id {key} not null,
    agent {key} not null,
    version {int} not null,
    text {text} not null,
    tokens {int} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, user_id, agent)
) {strict};

create table note_versions (
    tenant {key} not null,
    user_id {key} not null,
    agent {key} not null,
    version {int} not null,
    operation {text} not null,
    source {text} not null,
    text {text} not null,
    created_at {time} not null,
    primary key (tenant, user_id, agent, version),
    foreign key (tenant, user_id, agent) references notes (tenant, user_id, agent) on delete cascade
) {strict};

-- down
drop table note_versions;
drop table notes;
