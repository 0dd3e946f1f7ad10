"""What happens later: each a query for what is due, never a queue."""
