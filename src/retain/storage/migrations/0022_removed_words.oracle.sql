-- PostgreSQL removes words in another way from here on. Here nothing changes; all engines count the same steps.

-- up
select 1;

-- down
select 1;
