-- Items: JSON documents at a place, under a key; and search below a place.

-- up
-- area is `user:ID`, or `tenant`. A place is its names, each with U+001F after it, which no name has: so what is below a
-- place begins with it, and places are in the order of their names. ttl is how long an item lives, in microseconds, from
-- when it was written or last refreshed. source is who put what is there now.
-- fields are the paths of the value that are found by a search, all of it where null. The value is last: what a list
-- leaves out is read without it.
create table items (
    tenant {key} not null references tenants (tenant),
    area {key} not null,
    place {key} not null,
    key {key} not null,
    version {int} not null,
    ttl {int},
    expires_at {time},
    created_at {time} not null,
    updated_at {time} not null,
    source {text} not null,
    fields {json},
    value {json} not null,
    primary key (tenant, area, place, key)
) {strict};
create index items_by_expiry on items (tenant, expires_at) where expires_at is not null;

-- Where a thing is, for those that have a place: its area and the place, as above.
alter table search_items add column place {key};

-- down
-- Deletes nothing: a step suspends row-level security only for the tables that it names, and the trigger of
-- search_items changes this one.
delete from search_words where 1 = 0;
delete from search_items where kind = 'items';
alter table search_items drop column place;
drop table items;
