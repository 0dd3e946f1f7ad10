"""Knowledge: documents, split into passages."""
