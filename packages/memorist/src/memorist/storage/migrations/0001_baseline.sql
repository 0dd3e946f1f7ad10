-- The tables that all engines define alike. Each engine adds its search tables in 0001_baseline.ENGINE.sql.
--
-- Words in braces are what engines spell differently: types ({key} compares byte by byte on all of them), and {strict}
-- where an engine enforces column types only on request. Row-level security and grants are not written here: PostgreSQL
-- (storage/postgres/row_security.py) and Oracle (memorist_oracle/security.py) add them to every table.

-- up
-- # Tenants, agents, sessions and the messages in them

create table tenants (
    tenant {key} not null primary key,
    created_at {time} not null
) {strict};

-- model_label is the display name of the model; active is 0 for an agent that does not answer.
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
    model_label {text} not null default '',
    active {int} not null default 1 check (active in (0, 1)),
    checksum {checksum} not null,
    primary key (tenant, name)
) {strict};

-- Appending writes to this table at most once a minute, so touched_at, the last activity, is exact to a minute. first_seq is the
-- number of the oldest message, or of the next one if there is none; first_at is its time or an earlier one. Everything
-- else is read from the newest message.
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
    checksum {checksum} not null,
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

-- chatter: 0 for a user message or a final answer, 1 for a system message, tool call or tool result, 2 for a removed message,
-- whose row stays so that no number is missing.
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
    checksum {checksum} not null,
    primary key (tenant, session_id, seq),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- The messages that were added with an idempotency key, for retries. See kinds/messages/messages.py.
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

