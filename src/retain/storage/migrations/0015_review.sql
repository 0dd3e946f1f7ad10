-- Entries that wait for a review: what a source wrote that is not trusted counts when a person has accepted it.

-- up
-- What is there already counts, as it did.
alter table entries add column review {key} not null default 'accepted'
    check (review in ('accepted', 'pending', 'refused'));
create index entries_in_review on entries (tenant, created_at, id) where review <> 'accepted';

-- down
-- A version that knows no review would put what waits, and what was refused, into every prompt.
update consolidations set status = 'undone', content = '', entry_id = null where entry_id in (
    select entries.id from entries where entries.tenant = consolidations.tenant and entries.review <> 'accepted');
delete from entries where review <> 'accepted';
drop index entries_in_review;
alter table entries drop column review;
