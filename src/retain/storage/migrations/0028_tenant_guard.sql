-- On PostgreSQL, a statement without a tenant fails instead of finding no rows.

-- up
-- As every migration, this one is followed by the policies of storage/postgres/roles.py; tables that have older ones get new ones.
select 1;

-- down
select 1;
