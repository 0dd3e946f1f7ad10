"""Killed and interrupted writers: nothing acknowledged is lost."""

from __future__ import annotations

import linecache
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import InDoubt, StorageError
from memorist.storage.sqlite import group_commit as group
from testkit import sizes
from testkit.databases import SETTINGS
from tests.chaos.history import History, from_log, messages_of
from tests.chaos.writer import SESSION, Job, scope_of, start, wait_for


def lines(log: Path) -> int:
    return log.read_bytes().count(b"\nok ") if log.exists() else 0


@pytest.mark.parametrize("round_", range(sizes.KILLED_FILES))
def test_kill_9_loses_no_acknowledged_write(tmp_path: Path, round_: int) -> None:
    """Kill a writer, retry its doubtful writes with the same keys, kill that one,
    and so on.
    """
    url, log = f"sqlite:///{tmp_path}/agent.db", tmp_path / "log"
    doubtful: list[str] = []
    doubts = 0
    for kill in range(sizes.KILLS):
        before = lines(log)
        writer = start(Job(url, str(log), f"k{kill}", retry=doubtful))
        wait_for(lambda before=before: lines(log) > before, "the first acknowledgement")  # type: ignore[misc]
        time.sleep(random.uniform(0, sizes.KILLED_WRITER_SECONDS))
        writer.kill()
        assert writer.wait() == -signal.SIGKILL, "the writer ended before it was killed"
        history = from_log(log)
        doubtful = history.of("info")
        doubts += len(doubtful)
        with Memory.open(url, settings=SETTINGS) as memory:
            assert history.problems(messages_of(scope_of(memory), SESSION)) == []
            assert [finding for finding in memory.verify() if not finding.ok] == []
    assert doubts, "no kill ever met a writer in the middle of a write: this proves nothing"
    with Memory.open(url, settings=SETTINGS) as memory:
        me = scope_of(memory)
        for payload in doubtful:
            history.answer(
                payload,
                "ok",
                me.messages.append(SESSION, "user", payload.ljust(40, "."), key=payload).seq,
            )
        assert history.of("info") == []
        assert history.problems(messages_of(me, SESSION)) == []


def test_ctrl_c_ends_a_busy_process_without_deadlock_or_loss(tmp_path: Path) -> None:
    """SIGINT in the main thread, which may be committing for others: they finish, and the process
    exits.
    """
    url, log = f"sqlite:///{tmp_path}/agent.db", tmp_path / "log"
    for number in range(sizes.INTERRUPTS):
        before = lines(log)
        writer = start(Job(url, str(log), f"i{number}", threads=16))
        wait_for(lambda before=before: lines(log) > before, "the first acknowledgement")  # type: ignore[misc]
        time.sleep(random.uniform(0, 0.1))
        writer.send_signal(signal.SIGINT)
        try:
            assert writer.wait(60) == 0
        finally:
            writer.kill()
        history = from_log(log)
        with Memory.open(url, settings=SETTINGS) as memory:
            assert history.problems(messages_of(scope_of(memory), SESSION)) == []
    assert "done" in log.read_text()


def interrupted_at(line: int, call: Callable[[], object]) -> bool:
    """Make the call and raise KeyboardInterrupt at a given line of group.py; return whether it was
    reached.
    """
    seen, before = 0, 0

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen, before
        if event == "line":
            leaving = linecache.getline(group.__file__, frame.f_lineno).lstrip().startswith(
                "with "
            ) and (
                before > frame.f_lineno
            )  # the exit of a `with` block, where the interpreter handles no signal
            before = frame.f_lineno
            seen += not leaving
            if seen == line and not leaving:
                raise KeyboardInterrupt
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename == group.__file__ else None

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("crowd", [0, 3])
def test_ctrl_c_on_any_line_of_group_commit_blocks_nobody(tmp_path: Path, crowd: int) -> None:
    """Alone or with others queued: wherever the interrupt occurs, nobody waits forever and nothing
    is lost.
    """
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS) as memory:
        me = scope_of(memory)
        me.sessions.add(SESSION)
        history = History()
        line = 0
        struck = True
        while struck:
            line += 1
            others = [
                threading.Thread(target=write, args=(me, history, f"{line}-{n}"), daemon=True)
                for n in range(crowd)
            ]
            for thread in others:
                thread.start()
            payload = f"{line}-main"
            history.invoke(payload)

            def append(payload: str = payload) -> None:
                history.answer(payload, "ok", me.messages.append(SESSION, "user", payload).seq)

            struck = interrupted_at(line, append)
            after = threading.Thread(target=write, args=(me, history, f"{line}-after"), daemon=True)
            after.start()
            for thread in (*others, after):
                thread.join(30)
                assert not thread.is_alive(), f"an interrupt at line {line} left a writer waiting"
        assert line > 10
        assert history.problems(messages_of(me, SESSION)) == []


def write(me: Scope, history: History, payload: str) -> None:
    history.invoke(payload)
    try:
        history.answer(payload, "ok", me.messages.append(SESSION, "user", payload).seq)
    except InDoubt:
        pass
    except StorageError as error:
        if "interrupted" not in str(error):
            history.surprise(f"{payload}: {error!r}")
