-- The text of a message is stored once: see retain/search/sqlite.py.

-- up
-- Existing rows lose their copies in the background, when the index is completed.
insert into search_behind (tenant, round) select tenant, 1 from tenants where true
on conflict (tenant) do update set round = search_behind.round + 1;

-- down
update search_items set session_id = id where kind = 'messages' and session_id is null;
update search_items set text = (
    select content ->> 'text' from messages where messages.tenant = search_items.tenant
    and messages.session_id = search_items.id and messages.seq = search_items.seq)
where kind = 'messages' and text = '';
