"""Errors, settings, ids, clock, tokens, canonical JSON, masking and logging: the layer that imports no other."""
