-- Events: what was added, changed, learned, removed or erased, and the webhooks that are told.

-- up
-- The number of the last event of a tenant, and the one up to which events were removed because of their age. Updating this row
-- locks it until the commit, so events become visible in the order of their numbers.
create table event_numbers (
    tenant {key} not null primary key references tenants (tenant),
    last_number {int} not null,
    removed_to {int} not null
) {strict};

-- user_id is the owner of what changed, so that the event is removed when they are erased.
create table events (
    tenant {key} not null references tenants (tenant),
    number {int} not null,
    type {key} not null,
    kind {key} not null,
    verb {key} not null,
    subject {text} not null,
    user_id {key},
    created_at {time} not null,
    primary key (tenant, number)
) {strict};

-- position is the last event that was delivered or given up; tries counts the failures of the next one. kinds are words with
-- commas between them; empty: all kinds. The secret is stored, because the server signs with it.
create table webhooks (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    url {text} not null,
    secret {key} not null,
    kinds {text} not null,
    position {int} not null,
    tries {int} not null,
    retry_at {time} not null,
    error {text} not null,
    paused {int} not null,
    created_at {time} not null,
    delivered_at {time},
    primary key (tenant, id)
) {strict};

-- Events that a webhook did not accept. replay is 1 if it shall be sent once more.
create table dead_letters (
    tenant {key} not null,
    webhook_id {key} not null,
    number {int} not null,
    type {key} not null,
    kind {key} not null,
    verb {key} not null,
    subject {text} not null,
    user_id {key},
    created_at {time} not null,
    error {text} not null,
    failed_at {time} not null,
    replay {int} not null,
    primary key (tenant, webhook_id, number),
    foreign key (tenant, webhook_id) references webhooks (tenant, id) on delete cascade
) {strict};
create index dead_letters_to_replay on dead_letters (tenant, webhook_id, number) where replay = 1;

-- down
drop table dead_letters;
drop table webhooks;
drop table events;
drop table event_numbers;
