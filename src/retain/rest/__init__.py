"""Every verb of every kind over HTTP, from the table of ways, and the document that says so."""
