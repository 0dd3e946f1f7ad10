"""The learning processes that the tests race and kill: `python -m tests.chaos.learning '{"url": …}'`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from memorist import Memory
from memorist.learning import batch as learning
from memorist.models import Models
from memorist.testing import ModelRequest, ScriptedModel
from testkit.databases import SETTINGS
from tests.chaos.writer import ROOT, Log

Mode = Literal["explicit", "model"]
TURN = re.compile(r"^\[(\d+)\] user(?:, \S+)?: I like (\w+)\.$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """The work of a learning process."""

    url: str
    log: str
    mode: Mode = "model"
    die: str = (
        ""  # "thinking": while the model answers; "committing": when nothing is committed yet
    )
    seconds: float = 0.0  # learn again and again for so long
    pause: float = 0.0  # seconds that the model takes to answer


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start a learning process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.learning", json.dumps(asdict(job))], cwd=ROOT
    )


def reply(request: ModelRequest) -> str:
    """Return what a faithful model learns from "I like …"."""
    facts = [
        {
            "subject": "user",
            "statement": f"The user likes {thing}.",
            "predicate": "likes",
            "object": thing,
            "messages": [int(seq)],
            "quote": f"I like {thing}",
        }
        for seq, thing in TURN.findall(request.prompt)
    ]
    return json.dumps({"facts": facts})


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    log = Log(job.log)

    def answer(request: ModelRequest) -> str:
        for seq, _ in TURN.findall(request.prompt):
            log.note("asked", seq)
        if job.die == "thinking":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(job.pause)
        return reply(request)

    if job.die == "committing":
        commit = learning.commit

        def dying(*arguments: Any) -> None:
            commit(*arguments)
            log.note("ran", "commit")
            os.kill(os.getpid(), signal.SIGKILL)

        setattr(learning, "commit", dying)  # noqa: B010 - it stands in for a function with types of its own
    settings = replace(SETTINGS, facts=job.mode, database=job.url)
    with Memory.open(
        settings=settings, models=Models(settings, summary=ScriptedModel(answer))
    ) as memory:
        log.note("up", "-")
        end = time.monotonic() + job.seconds
        while True:
            memory.run_jobs()
            if time.monotonic() >= end:
                return
            time.sleep(0.01)


if __name__ == "__main__":
    main()
