"""The pace of batches: their size follows the time that they take."""

from __future__ import annotations

import pytest

from memorist.storage.pace import BATCH_SECONDS, Pace


def test_batches_adapt_to_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("memorist.storage.pace.sleep", pauses.append)
    pace = Pace(500)
    sizes = []
    for seconds in (0.5, 0.05, 0.02, 0.02, BATCH_SECONDS / 2, *[0.001] * 5):
        sizes.append(pace.size)
        pace.record_and_pause(seconds)
    assert sizes == [500, 250, 125, 62, 31, 31, 62, 124, 248, 496]
    assert pace.size == 500
    assert pauses[0] == 2 * BATCH_SECONDS  # a purge goes on, however busy the machine is
    assert pauses[4] == BATCH_SECONDS / 2  # as long as the batch
    assert 0 < pauses[-1] < BATCH_SECONDS


def test_a_batch_has_at_least_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memorist.storage.pace.sleep", lambda _: None)
    pace = Pace(2)
    for _ in range(4):
        pace.record_and_pause(1.0)
    assert pace.size == 1
