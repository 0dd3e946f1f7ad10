"""Other values for the fixed limits of memorist.base.limits, in this process or another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from memorist.base import limits as fixed_limits

Limited = Callable[..., None]


def write_limits(limits: Mapping[str, float], folder: Path) -> None:
    """Write a module that sets limits in each Python process with the folder in PYTHONPATH."""
    lines = ["from memorist.base import limits"]
    lines += [f"limits.{name} = {value!r}" for name, value in limits.items()]
    (folder / "sitecustomize.py").write_text("\n".join(lines))


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Limited:
    """Set fixed limits of memorist.base.limits for one test, as in `limited(MAX_BATCH=3)`."""

    def set_limits(**values: float) -> None:
        for name, value in values.items():
            monkeypatch.setattr(fixed_limits, name, value)

    return set_limits
