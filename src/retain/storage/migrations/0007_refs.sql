-- References: big outputs, kept out of the prompt behind a placeholder, and where messages mention them.

-- up
-- What is stored, by its hash, for each user apart ('' where it is no user's). `file` is its name in the folder for large
-- contents, null where it lies in blob_parts; `whole` is 1 when all of it is there. `staged_at` is when somebody began to
-- store it who has not said yet for which reference, so that nobody clears it away meanwhile.
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

-- start is the place of the part's first byte in the content; encoding is text for what is valid text, and base64 for
-- what is not.
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

-- words is what a search looks through, in lower case: key, summary, command, and how the content begins.
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
    words {text} not null,
    source {text} not null,
    is_active {int} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade,
    foreign key (tenant, user_id, digest) references blobs (tenant, user_id, digest)
) {strict};
create index refs_by_session on refs (tenant, session_id, created_at, key) where session_id is not null;
create index refs_by_user on refs (tenant, user_id, created_at, key);
create index refs_by_time on refs (tenant, created_at, key);
create index refs_by_digest on refs (tenant, user_id, digest);

-- Which placeholders stand in which message, so that whoever leaves the message out can still list them.
create table mentions (
    tenant {key} not null,
    session_id {key} not null,
    seq {int} not null,
    key {key} not null,
    primary key (tenant, session_id, seq, key),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- down
drop table mentions;
drop table refs;
drop table blob_parts;
drop table blobs;
