"""Fixtures of the MCP tests."""

from tests.calling import app, calling, http  # noqa: F401
