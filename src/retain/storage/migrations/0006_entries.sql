-- What an agent remembers for itself, the boards that agents share, and proposals to turn journal entries into core ones.

-- up
-- failures: how many answers of a model about the entry, as it is now, could not be used.
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
    failures {int} not null default 0,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, id)
) {strict};
create index entries_by_agent on entries (tenant, agent, kind, created_at, id);
create index entries_by_board on entries (tenant, board, created_at, id) where board is not null;
create index entries_by_user on entries (tenant, user_id) where user_id is not null;

-- A board has a row of its own, so that there is something to lock when two agents share a new one at once.
create table boards (
    tenant {key} not null references tenants (tenant),
    board {key} not null,
    created_at {time} not null,
    primary key (tenant, board)
) {strict};

create table board_members (
    tenant {key} not null,
    board {key} not null,
    agent {key} not null,
    created_at {time} not null,
    primary key (tenant, board, agent),
    foreign key (tenant, board) references boards (tenant, board) on delete cascade
) {strict};
create index board_members_by_agent on board_members (tenant, agent);

-- A proposal to keep what journal entries say; entry_id is the core entry it became. One that is passed has no content: its
-- entries were looked at, and nothing in them was worth keeping.
create table consolidations (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    agent {key} not null,
    user_id {key},
    source {text} not null,
    status {key} not null check (status in ('proposed', 'accepted', 'refused', 'undone', 'passed')),
    content {text} not null,
    entry_id {key},
    model {text} not null,
    created_at {time} not null,
    decided_at {time},
    primary key (tenant, id)
) {strict};
create index consolidations_by_agent on consolidations (tenant, agent, created_at, id);
create index consolidations_by_entry on consolidations (tenant, entry_id) where entry_id is not null;
create index consolidations_by_user on consolidations (tenant, user_id) where user_id is not null;

-- Which entries it came from: an entry is used once, whatever became of the proposal.
create table consolidation_sources (
    tenant {key} not null,
    entry_id {key} not null,
    consolidation_id {key} not null,
    number {int} not null,
    primary key (tenant, entry_id),
    foreign key (tenant, entry_id) references entries (tenant, id) on delete cascade,
    foreign key (tenant, consolidation_id) references consolidations (tenant, id) on delete cascade
) {strict};
create index consolidation_sources_by_consolidation on consolidation_sources (tenant, consolidation_id, number);

-- down
drop table consolidation_sources;
drop table consolidations;
drop table board_members;
drop table boards;
drop table entries;
