-- The text of a message is stored once: see retain/search/sqlite.py. Removing rows does not rewrite the words of others.

-- up
-- Existing rows lose their copies in the background. Round 0 means that a search needs nothing of what is left to do.
insert into search_behind (tenant, round) select tenant, 0 from tenants where true on conflict do nothing;

-- By default, FTS5 rewrites a segment of which a tenth was deleted, in the transaction that deletes; other writers waited for
-- up to a second. Compacting the file does it in small steps.
insert into search_words (search_words, rank) values ('deletemerge', 0);

-- down
insert into search_words (search_words, rank) values ('deletemerge', 10);
update search_items set session_id = id where kind = 'messages' and session_id is null;
update search_items set text = coalesce((
    select content ->> 'text' from messages where messages.tenant = search_items.tenant
    and messages.session_id = search_items.id and messages.seq = search_items.seq), '')
where kind = 'messages' and text = '';
