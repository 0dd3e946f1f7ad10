"""The fixtures of the server's own tests, for those that attack it."""

from __future__ import annotations

from tests.calling import app, calling, http

__all__ = ["app", "calling", "http"]