-- # Key-value state of a user, a session or the tenant

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
    checksum {checksum} not null,
    primary key (tenant, area, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index state_by_expiry on state (tenant, expires_at) where expires_at is not null;
create index state_by_session on state (tenant, session_id) where session_id is not null;
create index state_by_user on state (tenant, user_id) where user_id is not null;

-- # One row for each model call; tokens and latency are null if they are not known

create table interactions (
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
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index interactions_by_time on interactions (tenant, created_at, id);
create index interactions_by_user on interactions (tenant, user_id) where user_id is not null;
create index interactions_failed on interactions (tenant, created_at) where error <> '';

-- # Rolling summaries of sessions, and leases for background work

-- One row for each summary: number counts from 1, covers_from to covers_to are the messages that it was made from, digest is
-- their hash. The row of the session repeats the newest text and the number of summarized messages.
create table summaries (
    tenant {key} not null,
    session_id {key} not null,
    number {int} not null,
    covers_from {int} not null,
    covers_to {int} not null,
    digest {key} not null,
    text {text} not null,
    tokens {int} not null,
    model {text} not null,
    prompt_version {int} not null,
    created_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, session_id, number),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- `what` is the work that a process has claimed. Any process may claim an expired lease; `fence` changes with each claim, so
-- that the former holder notices.
create table leases (
    tenant {key} not null references tenants (tenant),
    what {key} not null,
    fence {int} not null,
    expires_at {time} not null,
    primary key (tenant, what)
) {strict};

-- # Notes: one Markdown document for each user and agent, with all its versions

create table notes (
    tenant {key} not null references tenants (tenant),
    user_id {key} not null,
    agent {key} not null,
    version {int} not null,
    text {text} not null,
    tokens {int} not null,
    created_at {time} not null,
    updated_at {time} not null,
    checksum {checksum} not null,
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
    checksum {checksum} not null,
    primary key (tenant, user_id, agent, version),
    foreign key (tenant, user_id, agent) references notes (tenant, user_id, agent) on delete cascade
) {strict};

-- # Entries: an agent's core memory and journal, shared boards, and proposals to turn journal entries into core entries

-- failures: the number of unusable answers of a model about the current text of the entry.
create table entries (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    agent {key} not null,
    kind {key} not null check (kind in ('core', 'journal', 'whiteboard')),
    board {key},
    content {text} not null,
    tokens {int} not null,
    user_id {key},
    source {text} not null,
    version {int} not null,
    failures {int} not null default 0,
    created_at {time} not null,
    updated_at {time} not null,
    review {key} not null default 'accepted' check (review in ('accepted', 'pending', 'refused')),
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index entries_by_agent on entries (tenant, agent, kind, created_at, id);
create index entries_by_board on entries (tenant, board, created_at, id) where board is not null;
create index entries_by_user on entries (tenant, user_id) where user_id is not null;
create index entries_in_review on entries (tenant, created_at, id) where review <> 'accepted';
create index entries_by_age on entries (tenant, created_at, agent, id) where kind = 'journal' and review = 'accepted';
create index entries_by_time on entries (tenant, created_at, id) where board is null;
create index entries_by_agent_and_time on entries (tenant, agent, created_at, id) where board is null;

-- The row of a board is locked while its members change.
create table boards (
    tenant {key} not null references tenants (tenant),
    board {key} not null,
    created_at {time} not null,
    primary key (tenant, board)
) {strict};

create table board_members (
    tenant {key} not null,
    board {key} not null,
    agent {key} not null,
    created_at {time} not null,
    primary key (tenant, board, agent),
    foreign key (tenant, board) references boards (tenant, board) on delete cascade
) {strict};
create index board_members_by_agent on board_members (tenant, agent);

-- A proposal to keep what journal entries say; entry_id is the core entry that an accepted one became. With the status `passed`,
-- it has no content: the model found nothing worth keeping in its entries.
create table consolidations (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    agent {key} not null,
    user_id {key},
    source {text} not null,
    status {key} not null check (status in ('proposed', 'accepted', 'refused', 'undone', 'passed')),
    content {text} not null,
    entry_id {key},
    model {text} not null,
    created_at {time} not null,
    decided_at {time},
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index consolidations_by_agent on consolidations (tenant, agent, created_at, id);
create index consolidations_by_entry on consolidations (tenant, entry_id) where entry_id is not null;
create index consolidations_by_user on consolidations (tenant, user_id) where user_id is not null;
create index consolidations_proposed on consolidations (tenant, created_at, id) where status = 'proposed';

-- The entries of each proposal. An entry is used in one proposal only, even if that is rejected.
create table consolidation_sources (
    tenant {key} not null,
    entry_id {key} not null,
    consolidation_id {key} not null,
    number {int} not null,
    primary key (tenant, entry_id),
    foreign key (tenant, entry_id) references entries (tenant, id) on delete cascade,
    foreign key (tenant, consolidation_id) references consolidations (tenant, id) on delete cascade
) {strict};
create index consolidation_sources_by_consolidation on consolidation_sources (tenant, consolidation_id, number);

-- # References: large outputs behind a placeholder, and where messages mention them

-- Contents by their hash, separate for each user ('' if they belong to no user). `file` is the name in the folder for large
-- contents, null for a content in blob_parts; `whole` is 1 once it is complete. `staged_at` is when an upload began whose reference
-- is not committed yet; the clean-up leaves it alone for some time.
create table blobs (
    tenant {key} not null references tenants (tenant),
    user_id {key} not null,
    digest {key} not null,
    bytes {int} not null,
    file {text},
    whole {int} not null,
    staged_at {time},
    primary key (tenant, user_id, digest)
) {strict};
create index blobs_staged on blobs (tenant, staged_at) where staged_at is not null;

-- start is the offset of the part's first byte in the content; encoding is `text`, or `base64` for bytes that are not text.
create table blob_parts (
    tenant {key} not null,
    user_id {key} not null,
    digest {key} not null,
    part {int} not null,
    start {int} not null,
    encoding {key} not null check (encoding in ('text', 'base64')),
    data {text} not null,
    primary key (tenant, user_id, digest, part),
    foreign key (tenant, user_id, digest) references blobs (tenant, user_id, digest) on delete cascade
) {strict};

create table refs (
    tenant {key} not null references tenants (tenant),
    key {key} not null,
    user_id {key} not null,
    agent {key},
    session_id {key},
    type {text} not null,
    summary {text} not null,
    digest {key} not null,
    media {key} not null check (media in ('text', 'json', 'binary')),
    bytes {int} not null,
    lines {int} not null,
    tokens {int} not null,
    metadata {json} not null,
    source {text} not null,
    is_active {int} not null,
    created_at {time} not null,
    updated_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade,
    foreign key (tenant, user_id, digest) references blobs (tenant, user_id, digest)
) {strict};
create index refs_by_session on refs (tenant, session_id, created_at, key) where session_id is not null;
create index refs_by_user on refs (tenant, user_id, created_at, key);
create index refs_by_time on refs (tenant, created_at, key);
create index refs_by_digest on refs (tenant, user_id, digest);

-- The placeholders in each message. A context that leaves a message out lists its references by them.
create table mentions (
    tenant {key} not null,
    session_id {key} not null,
    seq {int} not null,
    key {key} not null,
    primary key (tenant, session_id, seq, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- # Turns: the messages that one run of an agent added, and the report about its context

-- report says what the context contained and why, without its text.
create table turns (
    tenant {key} not null,
    id {key} not null,
    session_id {key} not null,
    first_seq {int} not null,
    last_seq {int} not null,
    interaction_id {key},
    report {json},
    created_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, id),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};
create index turns_by_session on turns (tenant, session_id, last_seq);

-- # Documents, and the chunks they are split into

-- user_id is '' for a document of the whole tenant. `place` identifies a document among those of its user: its path, or its
-- title if it has no path. Adding a document with the same place replaces it.
create table documents (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    place {key} not null,
    title {text} not null,
    path {key} not null,
    media {key} not null check (media in ('text', 'markdown', 'html', 'pdf')),
    digest {key} not null,
    bytes {int} not null,
    chunks {int} not null,
    source {text} not null,
    created_at {time} not null,
    updated_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create unique index documents_by_place on documents (tenant, user_id, place);
create index documents_by_time on documents (tenant, updated_at, id);

-- A chunk includes the white space after it: all chunks joined are the document's text. start is the offset of its first
-- character; page is the page of a PDF.
create table document_chunks (
    tenant {key} not null,
    document_id {key} not null,
    seq {int} not null,
    title {text} not null,
    text {text} not null,
    start {int} not null,
    page {int},
    checksum {checksum} not null,
    primary key (tenant, document_id, seq),
    foreign key (tenant, document_id) references documents (tenant, id) on delete cascade
) {strict};

-- # How far the search index is

-- Tenants with things that were not written by way of the index: from before there was one, or by an import. `round` counts
-- how often that happened, so that whoever filled the index knows whether it was all.
-- Rows up to the number `old` have words of an older analysis, and get new ones, the newest first: a version that reads
-- words in another way has a migration that sets it to the newest number of each tenant.
create table search_behind (
    tenant {key} not null primary key references tenants (tenant),
    round {int} not null,
    old {int} not null default 0
) {strict};

-- When everything in a tenant had its vector for the last time.
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

-- # How far background jobs are

-- The time up to which a job has looked at all changes. `basis` names the settings it depends on: with others everything
-- is due again; for `verify` it is the number of damaged texts that the last one found. `version` counts resets, so that a running job does not overwrite one.
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

-- # Keys for HTTP, and sign-ins of browsers

-- digest is the SHA-256 of the key's text, which is not stored; permissions are separated by commas. The row of a revoked key
-- stays, for the audit log and for a better error; erasing the user or agent that the key is bound to deletes it.
create table keys (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    name {key} not null,
    digest {key} not null,
    permissions {key} not null,
    user_id {key},
    agent {key},
    created_at {time} not null,
    expires_at {time},
    last_used_at {time},
    revoked_at {time},
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index keys_by_age on keys (tenant, created_at, id);
-- The tenants that ever had a key. From the first key on, requests without one are rejected, even if no key is left.
create table keyed (
    tenant {key} not null primary key references tenants (tenant),
    since {time} not null
) {strict};

-- The sessions of browsers. digest is the SHA-256 of the cookie's text, which is not stored. A session has the permissions of
-- its key, and ends with it.
create table signins (
    tenant {key} not null references tenants (tenant),
    digest {key} not null,
    key_id {key} not null,
    created_at {time} not null,
    expires_at {time} not null,
    primary key (tenant, digest),
    foreign key (tenant, key_id) references keys (tenant, id) on delete cascade
) {strict};
create index signins_by_key on signins (tenant, key_id, created_at);
create index signins_by_end on signins (tenant, expires_at);

-- # The audit log, which can only grow, and the responses to requests with an idempotency key

-- The principal, the action, the subject and the time of each change, and the hashes of the record before and after it, numbered
-- without gaps; no content. `chain` is the hash of the row and of the chain before it. `secrets` counts the secrets that were
-- found in the values. The application's role may only read and add rows; each migration grants this at its end.
create table audit (
    tenant {key} not null references tenants (tenant),
    number {int} not null,
    at {time} not null,
    who {key} not null,
    what {key} not null,
    subject {text} not null,
    before {key},
    after {key},
    secrets {int} not null,
    request_id {key} not null,
    chain {key} not null,
    owner {key},
    primary key (tenant, number)
) {strict};
create index audit_by_owner on audit (tenant, owner) where owner is not null;

-- The responses to REST requests with an idempotency key, for retries. `status` is 0 while a request runs. `user_id` is the user
-- whose memory the request was about: erasing the user deletes the row. See admin/stored_responses.py.
create table stored_responses (
    tenant {key} not null references tenants (tenant),
    principal {key} not null,
    route {key} not null,
    key {key} not null,
    user_id {key},
    digest {key} not null,
    status {int} not null,
    version {int},
    body {text} not null,
    created_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, principal, route, key)
) {strict};
create index stored_responses_by_age on stored_responses (tenant, created_at);

-- # Items: JSON documents at a place, under a key

-- area is `user:ID` or `tenant`. place has the names of the place, each followed by U+001F, which no name contains: the places below
-- a place begin with it, and places sort by their names. ttl is the lifetime of an item in microseconds, from its last write
-- or refresh. source is the writer of the current value. fields are the paths of the value that are indexed for search; null:
-- all. The value is the last column, so that a query for other columns does not read it.
create table items (
    tenant {key} not null references tenants (tenant),
    area {key} not null,
    place {key} not null,
    key {key} not null,
    version {int} not null,
    ttl {int},
    expires_at {time},
    created_at {time} not null,
    updated_at {time} not null,
    source {text} not null,
    fields {json},
    checksum {checksum} not null,
    value {json} not null,
    primary key (tenant, area, place, key)
) {strict};
create index items_by_expiry on items (tenant, expires_at) where expires_at is not null;

-- # Checkpoints: the state of the threads of a graph after each step

-- One row for each namespace of a thread. `line` is a hash of owner, thread and namespace, which keeps the keys of the tables
-- below short. user_id is '' for a thread without a user. updated_at is exact to the hour.
create table threads (
    tenant {key} not null references tenants (tenant),
    line {key} not null,
    user_id {key} not null,
    thread {key} not null,
    ns {text} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, line)
) {strict};
create index threads_by_name on threads (tenant, user_id, thread);
create index threads_by_time on threads (tenant, updated_at);

-- versions has the version of each channel. data is the output of the framework's serializer, one character for each byte
-- (U+0100 for the byte 0), here and below.
create table checkpoints (
    tenant {key} not null,
    line {key} not null,
    id {key} not null,
    parent {key},
    type {key} not null,
    data {text} not null,
    metadata {json} not null,
    versions {json} not null,
    run_id {key},
    created_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, line, id),
    foreign key (tenant, line) references threads (tenant, line) on delete cascade
) {strict};
create index checkpoints_by_run on checkpoints (tenant, run_id) where run_id is not null;

-- The value of a channel, one row for each version: a step that does not change a channel adds no row.
create table channel_values (
    tenant {key} not null,
    line {key} not null,
    channel {key} not null,
    version {key} not null,
    type {key} not null,
    data {text} not null,
    checksum {checksum} not null,
    primary key (tenant, line, channel, version),
    foreign key (tenant, line) references threads (tenant, line) on delete cascade
) {strict};

-- What tasks wrote after a checkpoint; a row may be stored before its checkpoint. path orders the tasks.
create table checkpoint_writes (
    tenant {key} not null,
    line {key} not null,
    checkpoint {key} not null,
    task {key} not null,
    idx {int} not null,
    path {text} not null,
    channel {key} not null,
    type {key} not null,
    data {text} not null,
    checksum {checksum} not null,
    primary key (tenant, line, checkpoint, task, idx),
    foreign key (tenant, line) references threads (tenant, line) on delete cascade
) {strict};

-- # A graph of what is known: entities with observations, and relations between names

-- user_id is '' for the graph of the whole tenant. number is the position of an entity in its graph. One call can add several
-- entities with the same name; observations are added to the first of them.
create table graph_entities (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    number {int} not null,
    name {key} not null,
    type {text} not null,
    source {text} not null,
    created_at {time} not null,
    updated_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index graph_entities_by_name on graph_entities (tenant, user_id, name);
create index graph_entities_by_number on graph_entities (tenant, user_id, number);

create table graph_observations (
    tenant {key} not null,
    entity_id {key} not null,
    number {int} not null,
    text {text} not null,
    created_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, entity_id, number),
    foreign key (tenant, entity_id) references graph_entities (tenant, id) on delete cascade
) {strict};

-- A relation connects names; an entity with such a name need not exist.
create table graph_relations (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    number {int} not null,
    start {key} not null,
    target {key} not null,
    type {text} not null,
    created_at {time} not null,
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index graph_relations_by_start on graph_relations (tenant, user_id, start);
create index graph_relations_by_target on graph_relations (tenant, user_id, target);
create index graph_relations_by_number on graph_relations (tenant, user_id, number);

-- # Facts: what is known about a user and the people and things they talk about, with evidence and history

-- valid_from and stated_to: when the fact is true in the world, as stated; null: unknown, or still true. replaces and replaces_how: the
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
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};
create index facts_by_user on facts (tenant, user_id, status, learned_at, id);
create index facts_by_subject on facts (tenant, user_id, subject_key, statement_key);
create index facts_by_replaced on facts (tenant, replaces);

-- Everything that happened to a fact. Events of one step are undone together. rests is 1 for a statement that needs a message as evidence: it
-- holds as long as fact_evidence has a row of its step. other is the other fact of a replacement.
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

-- The messages that are the evidence of a step.
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
    checksum {checksum} not null,
    primary key (tenant, user_id, entity, name_key)
) {strict};
create index fact_names_by_name on fact_names (tenant, user_id, name_key);
create index fact_names_by_message on fact_names (tenant, session_id, seq);

-- The last message of each session from which facts were learned. retry_at: when the learning job looks at the session again, whatever
-- its last activity, because it failed (`tries` times) or was imported with an old time.
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

-- # Events: what was added, changed, learned, removed or erased, and the webhooks that receive them

-- The number of the last event of a tenant, and the one up to which events were removed because of their age. Updating this row
-- locks it until the commit, so events become visible in the order of their numbers.
create table event_numbers (
    tenant {key} not null primary key references tenants (tenant),
    last_number {int} not null,
    removed_to {int} not null
) {strict};

-- user_id is the owner of what changed, so that the event is removed when they are erased.
create table events (
    tenant {key} not null references tenants (tenant),
    number {int} not null,
    type {key} not null,
    kind {key} not null,
    verb {key} not null,
    subject {text} not null,
    user_id {key},
    created_at {time} not null,
    primary key (tenant, number)
) {strict};

-- position is the last event that was delivered or given up; tries counts the failures of the next one. kinds are words with
-- commas between them; empty: all kinds. The secret is stored, because the server signs with it.
create table webhooks (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    url {text} not null,
    secret {key} not null,
    kinds {text} not null,
    position {int} not null,
    tries {int} not null,
    retry_at {time} not null,
    error {text} not null,
    paused {int} not null,
    created_at {time} not null,
    delivered_at {time},
    checksum {checksum} not null,
    primary key (tenant, id)
) {strict};

-- Events that a webhook did not accept. replay is 1 if the event is to be sent again.
create table dead_letters (
    tenant {key} not null,
    webhook_id {key} not null,
    number {int} not null,
    type {key} not null,
    kind {key} not null,
    verb {key} not null,
    subject {text} not null,
    user_id {key},
    created_at {time} not null,
    error {text} not null,
    failed_at {time} not null,
    replay {int} not null,
    primary key (tenant, webhook_id, number),
    foreign key (tenant, webhook_id) references webhooks (tenant, id) on delete cascade
) {strict};
create index dead_letters_to_replay on dead_letters (tenant, webhook_id, number) where replay = 1;

-- down
drop table dead_letters;
drop table webhooks;
drop table events;
drop table event_numbers;
drop table fact_positions;
drop table fact_names;
drop table fact_evidence;
drop table fact_events;
drop table facts;
drop table graph_relations;
drop table graph_observations;
drop table graph_entities;
drop table checkpoint_writes;
drop table channel_values;
drop table checkpoints;
drop table threads;
drop table items;
drop table stored_responses;
drop table audit;
drop table signins;
drop table keyed;
drop table keys;
drop table due_sessions;
drop table job_marks;
drop table search_failures;
drop table search_embedded;
drop table search_behind;
drop table document_chunks;
drop table documents;
drop table turns;
drop table mentions;
drop table refs;
drop table blob_parts;
drop table blobs;
drop table consolidation_sources;
drop table consolidations;
drop table board_members;
drop table boards;
drop table entries;
drop table note_versions;
drop table notes;
drop table leases;
drop table summaries;
drop table interactions;
drop table state;
drop table message_keys;
drop table messages;
drop table active_sessions;
drop table sessions;
drop table agents;
drop table tenants;
