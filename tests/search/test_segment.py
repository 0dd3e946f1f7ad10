"""Segments: stored and read, merged, damaged, and how often a document is written again."""

from __future__ import annotations

import random
import struct
from collections import Counter

import numpy as np
import pytest

from memorist.search import segment
from memorist.search.block import DocumentBlock
from memorist.search.search_document import SearchDocument
from memorist.search.segment import Analysed, Segment, analyse, build, decode, encode, merge
from memorist.search.segment_plan import SegmentSize, plan_merges


def some_documents(count: int, seed: int = 0) -> list[Analysed]:
    """Return documents whose words and values are partly equal, in the order of their numbers."""
    chance = random.Random(seed)
    documents = []
    for number in range(count):
        names = [chance.choice("abcdefghijkl") * 3 for _ in range(chance.randrange(9))]
        document = SearchDocument(
            kind=chance.choice(["messages", "entries"]),
            id=f"{number % 40}",
            text=" ".join([*names, f"own{number}"]) + chance.choice(["", "?"]),
            at=chance.choice([0, 1, 10**15, number]),
            seq=number,
            part=number % 3,
            user="ada",
            agent=chance.choice([None, "", "scout"]),
            session=chance.choice([None, "", "s\ud800", "t"]),
            author=chance.choice(["", "Ada", "Žofie \udfff"]),
            role="user",
            expires_at=chance.choice([None, 10**16]),
            place=chance.choice([None, "/", "/a/b\0c"]),
        )
        documents.append(analyse(document)._replace(number=number))
    return documents


def contents(part: Segment) -> tuple[list[list[object]], list[tuple[int, int, int]]]:
    """Return the columns with their strings, and all words as hash, document and count."""
    columns = [
        [part.strings[code] for code in part.columns[name]]
        if name in segment.TEXT_COLUMNS
        else part.columns[name].tolist()
        for name in segment.ALL_COLUMNS
    ]
    hashes, documents, counts = (values.tolist() for values in part.entries())
    return columns, sorted(zip(hashes, documents, counts, strict=True))


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 4096])
def test_a_segment_is_read_as_it_was_written(count: int) -> None:
    documents = some_documents(count)
    original = build(documents)
    stored = decode(encode(original))
    assert contents(stored) == contents(original)
    assert stored.is_inverted == original.is_inverted == (count >= 512)
    for name in ("session", "agent", "author", "place", "id"):
        column = [stored.strings[code] for code in stored.columns[name]]
        assert column == [getattr(each.document, name) for each in documents]
    assert stored.columns["content"].tolist() == [each.content for each in documents]


def test_equal_values_take_no_space() -> None:
    document = analyse(SearchDocument("messages", "s", "", 10**15, session=""))
    one = encode(build([document]))
    raw = encode(build([document] * 500))
    words_of_each = 2 + 4 * len(document.hashes)  # how many, and their hashes
    assert len(raw) < len(one) + 500 * words_of_each
    assert contents(decode(raw)) == contents(build([document] * 500))


@pytest.mark.parametrize("sizes", [(0,), (3, 0, 5), (8, 600), (300, 300), (700, 9, 1500, 40)])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_merged_segment_is_like_one_that_is_built(sizes: tuple[int, ...], share: float) -> None:
    chance = np.random.default_rng(len(sizes))
    documents: list[Analysed] = []
    parts = []
    for seed, size in enumerate(sizes):
        mask = chance.random(size) < share
        those = some_documents(size, seed)
        parts.append((decode(encode(build(those))), None if share == 1 else mask))
        documents += [each for each, stays in zip(those, mask, strict=True) if stays]
    merged = decode(encode(merge(parts)))
    built = build(documents)
    assert contents(merged) == contents(built)
    assert merged.is_inverted == built.is_inverted
    assert set(merged.strings) == set(built.strings)  # nothing of removed documents stays
    words = np.array([segment.word_hash(f"own{number}") for number in range(20)], np.int32)
    blocks = [DocumentBlock([each]).occurrences(words) for each in (merged, built)]
    for (places, counts), (expected_places, expected_counts) in zip(*blocks, strict=True):
        assert sorted(places) == sorted(expected_places)
        assert counts.sum() == expected_counts.sum()


def test_damaged_bytes_are_no_segment() -> None:
    raw = encode(build(some_documents(5)))
    changed = [raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :] for at in range(12, len(raw))]
    for damaged in (*changed, *(raw[:end] for end in range(len(raw))), b"x" + raw[1:], raw + b"x"):
        with pytest.raises(segment.DamagedSegment):
            decode(damaged)


@pytest.mark.parametrize("size", [0, 4, 6, 1 << 31])
def test_a_wrong_number_of_documents_is_damage(size: int) -> None:
    raw = encode(build(some_documents(5)))
    with pytest.raises(segment.DamagedSegment):
        decode(raw[:8] + size.to_bytes(4, "little") + raw[12:])


def test_a_newer_format_is_no_damage() -> None:
    with pytest.raises(segment.NewerSegment):
        decode(struct.pack("<4sBBHII", b"MSEG", segment.FORMAT + 1, 1, 0, 5, 0) + b"unknown")


@pytest.mark.parametrize("largest", [3, 20, 100, 300, 1000, 4096])
def test_segments_are_few_and_a_document_is_rarely_written_again(largest: int) -> None:
    chance = random.Random(largest)
    rewrites: dict[str, Counter[int]] = {}  # of each segment: documents by how often they were
    most_segments = most_rewrites = added = 0
    while added < 100_000:
        batch = chance.randint(1, largest)
        added += batch
        rewrites[f"{chance.getrandbits(64):016x}"] = Counter({0: batch})
        # They are read in the order of their ids, which are random.
        sizes = {id: SegmentSize(*2 * (rewrites[id].total(),)) for id in sorted(rewrites)}
        for group in plan_merges(sizes):
            joined: Counter[int] = Counter()
            for id in group:
                joined.update({times + 1: count for times, count in rewrites.pop(id).items()})
            assert joined.total() <= segment.MAX_DOCUMENTS
            rewrites[f"{chance.getrandbits(64):016x}"] = joined
            most_rewrites = max(most_rewrites, *joined)
        most_segments = max(most_segments, len(rewrites))
    assert added == sum(each.total() for each in rewrites.values())
    assert most_segments <= 45
    assert most_rewrites <= 16  # up to 8 of them with fewer than 8 documents
