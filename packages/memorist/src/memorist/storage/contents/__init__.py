"""Large contents: small ones in the database, large ones in files."""
