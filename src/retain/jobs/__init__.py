"""Background jobs: each is a query for what is due, never a queue."""
