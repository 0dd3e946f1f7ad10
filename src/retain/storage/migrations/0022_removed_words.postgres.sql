-- The words of a removed row go by their full key, one at a time.

-- up
-- A join of the removed rows with the words, or `word = any(...)`, may read all words of a user for each row when the
-- statistics are of a nearly empty table. With the full key there is one plan. Sequential scans are off because a plan
-- made for an almost empty table stays in use by its session while the table grows.
drop trigger search_items_removed on search_items;
create or replace function search_items_removed() returns trigger language plpgsql set enable_seqscan = off as $$
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

-- down
drop trigger search_items_removed on search_items;
create or replace function search_items_removed() returns trigger language plpgsql as $$
begin
    with lost as materialized (select tenant, owner, unnest(words) as word, number from gone)
    delete from search_words using lost
    where search_words.tenant = lost.tenant and search_words.owner = lost.owner and search_words.word = lost.word
    and search_words.number = lost.number;
    return null;
end $$;
create trigger search_items_removed after delete on search_items referencing old table as gone
for each statement execute function search_items_removed();
