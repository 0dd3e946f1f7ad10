"""What goes out: the context that a model is given, shared inside a token budget, and the report that explains it."""
