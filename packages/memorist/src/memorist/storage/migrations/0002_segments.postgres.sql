-- The former index, of words in a table.

-- up
update refs set searchable = substr(search_items.text, strpos(search_items.text, chr(10)) + 1)
from search_items
where search_items.tenant = refs.tenant and search_items.kind = 'refs' and search_items.id = refs.key and search_items.part = 0;
insert into search_behind (tenant, round) select tenant, 1 from tenants where true on conflict do nothing;
drop table search_vectors;
drop table search_words;
drop table search_items;
drop function search_items_removed();
-- On Citus, and with pgvector:
drop function if exists search_items_added();
drop function if exists search_near(bytea);

-- down
-- Rows are never changed: a thing that changes gets new rows with new numbers, and a number is never given twice, so what
-- is known of a number can be cached for ever. `id` and `seq` name the thing within its kind (a session and the number of a
-- message, a document and the number of a chunk); `part` counts the parts of a long one. `agent` is null for what every
-- agent may see, `board` names the whiteboard it is on.
create table search_items (
    tenant {key} not null references tenants (tenant),
    number bigint not null generated always as identity,
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
    owner integer not null default 0,
    words integer[] not null default '{}',
    place {key},
    digest {blob},
    primary key (tenant, number)
) {strict};
create unique index search_items_by_thing on search_items (tenant, kind, id, seq, part);
-- Erasing a user or removing a session finds rows by these. Messages are found by their session.
create index search_items_by_user on search_items (tenant, user_id) where kind <> 'messages';
create index search_items_by_session on search_items (tenant, session_id) where kind <> 'messages';

-- Which rows have a word, by hashes of the word and of the user. A tsvector cannot serve here: under row-level security its
-- operator may not use an index, because it could leak what it compares; equality of numbers may. Users come before words:
-- what one user writes goes to few pages of the index. A row keeps its own words, so that a trigger can remove them with it
-- by their key: an index by row would cost as much as they do, and a foreign key would be checked once for each of them.
create table search_words (
    number bigint not null,
    owner integer not null,
    word integer not null,
    tenant {key} not null,
    primary key (tenant, owner, word, number)
) {strict};

-- A join of the removed rows with the words, or `word = any(...)`, may read all words of a user for each row when the
-- statistics are of a nearly empty table. With the full key there is one plan. Sequential scans are off because a plan
-- made for an almost empty table stays in use by its session while the table grows.
create function search_items_removed() returns trigger language plpgsql set enable_seqscan = off as $$
declare
    removed_word integer;
begin
    foreach removed_word in array old.words loop
        delete from search_words
        where tenant = old.tenant and owner = old.owner and word = removed_word and number = old.number;
    end loop;
    return null;
end $$;
create trigger search_items_removed after delete on search_items
for each row execute function search_items_removed();

-- The stamp is the transaction that wrote the vector: what one reader has not seen yet is told by it, in whatever order
-- writers commit.
create table search_vectors (
    tenant {key} not null,
    number bigint not null,
    stamp bigint not null default (pg_current_xact_id()::text::bigint),
    user_id {key},
    model {key} not null,
    scale {real} not null,
    vector {blob} not null,
    primary key (tenant, number),
    foreign key (tenant, number) references search_items (tenant, number) on delete cascade
) {strict};
create index search_vectors_by_model on search_vectors (tenant, model, stamp, number);
create index search_vectors_by_user on search_vectors (tenant, model, user_id, stamp, number);
insert into search_behind (tenant, round) select tenant, 1 from tenants where true on conflict do nothing;
