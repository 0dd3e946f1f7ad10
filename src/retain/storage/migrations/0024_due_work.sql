-- Jobs find due work by an index, however large the tenant is.

-- up
-- How far the vectors are: all rows up to `number` have a vector of `model` (name and length), or are in search_failures.
-- Rows up to `next_number` were looked at, too. They count once all transactions before `next_transaction` have ended,
-- because one of them may still commit a row with a lower number.
alter table search_embedded add column model {key} not null default '';
alter table search_embedded add column number {int} not null default 0;
alter table search_embedded add column next_number {int} not null default 0;
alter table search_embedded add column next_transaction {int} not null default 0;

-- Rows without a vector that could not be embedded, and when to try again.
create table search_failures (
    tenant {key} not null references tenants (tenant),
    number {int} not null,
    tries {int} not null,
    retry_at {time} not null,
    primary key (tenant, number)
) {strict};
create index search_failures_by_time on search_failures (tenant, retry_at);

-- The time up to which a job has looked at all changes. `basis` names the settings it depends on: with others everything
-- is due again. `version` counts resets, so that a running job does not overwrite one.
create table job_marks (
    tenant {key} not null references tenants (tenant),
    job {key} not null,
    position {time} not null,
    basis {text} not null,
    version {int} not null,
    primary key (tenant, job)
) {strict};

-- Sessions that the summary job looks at again, whatever their last activity: imported ones, and those that failed.
create table due_sessions (
    tenant {key} not null,
    session_id {key} not null,
    retry_at {time} not null,
    primary key (tenant, session_id),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index due_sessions_by_time on due_sessions (tenant, retry_at);

create index interactions_failed on interactions (tenant, created_at) where error <> '';
create index entries_by_age on entries (tenant, created_at, agent, id) where kind = 'journal' and review = 'accepted';
create index entries_by_time on entries (tenant, created_at, id) where board is null;
create index entries_by_agent_and_time on entries (tenant, agent, created_at, id) where board is null;
create index consolidations_proposed on consolidations (tenant, created_at, id) where status = 'proposed';
create index blobs_staged on blobs (tenant, staged_at) where staged_at is not null;

-- down
drop index blobs_staged;
drop index consolidations_proposed;
drop index entries_by_agent_and_time;
drop index entries_by_time;
drop index entries_by_age;
drop index interactions_failed;
drop table due_sessions;
drop table job_marks;
drop table search_failures;
alter table search_embedded drop column next_transaction;
alter table search_embedded drop column next_number;
alter table search_embedded drop column number;
alter table search_embedded drop column model;
