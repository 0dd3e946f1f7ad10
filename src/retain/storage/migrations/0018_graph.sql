-- A graph of what is known: entities with observations, and relations between names.

-- up
-- user_id is '' for the graph of the whole tenant. number is the place of an entity in its graph. Several may have one name:
-- whoever brought them at once meant so; the first of them is the one that is observed.
create table graph_entities (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    number {int} not null,
    name {key} not null,
    type {text} not null,
    source {text} not null,
    created_at {time} not null,
    updated_at {time} not null,
    primary key (tenant, id)
) {strict};
create index graph_entities_by_name on graph_entities (tenant, user_id, name);
create index graph_entities_by_number on graph_entities (tenant, user_id, number);

create table graph_observations (
    tenant {key} not null,
    entity_id {key} not null,
    number {int} not null,
    text {text} not null,
    created_at {time} not null,
    primary key (tenant, entity_id, number),
    foreign key (tenant, entity_id) references graph_entities (tenant, id) on delete cascade
) {strict};

-- A relation is between names: there need be no entity of that name yet.
create table graph_relations (
    tenant {key} not null references tenants (tenant),
    id {key} not null,
    user_id {key} not null,
    number {int} not null,
    start {key} not null,
    target {key} not null,
    type {text} not null,
    created_at {time} not null,
    primary key (tenant, id)
) {strict};
create index graph_relations_by_start on graph_relations (tenant, user_id, start);
create index graph_relations_by_target on graph_relations (tenant, user_id, target);
create index graph_relations_by_number on graph_relations (tenant, user_id, number);

-- down
-- Deletes nothing: a step suspends row-level security only for the tables that it names, and the trigger of
-- search_items changes this one.
delete from search_words where 1 = 0;
delete from search_items where kind = 'graph';
drop table graph_relations;
drop table graph_observations;
drop table graph_entities;
