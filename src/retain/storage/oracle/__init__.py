"""The Oracle engine (experimental)."""
