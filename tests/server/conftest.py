"""Fixtures of the server tests."""

from tests.calling import app, calling, http  # noqa: F401
