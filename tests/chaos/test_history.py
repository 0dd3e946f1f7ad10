"""The history checker itself: each violation, made on purpose, must be found (B7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.history import History, Numbered, from_log


def sample_history() -> History:
    """Three acknowledged appends, the last two concurrent, one rejected, one in doubt, and two
    readers.
    """
    history = History()
    history.invoke("a", 1.0)
    history.answer("a", "ok", 1, 2.0)
    history.invoke("b", 3.0)
    history.invoke("c", 3.5)
    history.answer("c", "ok", 2, 4.0)
    history.answer("b", "ok", 3, 5.0)
    history.invoke("refused", 5.5)
    history.answer("refused", "fail", 0, 5.6)
    history.invoke("doubt", 6.0)
    history.read(2.5, [(1, "a")], at=2.6)
    history.read(4.5, [(2, "c"), (3, "b")], at=4.9)
    return history


TRUE: list[Numbered] = [(1, "a"), (2, "c"), (3, "b")]


def test_a_consistent_history_is_accepted_with_and_without_the_doubtful_append() -> None:
    assert sample_history().problems(TRUE) == []
    assert sample_history().problems([*TRUE, (4, "doubt")]) == []


@pytest.mark.parametrize(
    ("final", "expected"),
    [
        (TRUE[:2], "b was acknowledged and is there 0 times"),
        ([*TRUE, (4, "a")], "a was acknowledged and is there 2 times"),
        ([*TRUE, (4, "refused")], "refused was refused and is there"),
        ([*TRUE, (4, "doubt"), (5, "doubt")], "doubt was in doubt and is there 2 times"),
        ([*TRUE, (4, "ghost")], "ghost was never asked for"),
        ([(1, "a"), (2, "c"), (4, "b")], "number 4 stands where 3 should"),
        ([(1, "a"), (2, "b"), (3, "c")], "c was acknowledged as 2 and is 3"),
        (
            [(1, "c"), (2, "a"), (3, "b")],
            "a was acknowledged before c was asked for, and stands after it",
        ),
        ([], "a was acknowledged and is there 0 times"),
    ],
)
def test_an_inconsistent_final_list_is_found(final: list[Numbered], expected: str) -> None:
    assert expected in sample_history().problems(final)


@pytest.mark.parametrize(
    ("seen", "times", "expected"),
    [
        ([(1, "a"), (3, "b")], (5.2, 5.3), "read 2 saw what is not a stretch of the final list"),
        ([(1, "a"), (2, "b")], (4.1, 4.2), "read 2 saw what is not a stretch of the final list"),
        ([(1, "a"), (2, "c")], (5.2, 5.3), "read 2 ended at 2 after 3 had been acknowledged"),
        ([], (2.2, 2.3), "read 2 ended at 0 after 1 had been acknowledged"),
        ([(1, "a"), (2, "c")], (3.0, 3.2), "read 2 saw c (2) before it was asked for"),
    ],
)
def test_an_inconsistent_read_is_found(
    seen: list[Numbered], times: tuple[float, float], expected: str
) -> None:
    history = sample_history()
    history.read(times[0], seen, at=times[1])
    assert expected in history.problems(TRUE)


def test_a_retry_with_another_result_is_found() -> None:
    """P2: the first result is final."""
    history = sample_history()
    history.answer("a", "ok", 1, 7.0)
    assert history.problems(TRUE) == []
    history.answer("a", "ok", 4, 8.0)
    assert history.problems(TRUE) == ["a was acknowledged as 1 and then answered ok 4"]


def test_a_log_is_read_up_to_its_last_complete_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "invoke 1.0 a -\nok 2.0 a 1\ninvoke 3.0 b -\nerror 3.5 b Busy: no\ninvoke 4.0 c -\nok 5.0 c 3"
    )
    history = from_log(log)
    assert (history.of("ok"), history.of("info"), history.surprises) == (
        ["a"],
        ["b", "c"],
        ["error b Busy: no"],
    )
