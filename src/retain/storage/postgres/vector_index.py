"""An approximate vector index, for more than a million vectors on a server with pgvector.

Such an index makes writing a vector many times dearer, and comparing a million one by one takes about 0.1 s: so it is made
only above that. The working role owns nothing, so this is the owner's work, at each `retain migrate up`: tables grow,
and a server may get the extension later. Nothing here ever fails: without it, search is exact.
"""

from __future__ import annotations

# How many rows there are is what the server last counted: row-level security hides them from the owner too. The column makes
# itself of the bytes that are stored anyway, so whoever writes a vector need not know of it; the scale is
# left out, for it changes no direction. The type is named with its schema, because a restore knows no search path. Before
# 0.8, a filter could leave an index's answer empty.
SCRIPT = """do $$
declare size int;
begin
    if (select reltuples from pg_class where oid = 'search_vectors'::regclass) < 1000000 then
        return;
    end if;
    if not exists (select 1 from pg_extension where extname = 'vector')
        and exists (select 1 from pg_available_extensions where name = 'vector') then
        create extension vector schema public;
    end if;
    if to_regtype('public.halfvec') is null or not exists (
        select 1 from pg_extension where extname = 'vector'
        and (string_to_array(extversion, '.'))[1:2]::int[] >= array[0, 8]) then
        return;
    end if;
    create or replace function search_near(vector bytea) returns halfvec language sql immutable parallel safe as $near$
        select array_agg(
            get_byte(vector, place) - case when get_byte(vector, place) > 127 then 256 else 0 end)::public.halfvec
        from generate_series(0, length(vector) - 1) place
    $near$;
    alter table search_vectors add column if not exists near halfvec generated always as (search_near(vector)) stored;
    foreach size in array array[256, 384, 512, 768, 1024, 1536, 3072] loop
        execute format('create index if not exists search_vectors_near_%1$s on search_vectors using hnsw '
            '((near::halfvec(%1$s)) halfvec_cosine_ops) where octet_length(vector) = %1$s', size);
    end loop;
exception when others then raise notice 'search goes on without pgvector: %', sqlerrm;
end $$;"""
