-- Facts: what is known about a user and the people and things they talk about, with its evidence and history.

-- up
-- valid_from and stated_to: when it is true in the world, as it was said; null: unknown, or still true. replaces and replaces_how: the
-- fact that this one replaces, and why. needs_review is 1 if it waits for a person. The columns from status on follow from the events of
-- this fact and of those that replace it; see kinds/facts/chain.py.
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
    stated_to {time},
    source {text} not null,
    confidence {real} not null,
    learned_at {time} not null,
    replaces {key},
    replaces_how {key} check (replaces_how in ('changed', 'refined', 'corrected')),
    conflicts_with {key},
    needs_review {int} not null,
    status {key} not null check (status in ('active', 'replaced', 'retracted', 'pending')),
    confirmed {int} not null,
    valid_to {time},
    replaced_by {key},
    replaced_how {key},
    primary key (tenant, id)
) {strict};
create index facts_by_user on facts (tenant, user_id, status, learned_at, id);
create index facts_by_subject on facts (tenant, user_id, subject_key, statement_key);
create index facts_by_replaced on facts (tenant, replaces);

-- Everything that happened to a fact. Events of one step are undone together. rests is 1 for a statement that rests on messages: it
-- holds only as long as fact_evidence has a row of its step. other is the other fact of a replacement.
create table fact_events (
    tenant {key} not null,
    fact_id {key} not null,
    number {int} not null,
    step {key} not null,
    action {key} not null,
    actor {key} not null,
    rests {int} not null,
    other {key},
    undone {int} not null,
    created_at {time} not null,
    primary key (tenant, fact_id, number),
    foreign key (tenant, fact_id) references facts (tenant, id) on delete cascade
) {strict};
create index fact_events_by_step on fact_events (tenant, step);

-- The messages that a step was taken from.
create table fact_evidence (
    tenant {key} not null,
    fact_id {key} not null,
    step {key} not null,
    session_id {key} not null,
    seq {int} not null,
    primary key (tenant, fact_id, step, session_id, seq),
    foreign key (tenant, fact_id) references facts (tenant, id) on delete cascade,
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index fact_evidence_by_message on fact_evidence (tenant, session_id, seq);

-- The names of the people and things that facts are about. Names with the same entity mean the same. A name that is proposed waits for
-- a person. merged_from is the entity that a name had before a merge. session_id and seq are the message that says so.
create table fact_names (
    tenant {key} not null references tenants (tenant),
    user_id {key} not null,
    entity {key} not null,
    name_key {key} not null,
    name {text} not null,
    status {key} not null check (status in ('accepted', 'proposed', 'rejected')),
    merged_from {key},
    session_id {key},
    seq {int},
    created_at {time} not null,
    primary key (tenant, user_id, entity, name_key)
) {strict};
create index fact_names_by_name on fact_names (tenant, user_id, name_key);
create index fact_names_by_message on fact_names (tenant, session_id, seq);

-- The last message of each session from which facts were learned. retry_at: when the learning job looks at the session again, whatever
-- its last activity: it failed so many times, or it was imported with an old time.
create table fact_positions (
    tenant {key} not null,
    session_id {key} not null,
    seq {int} not null,
    tries {int} not null,
    retry_at {time},
    error {text},
    primary key (tenant, session_id),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index fact_positions_by_retry on fact_positions (tenant, retry_at) where retry_at is not null;

-- down
-- Deletes nothing: a step suspends row-level security only for the tables that it names, and the trigger of
-- search_items changes this one.
delete from search_words where 1 = 0;
delete from job_marks where job = 'facts';
delete from search_items where kind = 'facts';
drop table fact_positions;
drop table fact_names;
drop table fact_evidence;
drop table fact_events;
drop table facts;
