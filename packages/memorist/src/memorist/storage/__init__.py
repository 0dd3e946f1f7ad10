"""Storage: the database protocol, its engines for SQLite and PostgreSQL, and stored contents."""
