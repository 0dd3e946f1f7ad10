"""Search: one index for every kind, read by words and by vectors, ranked by learned weights."""
