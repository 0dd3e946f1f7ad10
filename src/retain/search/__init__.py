"""How it is found again: one index over every kind, by words and by meaning."""
