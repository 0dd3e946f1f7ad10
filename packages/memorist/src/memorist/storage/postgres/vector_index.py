"""An approximate vector index, for more than a million vectors on a server with pgvector.

Such an index makes writing a vector many times slower, and comparing a million vectors one by one
takes only about 0.1 s. So it is created only above that number. The application's role owns
nothing, so the owner creates the index, at each `memorist migrate up`: tables grow, and a server may
get the extension later. Nothing here fails: without the index, search is exact.
"""

from __future__ import annotations

# The number of rows is the server's last estimate: row-level security hides the rows even from the
# owner. The column is generated from the stored bytes, so writers need not know of it; the scale is
# left out, because it does not change the direction of a vector. The type is qualified with its
# schema, because a restore has no search path. Before pgvector 0.8, a filter could leave the result
# of an index empty.
SCRIPT = """do $$
declare
    size int;
    vectors float8 := (select reltuples from pg_class where oid = 'search_vectors'::regclass);
begin
    if exists (select 1 from pg_extension where extname = 'citus') then  -- the rows are on its workers
        vectors := (select sum(result::float8) from run_command_on_shards('search_vectors',
            'select reltuples from pg_class where oid = to_regclass(''%s'')') where success);
    end if;
    if coalesce(vectors, 0) < 1000000 then  -- no sum without parts on workers
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
