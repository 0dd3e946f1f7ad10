#!/bin/sh
# Creates the roles of retain when the database is created: one owns the tables, one runs the application.
set -eu

psql --set ON_ERROR_STOP=1 --no-psqlrc --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
\getenv database POSTGRES_DB
\getenv owner_password RETAIN_OWNER_PASSWORD
\getenv login_password RETAIN_LOGIN_PASSWORD
create role retain_app nologin;
create role retain_owner login password :'owner_password';
create role retain_login login password :'login_password';
grant retain_app to retain_owner, retain_login;
grant create on database :"database" to retain_owner;
create extension if not exists vector;
SQL
