"""The Oracle engine of memorist (experimental), found by the scheme of `oracle://` addresses."""
