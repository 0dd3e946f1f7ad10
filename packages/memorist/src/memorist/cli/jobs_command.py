"""`memorist jobs`: run the background jobs that are due, once or every few seconds.

Written by hand because the verb `jobs.run` runs the jobs of one tenant once.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from memorist.base.errors import Invalid, ModelError, NotFound
from memorist.cli.command import ALL_TENANTS, Arguments, Command, open_memory, tenants
from memorist.cli.output import plain, print_table, progress, show
from memorist.jobs.job import JobResults, Stopped
from memorist.jobs.runner import JobRunner
from memorist.memory import Memory

JOIN_SECONDS = 2.0
_OUTPUT = threading.Lock()
"""Keeps the lines of two threads apart."""


def jobs(arguments: Arguments) -> int:
    """Run the jobs that are due; the exit status says if one failed."""
    every = arguments.every
    if every is not None and not 0 < every < 1_000_000:
        raise Invalid(field="--every", problem="must be a number of seconds above 0")
    with open_memory(arguments) as memory:
        chosen = tenants(arguments, memory)
        if arguments.tenant is not None and arguments.tenant not in memory.tenants():
            raise NotFound(what="tenant", id=arguments.tenant)
        if every is None:
            with progress("working") as bar:
                results = JobRunner(memory.services).run(chosen, bar)
            _show(results, arguments)
            return ModelError.exit_code if results.failed else 0
        with stop_on_sigterm():
            try:
                _repeat_all(memory, chosen, arguments)
            except KeyboardInterrupt:
                print("Stopped.", file=sys.stderr)
    return 0


def _repeat_all(memory: Memory, chosen: list[str] | None, arguments: Arguments) -> None:
    """Run the due jobs until an interrupt; webhooks in a thread, because receivers may be slow."""
    stopping = threading.Event()
    webhooks = threading.Thread(
        target=_repeat,
        args=(JobRunner.of_webhooks(memory.services), chosen, arguments, stopping),
        name="memorist-webhooks",
        daemon=True,
    )
    if memory.settings.events != "off":
        webhooks.start()
    try:
        _repeat(JobRunner.without_webhooks(memory.services), chosen, arguments, stopping)
    finally:
        stopping.set()
        if webhooks.is_alive():
            webhooks.join(JOIN_SECONDS)


def _repeat(
    runner: JobRunner,
    chosen: list[str] | None,
    arguments: Arguments,
    stopping: threading.Event,
) -> None:
    """Run the due jobs every `--every` seconds; print errors and continue."""

    def check(done: int, total: int) -> None:
        if stopping.is_set():
            raise Stopped

    while not stopping.is_set():
        try:
            results = runner.run(chosen, check)
            if results.done or results.failed:
                with _OUTPUT:
                    _show(results, arguments)
                    sys.stdout.flush()
        except Exception as error:  # the next run tries again
            if stopping.is_set():
                return
            text = plain(str(error) or type(error).__name__)
            print(f"memorist: {text}", file=sys.stderr, flush=True)
        stopping.wait(arguments.every)


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
        print(f"memorist: {plain(error)}", file=sys.stderr)


COMMANDS = (
    Command(
        "jobs",
        jobs,
        "memorist jobs --every 30 --all-tenants",
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
