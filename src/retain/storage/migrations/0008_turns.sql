-- Turns: which messages one run of an agent added, and what its model had been given.

-- up
-- report is what went into the context and why, without any of its text.
create table turns (
    tenant {key} not null,
    id {key} not null,
    session_id {key} not null,
    first_seq {int} not null,
    last_seq {int} not null,
    interaction_id {key},
    report {json},
    created_at {time} not null,
    primary key (tenant, id),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index turns_by_session on turns (tenant, session_id, last_seq);

-- down
drop table turns;
