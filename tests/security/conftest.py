"""Fixtures of the server tests, for the security tests."""

from __future__ import annotations

from tests.calling import app, calling, http

__all__ = ["app", "calling", "http"]
