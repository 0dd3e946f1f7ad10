"""Read a Containerfile: its stages, steps and settings."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

STEPS = ("RUN", "COPY", "WORKDIR", "ENV", "USER")
"""Instructions whose order matters."""


@dataclass
class Stage:
    """One stage: its base image, its steps in order, and the settings of the image."""

    image: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    user: str = "root"
    folder: str = "/"
    volumes: list[str] = field(default_factory=list)
    ports: list[str] = field(default_factory=list)
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)
    stop_signal: str = "SIGTERM"


def parse(text: str) -> list[Stage]:
    """Return the stages; raise ValueError for an instruction that is not supported."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    stages: list[Stage] = []
    for line in joined.splitlines():
        if not line.strip():
            continue
        instruction, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if instruction == "FROM":
            image, _, name = rest.partition(" AS ")
            stages.append(Stage(image.strip(), name.strip()))
        else:
            _add(stages[-1], instruction, rest)
    return stages


def _add(stage: Stage, instruction: str, rest: str) -> None:
    if instruction in STEPS:
        stage.steps.append((instruction, rest))
    match instruction:
        case "RUN" | "COPY":
            pass
        case "ENV":
            stage.env |= assignments(rest)
        case "USER":
            stage.user = rest
        case "WORKDIR":
            stage.folder = rest
        case "VOLUME":
            stage.volumes.append(rest)
        case "EXPOSE":
            stage.ports.append(rest)
        case "STOPSIGNAL":
            stage.stop_signal = rest
        case "ENTRYPOINT":
            stage.entrypoint = json.loads(rest)
        case "CMD":
            stage.command = json.loads(rest)
        case "HEALTHCHECK":
            stage.health = json.loads(rest.partition("CMD ")[2])
        case _:
            raise ValueError(f"The instruction {instruction} is not supported.")


def assignments(text: str) -> dict[str, str]:
    """Return the variables of an ENV instruction."""
    pairs = [word.partition("=") for word in shlex.split(text)]
    return {name: value for name, _, value in pairs}


def ignore_patterns(text: str) -> list[str]:
    """Return the patterns of a .dockerignore file."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def is_ignored(path: Path, patterns: list[str]) -> bool:
    """Return whether a path of the build context, or a folder above it, matches a pattern."""
    parts = path.parts
    for pattern in patterns:
        if pattern.startswith("**/"):
            if any(fnmatch.fnmatchcase(part, pattern[3:]) for part in parts):
                return True
        elif path == Path(pattern) or path.is_relative_to(pattern):
            return True
    return False
