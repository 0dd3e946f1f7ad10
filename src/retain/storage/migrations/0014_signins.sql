-- Sign-ins: a browser that was shown a key, and is let in by a cookie since then.

-- up
-- digest is the SHA-256 of the cookie's text, which is kept nowhere. A sign-in belongs to its key, and allows what that one
-- allows: whatever ends the key ends it too.
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

-- down
drop table signins;
