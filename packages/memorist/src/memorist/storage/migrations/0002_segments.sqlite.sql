-- The former index, of words in FTS5.

-- up
update refs set searchable = substr(search_items.text, instr(search_items.text, char(10)) + 1)
from search_items
where search_items.tenant = refs.tenant and search_items.kind = 'refs' and search_items.id = refs.key and search_items.part = 0;
insert into search_behind (tenant, round) select tenant, 1 from tenants where true on conflict do nothing;
drop trigger search_items_removed;
drop table search_vectors;
drop table search_absorbed;
drop table search_words;
drop table search_items;

-- down
-- Rows are never changed: a thing that changes gets new rows with new numbers, and a number is never given twice, so what
-- is known of a number can be cached for ever. `id` and `seq` name the thing within its kind (a session and the number of a
-- message, a document and the number of a chunk); `part` counts the parts of a long one. `agent` is null for what every
-- agent may see, `board` names the whiteboard it is on. The text is last: what a search filters by is read without it.
create table search_items (
    number integer primary key autoincrement,
    tenant {key} not null references tenants (tenant),
    kind {key} not null,
    id {key} not null,
    seq {int} not null,
    part {int} not null,
    user_id {key},
    agent {key},
    board {key},
    session_id {key},
    at {time} not null,
    expires_at {time},
    role {text} not null,
    author {text} not null,
    title {text} not null,
    text {text} not null,
    place {key},
    digest {blob}
) {strict};
create unique index search_items_by_thing on search_items (tenant, kind, id, seq, part);
-- Erasing a user or removing a session finds rows by these. Messages are found by their session.
create index search_items_by_user on search_items (tenant, user_id) where kind <> 'messages';
create index search_items_by_session on search_items (tenant, session_id) where kind <> 'messages';

-- The words of the rows up to `absorbed`; later ones are the tail, which a search reads itself. Which rows have a word is
-- all that is asked of it. `removed` counts the rows whose words are still in its pages, until the file is compacted.
create virtual table search_words using fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = "ascii tokenchars '._'"
);
-- By default, FTS5 rewrites a segment of which a tenth was deleted, in the transaction that deletes; other writers waited for
-- up to a second. Compacting the file does it in small steps.
insert into search_words (search_words, rank) values ('deletemerge', 0);
create table search_absorbed (number integer not null, removed integer not null) {strict};
insert into search_absorbed values (0, 0);

create table search_vectors (
    stamp integer primary key autoincrement,
    tenant {key} not null,
    number {int} not null unique references search_items (number) on delete cascade,
    user_id {key},
    model {key} not null,
    scale {real} not null,
    vector {blob} not null
) {strict};
create index search_vectors_by_model on search_vectors (tenant, model, stamp);
create index search_vectors_by_user on search_vectors (tenant, model, user_id, stamp);

create trigger search_items_removed after delete on search_items
when old.number <= (select number from search_absorbed) begin
    delete from search_words where rowid = old.number;
    update search_absorbed set removed = removed + 1;
end;
insert into search_behind (tenant, round) select tenant, 1 from tenants where true on conflict do nothing;
