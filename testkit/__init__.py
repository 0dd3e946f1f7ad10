"""Fixtures and helpers that the tests of every package share. Not published."""
