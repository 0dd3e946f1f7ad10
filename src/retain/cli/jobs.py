"""`retain jobs`: run the background jobs that are due, once or every few seconds."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from retain.api.rendering import plain, progress, show, table
from retain.base.errors import Invalid, ModelError, StorageError
from retain.cli.command import EVERY, Arguments, open_memory, tenants
from retain.jobs.runner import Worked, Worker

ABOUT = "Run the background jobs that are due: vectors, summaries, consolidation."
EXAMPLE = "retain jobs --every 30 --all-tenants"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--every": {
        "type": float,
        "metavar": "SECONDS",
        "help": "again and again, with a pause of so many seconds",
    },
    **EVERY,
}


def jobs(arguments: Arguments) -> int:
    """Do what is due; the exit status is a model's when one failed."""
    every = arguments.every
    if every is not None and not 0 < every < 1_000_000:
        raise Invalid(field="--every", problem="must be a number of seconds above 0")
    with open_memory(arguments) as memory:
        worker = Worker(memory.services)
        if every is None:
            with progress("working") as bar:
                worked = worker.run(tenants(arguments, memory), bar)
            _show(worked, arguments)
            return ModelError.exit_code if worked.failed else 0
        with _stoppable():
            try:
                while True:
                    _round(worker, tenants(arguments, memory), arguments)
                    time.sleep(every)
            except KeyboardInterrupt:
                print("Stopped.", file=sys.stderr)
    return 0


def _round(worker: Worker, chosen: list[str] | None, arguments: Arguments) -> None:
    """One round; a database that is away for a while is a reason to say so, and to try again in the next."""
    try:
        worked = worker.run(chosen)
    except StorageError as error:
        print(f"retain: {plain(str(error))}", file=sys.stderr, flush=True)
        return
    if worked.done or worked.failed:
        _show(worked, arguments)
        sys.stdout.flush()


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does: whatever is not committed at that moment never happened."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(worked: Worked, arguments: Arguments) -> None:
    if arguments.json:
        show(worked, json_wanted=True)
        return
    rows = [
        (name, str(one.done), str(one.left), str(one.failed)) for name, one in worked.jobs.items()
    ]
    table(("job", "done", "left", "failed"), rows)
    for error in worked.errors:
        print(f"retain: {plain(error)}", file=sys.stderr)
