-- The text of a message is stored once: see retain/search/sqlite.py.

-- up
-- Existing rows lose their copies in the background. Round 0 means that a search needs nothing of what is left to do.
insert into search_behind (tenant, round) select tenant, 0 from tenants where true on conflict do nothing;

-- down
update search_items set session_id = id where kind = 'messages' and session_id is null;
update search_items set text = (
    select content ->> 'text' from messages where messages.tenant = search_items.tenant
    and messages.session_id = search_items.id and messages.seq = search_items.seq)
where kind = 'messages' and text = '';
