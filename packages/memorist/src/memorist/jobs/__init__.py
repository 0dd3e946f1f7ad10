"""Background jobs: each is a query for due work, never a queue."""
