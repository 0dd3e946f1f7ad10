"""Digests of candidates: what they hold, how they are stored, and rows without one."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from memorist.search.search_engine import IndexRow
from memorist.search.sqlite import TAIL

from memorist import Memory, NewMessage, Scope
from memorist.kinds.backdating import RecordTimes, backdate_state
from memorist.search.candidates import (
    FORMAT,
    DigestColumns,
    digest,
    fingerprints,
    is_current,
    packed_word_hash,
    word_hash,
)
from memorist.search.features import _WordCounts
from memorist.search.words import item_words
from memorist.storage.database import Transaction

TEXT = "The train to Bern leaves at seven past nine; I would like a seat by the window, please."
_DIGESTS = "select digest from search_items where tenant = :tenant order by number"


def word_counts(*texts: str) -> _WordCounts:
    return _WordCounts(DigestColumns([digest("", "", text, None).pack() for text in texts]))


def stored_digests(me: Scope) -> list[tuple[IndexRow, bytes]]:
    """Return the rows that have a digest, each with its digest."""

    def work(tx: Transaction) -> list[tuple[IndexRow, bytes]]:
        digests = tx.all(
            "select number, digest from search_items where tenant = :tenant and digest is not null"
        )
        items = me.services.index.engine.items(tx, [number for number, _ in digests])
        return [(items[number], packed) for number, packed in digests]

    return me.services.database.read(me.owner.tenant, work)


def test_the_occurrences_of_words_are_counted_per_candidate() -> None:
    texts = ["red green red", "", "black", "red " * 300]
    counts = word_counts(*texts).of(["red", "black", "pink", "red"])
    assert counts.tolist() == [[2, 0, 0, 2], [0, 0, 0, 0], [0, 1, 0, 0], [255, 0, 0, 255]]


@pytest.mark.parametrize("texts", [[], [""]])
def test_nothing_is_counted_without_words(texts: list[str]) -> None:
    assert not word_counts(*texts).of(["red"]).any()
    assert word_counts(*texts).of([]).shape == (len(texts), 0)


@pytest.mark.parametrize(
    "text", ["", TEXT, "Why?", "日本語のテキスト", "red " * 300, f"{TEXT} {TEXT} so"]
)
def test_a_digest_survives_packing(text: str) -> None:
    at = 1_790_000_000_000_000
    created = digest("Ada", "A title", text, at)
    packed = created.pack()
    asked = "Who is that?"
    other = digest("", "", asked, None)
    columns = DigestColumns([packed, other.pack()])
    assert columns.length.tolist() == [created.length, other.length]
    assert columns.has_question.tolist() == [created.has_question, True]
    assert columns.question_words.tolist() == [created.question_words, other.question_words]
    counts = [
        Counter(item_words("Ada", "A title", text, at)),
        Counter(item_words("", "", asked, None)),
    ]
    columns_of_words = zip(columns.hashes.tolist(), columns.counts.tolist(), strict=True)
    assert Counter(columns_of_words) == Counter(
        (packed_word_hash(word), min(count, 255)) for each in counts for word, count in each.items()
    )
    assert columns.distinct.tolist() == [len(each) for each in counts]
    assert fingerprints([packed, other.pack()]) == (created.fingerprint, other.fingerprint)
    assert packed_word_hash("ada") == word_hash("ada") & 0xFFFFFF


def test_a_digest_is_small() -> None:
    assert len(digest("Ada", "", TEXT, 1_790_000_000_000_000).pack()) < 80


def test_a_digest_of_another_version_is_not_used() -> None:
    packed = digest("Ada", "", TEXT, None).pack()
    assert is_current(packed)
    assert not is_current(None)
    assert not is_current(b"")
    assert not is_current(bytes([FORMAT + 1]) + packed[1:])


def test_digests_are_stored_with_indexed_rows(me: Scope) -> None:
    session = me.sessions.add()
    texts = [f"message {number}: {TEXT}" for number in range(TAIL)]
    me.messages.extend(session.id, [NewMessage("user", text) for text in texts])
    rows = stored_digests(me)
    assert len(rows) == TAIL
    for item, packed in rows:
        assert packed == digest(item.author, item.title, item.text, item.at).pack()


@pytest.mark.parametrize("stored", [None, bytes([FORMAT - 1]) + bytes(20)])
def test_rows_without_a_digest_are_ranked_the_same(
    memory: Memory, me: Scope, stored: bytes | None
) -> None:
    """Rows of an older version have none, or another one, until they are analysed again."""
    session = me.sessions.add()
    for text in ("I bought a red kite.", "Where is the kite?", TEXT, "It is in the attic."):
        me.messages.append(session.id, "user", text, author="Ada")
    database = me.services.database
    expected = me.search("the red kite")
    assert expected[0].text == "I bought a red kite."
    forget = "update search_items set digest = :stored where tenant = :tenant"
    database.write(me.owner.tenant, lambda tx: tx.run(forget, stored=stored))
    assert me.search("the red kite").hits == expected.hits
    before = database.read(me.owner.tenant, lambda tx: tx.all(_DIGESTS))
    assert before == [(stored,)] * 4
    memory.reindex()
    after = database.read(me.owner.tenant, lambda tx: tx.all(_DIGESTS))
    assert [is_current(packed) for (packed,) in after] == [True] * 4
    assert me.search("the red kite").hits == expected.hits


def test_different_texts_have_different_fingerprints() -> None:
    """A checksum of sums, such as Adler-32, gives these pairs of numbers the same fingerprint."""
    for one, other in (("131", "212"), ("4131", "4212"), ("2464", "3274"), ("242", "161")):
        digests = [
            digest("", "", f"My locker number is {number}.", None) for number in (one, other)
        ]
        assert digests[0].fingerprint != digests[1].fingerprint


def test_a_backdated_record_is_found_by_its_month(me: Scope) -> None:
    keys = [f"box-{number}" for number in range(TAIL)]  # so that the first are in FTS5
    for key in keys:
        me.state.set(key, "skates")
    april = datetime(2021, 4, 12, tzinfo=UTC)
    for key in (keys[0], keys[-1]):
        backdate_state(me.state, "user", key, RecordTimes.of(april))
    hits = me.search("skates in april 2021", kinds=["state"], limit=2)
    assert {hit.title for hit in hits} == {keys[0], keys[-1]}
    assert all(
        packed == digest(item.author, item.title, item.text, item.at).pack()
        for item, packed in stored_digests(me)
    )
