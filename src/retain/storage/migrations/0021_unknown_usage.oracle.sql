-- Model calls of which tokens and latency are not known.

-- up
alter table interactions alter column latency_ms drop not null;
alter table interactions alter column tokens_in drop not null;
alter table interactions alter column tokens_out drop not null;

-- down
update interactions set latency_ms = coalesce(latency_ms, 0), tokens_in = coalesce(tokens_in, 0),
    tokens_out = coalesce(tokens_out, 0);
alter table interactions alter column latency_ms set not null;
alter table interactions alter column tokens_in set not null;
alter table interactions alter column tokens_out set not null;
