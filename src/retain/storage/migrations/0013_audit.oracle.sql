-- The audit log, which can only grow, and the answers that were given to requests with a key.

-- up
-- Who did what to what and when, and the hashes of what it was before and after, numbered without gaps; nothing that anybody
-- said. `chain` is the hash of the row and of the chain before it. `secrets` counts what looked like one in what was written.
-- The working user may add to it and read it: the rights are given after each migration.
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
    primary key (tenant, number)
) {strict};

-- What was answered to a request that had a key, so that whoever asks again gets the same answer. status 0: not answered yet.
-- user_id is whose memory was meant, so that it goes with them.
create table answers (
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
    primary key (tenant, principal, route, key)
) {strict};
create index answers_by_age on answers (tenant, created_at);

-- down
drop table answers;
drop table audit;
