-- Agents: a name of their model for people, and whether they answer.

-- up
alter table agents add column model_label {text} not null default '';
alter table agents add column active {int} not null default 1 check (active in (0, 1));

-- down
alter table agents drop column active;
alter table agents drop column model_label;
