"""Fixtures of the API tests."""

from tests.calling import app, calling, http  # noqa: F401
