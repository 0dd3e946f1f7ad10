-- The owner of what an audit row is about, so that erasing a user also hashes the names of what was theirs: keys and names
-- can be made of what somebody wrote. The chain has the hash of the subject, so it holds for a hashed subject, too.

-- up
alter table audit add column owner {key};
create index audit_by_owner on audit (tenant, owner) where owner is not null;

-- down
drop index audit_by_owner;
alter table audit drop column owner;
