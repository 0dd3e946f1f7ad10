-- Checkpoints: where the threads of a graph stand, step by step, so that a run can go on, go back or branch off.

-- up
-- One row for each namespace of a thread. `line` is a digest of whose it is, the thread and the namespace: names can be long,
-- and it stands in every key below. user_id is '' where it is no user's. updated_at is right to the hour.
create table threads (
    tenant {key} not null references tenants (tenant),
    line {key} not null,
    user_id {key} not null,
    thread {key} not null,
    ns {text} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, line)
) {strict};
create index threads_by_name on threads (tenant, user_id, thread);
create index threads_by_time on threads (tenant, updated_at);

-- versions says which version each channel has. data is what the framework's serializer made,
-- a character for each byte (and U+0100 for the byte 0), here and below.
create table checkpoints (
    tenant {key} not null,
    line {key} not null,
    id {key} not null,
    parent {key},
    type {key} not null,
    data {text} not null,
    metadata {json} not null,
    versions {json} not null,
    run_id {key},
    created_at {time} not null,
    primary key (tenant, line, id),
    foreign key (tenant, line) references threads (tenant, line) on delete cascade
) {strict};
create index checkpoints_by_run on checkpoints (tenant, run_id) where run_id is not null;

-- The value of a channel, once for each version of it: a step that leaves a channel alone stores nothing here.
create table channel_values (
    tenant {key} not null,
    line {key} not null,
    channel {key} not null,
    version {key} not null,
    type {key} not null,
    data {text} not null,
    primary key (tenant, line, channel, version),
    foreign key (tenant, line) references threads (tenant, line) on delete cascade
) {strict};

-- What tasks wrote after a checkpoint; they may come before the checkpoint itself does. path puts the tasks in order.
create table checkpoint_writes (
    tenant {key} not null,
    line {key} not null,
    checkpoint {key} not null,
    task {key} not null,
    idx {int} not null,
    path {text} not null,
    channel {key} not null,
    type {key} not null,
    data {text} not null,
    primary key (tenant, line, checkpoint, task, idx),
    foreign key (tenant, line) references threads (tenant, line) on delete cascade
) {strict};

-- down
drop table checkpoint_writes;
drop table channel_values;
drop table checkpoints;
drop table threads;
