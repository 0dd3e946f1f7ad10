"""Checkpoints: the saved state of graph threads."""
