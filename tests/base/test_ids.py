"""New ids are UUIDs of version 7: unique, and sorted by time."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from memorist.base import canonical, ids


def test_an_id_is_a_uuid_of_version_7() -> None:
    for _ in range(500):
        text = ids.uuid7()
        value = uuid.UUID(text)
        assert (str(value), value.version, value.variant) == (text, 7, uuid.RFC_4122)
        assert canonical.key(text, "id") == text


def test_an_id_begins_with_its_time() -> None:
    before = time.time_ns() // 1_000_000
    created = uuid.UUID(ids.uuid7()).int >> 80
    assert before <= created <= time.time_ns() // 1_000_000


def test_later_ids_sort_later_even_within_a_millisecond() -> None:
    for _ in range(200):
        first = ids.uuid7()
        begun = time.time_ns()
        while time.time_ns() < begun + 300:  # a step of the clock in an id is 244 ns
            pass
        assert first < ids.uuid7()


def test_ids_are_unique_between_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda _: ids.uuid7(), range(20_000)))
    assert len(set(created)) == 20_000
    assert len({value[19:] for value in created}) == 20_000  # the noise alone tells them apart
