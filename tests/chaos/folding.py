"""The folding processes that the tests race and kill: `python -m tests.chaos.folding '{"url": …}'`.

Each notes in a log that survives it which messages its model was given.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memorist import Memory
from memorist.base.errors import NotFound
from memorist.kinds import summaries
from memorist.models import Models
from memorist.testing import ModelRequest, ScriptedModel
from testkit.databases import SETTINGS
from tests.chaos.writer import ROOT, SESSION, Log, scope_of


@dataclass(frozen=True)
class Job:
    """The work of a folding process."""

    url: str
    log: str
    name: str
    die: str = ""  # "thinking": while the model answers; "committing": when every statement ran and nothing is committed
    upto: int = 0  # fold again and again until so many messages are covered
    pause: float = 0.0  # seconds that the model takes to answer


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start a folding process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.folding", json.dumps(asdict(job))], cwd=ROOT
    )


def seen(request: ModelRequest) -> list[int]:
    """Return the message numbers in a prompt."""
    return [int(n) for n in re.findall(r"m(\d+)m", request.prompt)]


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    log = Log(job.log)

    def answer(request: ModelRequest) -> str:
        numbers = seen(request)
        log.note("asked", f"{numbers[0]}-{numbers[-1]}", len(numbers))
        if job.die == "thinking":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(job.pause)
        return f"What was said so far, as it was folded by {job.name}."

    if job.die == "committing":
        commit = summaries._commit

        def dying(*arguments: Any) -> bool:
            commit(*arguments)
            log.note("ran", "commit")
            os.kill(os.getpid(), signal.SIGKILL)
            return True

        setattr(summaries, "_commit", dying)  # noqa: B010 - it stands in for a function with a name and types of its own
    settings = replace(SETTINGS, summary_enabled=True, database=job.url)
    with Memory.open(
        settings=settings, models=Models(settings, summary=ScriptedModel(answer))
    ) as memory:
        me = scope_of(memory)
        log.note("up", job.name)
        while True:
            try:
                done = me.summaries.fold(SESSION)
            except NotFound:
                time.sleep(0.01)
                continue
            if done.covers_to >= job.upto:
                return
            time.sleep(0.005)


def is_up(log: Path) -> bool:
    """Return whether a process has opened the database."""
    return log.exists() and log.read_text().startswith("up ")


def notes(log: Path) -> list[str]:
    """Return the message ranges that a process's model was given, as first-last, in order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line.split()[2] for line in lines if line.startswith("asked ")]


if __name__ == "__main__":
    main()
