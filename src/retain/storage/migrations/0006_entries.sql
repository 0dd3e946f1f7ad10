-- What an agent remembers for itself, the boards that agents share, and proposals to turn journal entries into core ones.

-- up
create table entries (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    agent {key} not null,
    kind {key} not null check (kind in ('core', 'journal', 'whiteboard')),
    board {key},
    content {text} not null,
    tokens {int} not null,
    user_id {key},
    source {text} not null,
    version {int} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, id)
) {strict};
create index entries_by_agent on entries (tenant, agent, kind, created_at, id);
create index entries_by_board on entries (tenant, board, created_at, id) where board is not null;
create index entries_by_user on entries (tenant, user_id) where user_id is not null;

create table boards (
    tenant {key} not null references tenants (tenant),
    board {key} not null,
    agent {key} not null,
    created_at {time} not null,
    primary key (tenant, board, agent)
) {strict};
create index boards_by_agent on boards (tenant, agent);

-- sources are the ids of the journal entries a proposal came from, entry_id the core entry it became.
create table consolidations (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    agent {key} not null,
    user_id {key},
    status {key} not null check (status in ('proposed', 'accepted', 'refused', 'undone')),
    content {text} not null,
    sources {json} not null,
    entry_id {key},
    model {text} not null,
    created_at {time} not null,
    decided_at {time},
    primary key (tenant, id)
) {strict};
create index consolidations_by_agent on consolidations (tenant, agent, created_at, id);
create index consolidations_by_user on consolidations (tenant, user_id) where user_id is not null;

-- down
drop table consolidations;
drop table boards;
drop table entries;
