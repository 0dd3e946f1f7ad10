-- One index over every kind: a row for each thing that can be found, its words, and its vector.

-- up
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
    author {text} not null,
    role {text} not null,
    title {text} not null,
    text {text} not null,
    at {time} not null,
    expires_at {time},
    primary key (tenant, number)
) {strict};
create unique index search_items_by_thing on search_items (tenant, kind, id, seq, part);

-- Which rows have a word, by hashes of the word and of the user. A tsvector cannot serve here: under row-level security its
-- operator may not use an index, because it could leak what it compares; equality of numbers may.
create table search_words (
    tenant {key} not null,
    word bigint not null,
    owner bigint not null,
    number bigint not null,
    primary key (tenant, word, owner, number),
    foreign key (tenant, number) references search_items (tenant, number) on delete cascade
) {strict};
create index search_words_by_item on search_words (tenant, number);

create table search_vectors (
    tenant {key} not null,
    number bigint not null,
    stamp bigint not null generated always as identity,
    model {key} not null,
    scale {real} not null,
    vector {blob} not null,
    primary key (tenant, number),
    foreign key (tenant, number) references search_items (tenant, number) on delete cascade
) {strict};
create index search_vectors_by_model on search_vectors (tenant, model, stamp);

-- down
drop table search_vectors;
drop table search_words;
drop table search_items;
