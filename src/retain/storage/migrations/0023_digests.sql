-- What ranking needs to know about a row's text, stored when the row is indexed.

-- up
-- Existing rows get a digest from a job. Until then, a search computes it. Round 0 means that a search needs nothing of what is left to do.
alter table search_items add column digest {blob};
insert into search_behind (tenant, round) select tenant, 0 from tenants where true on conflict do nothing;

-- down
alter table search_items drop column digest;
