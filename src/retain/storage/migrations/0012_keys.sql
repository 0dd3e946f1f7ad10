-- Keys: who may come in over HTTP, and what they may do there.

-- up
-- digest is the SHA-256 of the key's text, which is kept nowhere; permissions are words with commas between them. A key that
-- was revoked stays, so that it can be told from one that never was; only erasing the user it is bound to removes it.
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
    primary key (tenant, id)
) {strict};
create index keys_by_age on keys (tenant, created_at, id);
-- Which tenants ever had a key: from the first one on nobody is let in without, even if no key is left.
create table keyed (
    tenant {key} not null primary key references tenants (tenant),
    since {time} not null
) {strict};

-- down
drop table keyed;
drop table keys;
