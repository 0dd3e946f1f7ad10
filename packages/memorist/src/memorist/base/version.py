"""The version of memorist."""

from __future__ import annotations

VERSION = "0.7.0"
"""The only place that names the version; the package metadata is built from it."""


def version() -> str:
    """Return the name and version that `--version` prints."""
    return f"memorist {VERSION}"
