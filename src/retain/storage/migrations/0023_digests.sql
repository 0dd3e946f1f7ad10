-- What ranking needs of a row's text, stored when the row is written.

-- up
-- Rows from before get theirs when the index is completed; until then a search analyses them itself.
alter table search_items add column digest {blob};
insert into search_behind (tenant, round) select tenant, 1 from tenants where true
on conflict (tenant) do update set round = search_behind.round + 1;

-- down
alter table search_items drop column digest;
