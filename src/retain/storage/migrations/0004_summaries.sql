-- Rolling summaries of sessions, and leases for work that is done later.

-- up
-- One row for each fold: number counts them from 1, covers_from..covers_to are the messages that this fold saw, digest is
-- their hash. The session's own row repeats the newest text and how far it covers.
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
    primary key (tenant, session_id, number),
    foreign key (tenant, session_id) references sessions (tenant, id) on delete cascade
) {strict};

-- Who is at work on what; a lease that ran out is anybody's, and fence says that it changed hands.
create table leases (
    tenant {key} not null references tenants (tenant),
    what {key} not null,
    fence {int} not null,
    expires_at {time} not null,
    primary key (tenant, what)
) {strict};

-- down
update sessions set summary = '', summarized_count = 0;
drop table leases;
drop table summaries;
