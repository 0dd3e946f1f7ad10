-- What ranking needs to know about a row's text, stored when the row is indexed.

-- up
-- Existing rows get a digest when the index is completed. Until then, a search computes it.
alter table search_items add column digest {blob};
insert into search_behind (tenant, round) select tenant, 1 from tenants where true
on conflict (tenant) do update set round = search_behind.round + 1;

-- down
alter table search_items drop column digest;
