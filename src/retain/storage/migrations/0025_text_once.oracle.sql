-- SQLite stores the text of a message once from here on. All engines count the same steps, and store shorter digests.

-- up
-- Rows get new digests in the background. Round 0 means that a search needs nothing of what is left to do.
insert into search_behind (tenant, round) select tenant, 0 from tenants where true on conflict do nothing;

-- down
select 1;
