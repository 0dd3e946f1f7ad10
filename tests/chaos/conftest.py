"""Here a disk is a disk: what is killed, cut off or filled up is not kept in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on the machine's own disk."""
    with tempfile.TemporaryDirectory(prefix="retain-chaos-") as folder:
        yield Path(folder)
