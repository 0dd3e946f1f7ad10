"""Use a real disk: killed, cut off or filled databases are not kept in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on the machine's own disk."""
    with tempfile.TemporaryDirectory(prefix="memorist-chaos-") as folder:
        yield Path(folder)
