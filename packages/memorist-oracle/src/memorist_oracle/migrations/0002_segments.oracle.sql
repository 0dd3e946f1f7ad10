-- The former index, of words in a table.

-- up
-- A content after the summary can be empty, which would be null here.
update refs set searchable = (
    select substr(search_items.text, strpos(search_items.text, chr(10)) + 1) from search_items
    where search_items.tenant = refs.tenant and search_items.kind = 'refs' and search_items.id = refs.key
    and search_items.part = 0)
where exists (
    select 1 from search_items
    where search_items.tenant = refs.tenant and search_items.kind = 'refs' and search_items.id = refs.key
    and search_items.part = 0 and length(search_items.text) > strpos(search_items.text, chr(10)));
insert into search_behind (tenant, round) select tenant, 1 from tenants where true on conflict do nothing;
drop table search_vectors;
drop table search_words;
drop table search_items;

-- down
-- Rows are never changed: a thing that changes gets new rows with new numbers. `id` and `seq` name the thing within its kind (a
-- session and the number of a message, a document and the number of a chunk); `part` counts the parts of a long one. `agent` is
-- null for what every agent may see, `board` names the whiteboard it is on.
create table search_items (
    tenant {key} not null references tenants (tenant),
    number {int} generated always as identity not null,
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
    digest {blob},
    primary key (tenant, number)
);
create unique index search_items_by_thing on search_items (tenant, kind, id, seq, part);
-- Erasing a user or removing a session finds rows by these. Messages are found by their session.
create index search_items_by_user on search_items (tenant, user_id) where kind <> 'messages';
create index search_items_by_session on search_items (tenant, session_id) where kind <> 'messages';

-- Which rows have a word, by hashes of the word and of the user.
create table search_words (
    tenant {key} not null,
    owner {int} not null,
    word {int} not null,
    number {int} not null,
    primary key (tenant, owner, word, number),
    foreign key (tenant, number) references search_items (tenant, number) on delete cascade
);
create index search_words_by_row on search_words (tenant, number);

-- Writers take a lock of the tenant first, so its stamps are committed in their order. A stamp is never used again.
create table search_vectors (
    tenant {key} not null,
    number {int} not null,
    stamp {int} generated always as identity not null,
    user_id {key},
    model {key} not null,
    scale {real} not null,
    vector {blob} not null,
    primary key (tenant, number),
    foreign key (tenant, number) references search_items (tenant, number) on delete cascade
);
create index search_vectors_by_model on search_vectors (tenant, model, stamp);
create index search_vectors_by_user on search_vectors (tenant, model, user_id, stamp);
insert into search_behind (tenant, round) select tenant, 1 from tenants where true on conflict do nothing;
