"""The installed version of retain."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the name and version that `--version` prints."""
    return f"retain {metadata.version('retain')}"
