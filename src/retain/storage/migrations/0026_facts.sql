-- Facts: what is known about a user and the people and things they talk about, with its evidence and history.

-- up
-- valid_from and valid_to: when it is true in the world; null: unknown, or still true. learned is 1 for a fact that rests on
-- messages alone: without them it is retracted. A row is never deleted by learning: it gets another status.
create table facts (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    agent {key},
    subject {text} not null,
    subject_key {key} not null,
    statement {text} not null,
    statement_key {key} not null,
    predicate {text} not null,
    object {text} not null,
    topic {key} not null,
    valid_from {time},
    valid_to {time},
    learned {int} not null,
    confirmed {int} not null,
    confidence {real} not null,
    source {text} not null,
    status {key} not null check (status in ('active', 'replaced', 'retracted', 'pending')),
    replaces {key},
    replaced_by {key},
    learned_at {time} not null,
    primary key (tenant, id)
) {strict};
create index facts_by_user on facts (tenant, user_id, status, learned_at, id);
create index facts_by_subject on facts (tenant, user_id, subject_key, statement_key);

-- The messages that a fact comes from.
create table fact_evidence (
    tenant {key} not null,
    fact_id {key} not null,
    session_id {key} not null,
    seq {int} not null,
    primary key (tenant, fact_id, session_id, seq),
    foreign key (tenant, fact_id) references facts (tenant, id) on delete cascade,
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index fact_evidence_by_message on fact_evidence (tenant, session_id, seq);

-- Every change of a fact. Changes of one step are undone together, by a step that names it in undoes. before is the state of the
-- fact before the change, or null for a new fact.
create table fact_changes (
    tenant {key} not null,
    fact_id {key} not null,
    number {int} not null,
    step {key} not null,
    undoes {key},
    action {key} not null,
    source {text} not null,
    before {json},
    created_at {time} not null,
    primary key (tenant, fact_id, number),
    foreign key (tenant, fact_id) references facts (tenant, id) on delete cascade
) {strict};
create index fact_changes_by_step on fact_changes (tenant, step);

-- down
delete from search_items where kind = 'facts';
drop table fact_changes;
drop table fact_evidence;
drop table facts;
