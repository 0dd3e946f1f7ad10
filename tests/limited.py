"""The `retain` command with other values for the fixed limits of retain.base.limits."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path


def command_with(limits: Mapping[str, float]) -> list[str]:
    """Return the command that runs `retain` with these limits."""
    if not limits:
        return [str(Path(sys.executable).with_name("retain"))]
    lines = [
        "from retain.base import limits",
        *(f"limits.{name} = {value!r}" for name, value in limits.items()),
        "from retain.cli.main import main",
        "raise SystemExit(main())",
    ]
    return [sys.executable, "-c", "\n".join(lines)]
