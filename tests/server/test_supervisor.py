"""Worker processes under a supervisor: ready, replaced, stopped, none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from memorist.server.process.supervisor import _pause

WORKER = """
import os, select, signal, sys, time

how, mark = sys.argv[1:]
signal.signal(signal.SIGINT, signal.SIG_IGN)
if how == "fails" and os.path.exists(mark):
    print("nobody is there", file=sys.stderr)
    sys.exit(5)
open(mark, "w").close()
told = []
signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
os.write(int(sys.stdin.buffer.readline()), b"R")
while not told or how in ("stubborn", "deaf"):
    if select.select([0], [], [], 0.02)[0]:
        sys.exit(0)
if how == "closes":
    time.sleep(0.1 if os.getpid() % 2 else 0.2)
    print("told", len(told), flush=True)
"""
SUPERVISOR = """
import sys
from memorist.server.process.supervisor import Supervisor, WorkerCommand

supervisor = Supervisor(
    3,
    WorkerCommand([sys.executable, "-c", *sys.argv[1:]], lambda ready: b"%d\\n" % ready),
    on_ready=lambda: print("ready", flush=True),
    on_exit=lambda pid: None,
    stop_seconds=0.3 if sys.argv[2] == "deaf" else 60,
)
sys.exit(supervisor.run())
"""


@contextmanager
def supervisor(how: str, mark: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", SUPERVISOR, WORKER, how, str(mark)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        if how != "fails":
            assert read_line(process) == "ready\n"
        yield process
        process.kill()


def children(process: subprocess.Popen[str]) -> set[int]:
    return {
        child.pid for child in psutil.Process(process.pid).children() if not all_exited({child.pid})
    }


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def all_exited(pids: set[int]) -> bool:
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return False
    return True


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def test_a_dead_worker_is_replaced_and_all_are_stopped(tmp_path: object) -> None:
    with supervisor("works", f"{tmp_path}/mark") as process:
        first = children(process)
        assert len(first) == 3
        os.kill(min(first), signal.SIGKILL)
        # The killed one may still be seen in one look, and be gone in the next.
        wait_until(lambda: len(children(process) - first) == 1 and len(children(process)) == 3)
        every = first | children(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert all_exited(every)
        assert process.stdout
        assert process.stdout.read() == "", "it is ready once"


def test_a_worker_that_died_before_the_stop_does_not_fail_it(tmp_path: object) -> None:
    """The supervisor sees the death and the signal at once."""
    with supervisor("works", f"{tmp_path}/mark") as process:
        every = children(process)
        process.send_signal(signal.SIGSTOP)
        os.kill(min(every), signal.SIGKILL)
        wait_until(lambda: all_exited({min(every)}))
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert process.wait(20) == 0
        assert all_exited(every)


def test_ctrl_c_for_the_process_group_counts_once(tmp_path: object) -> None:
    with supervisor("works", f"{tmp_path}/mark") as process:
        every = children(process)
        for pid in (*every, process.pid):
            os.kill(pid, signal.SIGINT)
        assert process.wait(20) == 0
        assert all_exited(every)


def test_workers_do_not_outlive_the_supervisor(tmp_path: object) -> None:
    with supervisor("stubborn", f"{tmp_path}/mark") as process:
        every = children(process)
        process.kill()
        process.wait()
        wait_until(lambda: all_exited(every))


def test_a_second_signal_kills_workers(tmp_path: object) -> None:
    with supervisor("stubborn", f"{tmp_path}/mark") as process:
        every = children(process)
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGKILL
        assert all_exited(every)


def test_a_worker_that_cannot_start_ends_all_with_its_status(tmp_path: object) -> None:
    with supervisor("fails", f"{tmp_path}/mark") as process:
        assert process.wait(20) == 5
        assert process.stderr
        assert "nobody is there" in process.stderr.read()


def test_each_worker_is_signalled_once(tmp_path: object) -> None:
    """The exit of one worker wakes the supervisor while the others are still closing."""
    with supervisor("closes", f"{tmp_path}/mark") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout
        assert process.stdout.read() == "told 1\n" * 3


def test_workers_that_do_not_stop_in_time_are_killed(tmp_path: object) -> None:
    with supervisor("deaf", f"{tmp_path}/mark") as process:
        every = children(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 1
        assert all_exited(every)


def test_a_worker_that_keeps_dying_is_always_restarted() -> None:
    """Over hours: the pause has a maximum, and its computation does not overflow."""
    assert _pause(1) == 0.2
    assert _pause(5000) == _pause(12) == 5
