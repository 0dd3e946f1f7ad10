-- A search index of segments, the same on every engine, in place of one for each. It is built in the background.

-- up
-- # The search index, the same on every engine (search/)

-- The owner of documents that are searched together: a user (u…), a whiteboard (b…), an agent (a…) or everybody in the tenant
-- (s). Every write to an owner's index raises the generation that it has read, or is discarded. Documents have the numbers below
-- `next_number`; all of them have a vector of the model `embedded`, or are in index_failures.
create table index_owners (
    tenant {key} not null references tenants (tenant),
    owner {key} not null,
    generation {int} not null,
    next_number {int} not null,
    documents {int} not null,
    embedded {key} not null,
    vectors {int} not null,
    changed_at {time} not null,
    primary key (tenant, owner)
) {strict};
create index index_owners_by_model on index_owners (tenant, embedded, owner);

-- Segments never change, except for `dead`: the places of documents that were removed or replaced since. A large content is in
-- index_parts. Oracle stores empty bytes as null.
create table index_segments (
    tenant {key} not null,
    owner {key} not null,
    id {key} not null,
    documents {int} not null,
    dead {blob},
    parts {int} not null,
    content {blob},
    primary key (tenant, owner, id),
    foreign key (tenant, owner) references index_owners (tenant, owner) on delete cascade
) {strict};

-- Parts are stored before the segment is: those without one were left by a process that was interrupted.
create table index_parts (
    tenant {key} not null,
    owner {key} not null,
    segment {key} not null,
    part {int} not null,
    content {blob} not null,
    primary key (tenant, owner, segment, part),
    foreign key (tenant, owner) references index_owners (tenant, owner) on delete cascade
) {strict};

-- Vectors of up to 256 documents, by their numbers.
create table index_vectors (
    tenant {key} not null,
    owner {key} not null,
    model {key} not null,
    id {key} not null,
    documents {int} not null,
    first_number {int} not null,
    last_number {int} not null,
    content {blob} not null,
    primary key (tenant, owner, model, id),
    foreign key (tenant, owner) references index_owners (tenant, owner) on delete cascade
) {strict};

-- Documents that could not be embedded, and when to try again.
create table index_failures (
    tenant {key} not null,
    owner {key} not null,
    number {int} not null,
    tries {int} not null,
    retry_at {time} not null,
    primary key (tenant, owner, number),
    foreign key (tenant, owner) references index_owners (tenant, owner) on delete cascade
) {strict};
create index index_failures_by_time on index_failures (tenant, retry_at);

-- Records that were added, changed or removed since their owner's index was written; `seq` is -1 for all documents of an id.
-- A search reads them from their records, and ignores what segments have of them. `digest` is a hash of kind, id and seq,
-- because together they can exceed the length of a key. `stamp` is random, so that a job removes only the row that it has read.
create table fresh_records (
    tenant {key} not null references tenants (tenant),
    owner {key} not null,
    digest {key} not null,
    kind {key} not null,
    id {key} not null,
    seq {int} not null,
    stamp {int} not null,
    primary key (tenant, owner, digest)
) {strict};

-- Sessions with messages that are in no segment yet: those from `first_seq` on, as `sessions.fresh_from` says too. `stamp` is random:
-- a session that was removed and added again, with other messages, has another one.
create table fresh_sessions (
    tenant {key} not null,
    owner {key} not null,
    session_id {key} not null,
    first_seq {int} not null,
    stamp {int} not null,
    primary key (tenant, owner, session_id),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index fresh_sessions_by_session on fresh_sessions (tenant, session_id);

drop table search_failures;
drop table search_embedded;
-- Each document of a segment has the version of its analysis.
alter table search_behind drop column old;

-- Messages from fresh_from on are in no segment of the index.
alter table sessions add column fresh_from {int};
-- The beginning of the content and the command, as far as a search finds them.
alter table refs add column searchable {text} not null default '';

-- down
alter table refs drop column searchable;
alter table sessions drop column fresh_from;
alter table search_behind add column old {int} not null default 0;
-- How far the vectors are: all rows up to `number` have a vector of `model` (name and length), or are in search_failures.
-- Rows up to `next_number` were looked at, too. They count once all transactions before `next_transaction` have ended,
-- because one of them may still commit a row with a lower number.
create table search_embedded (
    tenant {key} not null primary key references tenants (tenant),
    at {time} not null,
    model {key} not null default '',
    number {int} not null default 0,
    next_number {int} not null default 0,
    next_transaction {int} not null default 0
) {strict};

-- Rows without a vector that could not be embedded, and when to try again.
create table search_failures (
    tenant {key} not null references tenants (tenant),
    number {int} not null,
    tries {int} not null,
    retry_at {time} not null,
    primary key (tenant, number)
) {strict};
create index search_failures_by_time on search_failures (tenant, retry_at);

drop table fresh_sessions;
drop table fresh_records;
drop table index_failures;
drop table index_vectors;
drop table index_parts;
drop table index_segments;
drop table index_owners;
