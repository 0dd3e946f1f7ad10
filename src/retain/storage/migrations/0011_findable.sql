-- What the index may lack, and what it made unnecessary.

-- up
-- Who erases a user, or removes a session, finds the rows by these. Messages are found by their session: an index less to
-- write for each of them.
create index search_items_by_user on search_items (tenant, user_id) where kind <> 'messages';
create index search_items_by_session on search_items (tenant, session_id) where kind <> 'messages';

-- Tenants with things that were not written by way of the index: from before there was one, or by an import. `round` counts
-- how often that happened, so that whoever filled the index knows whether it was all.
-- Rows up to the number `old` have words of an older analysis, and get new ones, the newest first: a version that reads
-- words in another way has a migration that sets it to the newest number of each tenant.
create table search_behind (
    tenant {key} not null primary key references tenants (tenant),
    round {int} not null,
    old {int} not null default 0
) {strict};
insert into search_behind (tenant, round) select tenant, 1 from tenants;

-- When everything in a tenant had its vector for the last time.
create table search_embedded (
    tenant {key} not null primary key references tenants (tenant),
    at {time} not null
) {strict};

-- References are found by the index now.
alter table refs drop column words;

-- down
alter table refs add column words {text} not null default '';
drop table search_embedded;
drop table search_behind;
drop index search_items_by_session;
drop index search_items_by_user;
