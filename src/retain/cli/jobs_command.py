"""`retain jobs`: run the background jobs that are due, once or every few seconds."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from retain.base.errors import Invalid, ModelError, StorageError
from retain.cli.command import ALL_TENANTS, Arguments, Command, open_memory, tenants
from retain.cli.output import plain, print_table, progress, show
from retain.jobs.job import Progress
from retain.jobs.runner import JobResults, JobRunner
from retain.memory import Memory

JOIN_SECONDS = 2.0
_OUTPUT = threading.Lock()
"""Keeps the lines of two threads apart."""


def jobs(arguments: Arguments) -> int:
    """Run the jobs that are due; the exit status says if a model failed."""
    every = arguments.every
    if every is not None and not 0 < every < 1_000_000:
        raise Invalid(field="--every", problem="must be a number of seconds above 0")
    with open_memory(arguments) as memory:
        if every is None:
            with progress("working") as bar:
                results = JobRunner(memory.services).run(tenants(arguments, memory), bar)
            _show(results, arguments)
            return ModelError.exit_code if results.failed else 0
        runner = JobRunner.without_webhooks(memory.services)
        with stop_on_sigterm():
            try:
                with _deliveries(memory, arguments):
                    while True:
                        _run_once(runner, tenants(arguments, memory), arguments)
                        time.sleep(every)
            except KeyboardInterrupt:
                print("Stopped.", file=sys.stderr)
    return 0


def _run_once(
    runner: JobRunner,
    chosen: list[str] | None,
    arguments: Arguments,
    progress: Progress | None = None,
) -> None:
    """Run the due jobs once; if the database is unavailable, print the error and continue."""
    try:
        results = runner.run(chosen, progress)
    except StorageError as error:
        print(f"retain: {plain(str(error))}", file=sys.stderr, flush=True)
        return
    if results.done or results.failed:
        with _OUTPUT:
            _show(results, arguments)
            sys.stdout.flush()


@contextmanager
def _deliveries(memory: Memory, arguments: Arguments) -> Iterator[None]:
    """Send events to webhooks in a thread, so that slow receivers do not delay other jobs."""
    if memory.settings.events == "off":
        yield
        return
    stopping = threading.Event()
    runner = JobRunner.of_webhooks(memory.services)

    def check(done: int, total: int) -> None:
        if stopping.is_set():
            raise _Stopped

    def repeat() -> None:
        while not stopping.is_set():
            try:
                _run_once(runner, tenants(arguments, memory), arguments, check)
            except Exception as error:  # the next run tries again
                if stopping.is_set():
                    return
                text = plain(str(error) or type(error).__name__)
                print(f"retain: {text}", file=sys.stderr, flush=True)
            stopping.wait(arguments.every)

    thread = threading.Thread(target=repeat, name="retain-webhooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(JOIN_SECONDS)


class _Stopped(Exception):
    """Raised inside a run to end it."""


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
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
