"""`retain jobs`: run the background jobs that are due, once or every few seconds."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from retain.base.errors import Invalid, ModelError, StorageError
from retain.cli.command import ALL_TENANTS, Arguments, Command, open_memory, tenants
from retain.cli.output import plain, print_table, progress, show
from retain.jobs.runner import JobResults, JobRunner


def jobs(arguments: Arguments) -> int:
    """Run the jobs that are due; the exit status says if a model failed."""
    every = arguments.every
    if every is not None and not 0 < every < 1_000_000:
        raise Invalid(field="--every", problem="must be a number of seconds above 0")
    with open_memory(arguments) as memory:
        runner = JobRunner(memory.services)
        if every is None:
            with progress("working") as bar:
                results = runner.run(tenants(arguments, memory), bar)
            _show(results, arguments)
            return ModelError.exit_code if results.failed else 0
        with _stop_on_sigterm():
            try:
                while True:
                    _run_once(runner, tenants(arguments, memory), arguments)
                    time.sleep(every)
            except KeyboardInterrupt:
                print("Stopped.", file=sys.stderr)
    return 0


def _run_once(runner: JobRunner, chosen: list[str] | None, arguments: Arguments) -> None:
    """Run the due jobs once; if the database is unavailable, print the error and continue."""
    try:
        results = runner.run(chosen)
    except StorageError as error:
        print(f"retain: {plain(str(error))}", file=sys.stderr, flush=True)
        return
    if results.done or results.failed:
        _show(results, arguments)
        sys.stdout.flush()


@contextmanager
def _stop_on_sigterm() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C; uncommitted work is rolled back."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous_handler = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _show(results: JobResults, arguments: Arguments) -> None:
    if arguments.json:
        show(results, json_wanted=True)
        return
    rows = [
        (name, str(job.done), str(job.left), str(job.failed)) for name, job in results.jobs.items()
    ]
    print_table(("job", "done", "left", "failed"), rows)
    for error in results.errors:
        print(f"retain: {plain(error)}", file=sys.stderr)


COMMANDS = (
    Command(
        "jobs",
        jobs,
        "retain jobs --every 30 --all-tenants",
        ("tenant",),
        {
            "--every": {
                "type": float,
                "metavar": "SECONDS",
                "help": "repeat, with a pause of this many seconds",
            },
            **ALL_TENANTS,
        },
    ),
)
