"""Errors, settings, ids, clock, tokens, canonical JSON, masking and logging.

This layer imports no other.
"""
