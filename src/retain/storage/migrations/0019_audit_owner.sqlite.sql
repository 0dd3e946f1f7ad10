-- The owner of what an audit row is about, so that erasing a user also hashes the names of what was theirs: keys and names
-- can be made of what somebody wrote. The chain has the hash of the subject, so it holds for a hashed subject, too.

-- up
alter table audit add column owner {key};
create index audit_by_owner on audit (tenant, owner) where owner is not null;
drop trigger audit_is_not_changed;
create trigger audit_is_not_changed before update on audit
when new.subject not glob 'sha256:*' or length(new.subject) <> 71
    or old.tenant is not new.tenant or old.number is not new.number or old.at is not new.at
    or old.who is not new.who or old.what is not new.what or old.before is not new.before
    or old.after is not new.after or old.secrets is not new.secrets
    or old.request_id is not new.request_id or old.chain is not new.chain or old.owner is not new.owner
begin
    select raise(abort, 'the audit log can only be added to');
end;

-- down
drop trigger audit_is_not_changed;
create trigger audit_is_not_changed before update on audit begin
    select raise(abort, 'the audit log can only be added to');
end;
drop index audit_by_owner;
alter table audit drop column owner;
