-- SQLite stores the text of a message once from here on. Here nothing changes; both engines count the same steps.

-- up
select 1;

-- down
select 1;
