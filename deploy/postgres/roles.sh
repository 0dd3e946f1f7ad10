#!/bin/sh
# Creates the roles of memorist when the database is created: one owns the tables, one runs the application.
set -eu

psql --set ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv database POSTGRES_DB
\getenv owner_password MEMORIST_OWNER_PASSWORD
\getenv login_password MEMORIST_LOGIN_PASSWORD
create role memorist_app nologin;
create role memorist_owner login password :'owner_password';
create role memorist_login login password :'login_password';
grant memorist_app to memorist_owner, memorist_login;
grant create on database :"database" to memorist_owner;
create extension if not exists vector;
SQL
