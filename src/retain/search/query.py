"""One search: what the legs found is scored alike, ranked by what a conversation offers besides, and explained.

It takes two reads. The first finds rows by words, and with them who the speakers are; then the question is embedded, in no
transaction; the second finds rows by meaning, and reads whatever is to be scored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from retain.base import clock
from retain.base.errors import ModelError, SettingsError
from retain.search import question, ranking, words
from retain.search.candidates import Candidate, Corpus, DigestCache
from retain.search.embedders import Embedder, Family, embed_texts
from retain.search.engine import Item, SearchFilter
from retain.search.index import Index
from retain.search.question import Question
from retain.search.ranking import Ranked
from retain.storage.database import Transaction

if TYPE_CHECKING:
    from retain.search.engine import Vector

DEPTH = 100
"""How many rows each leg brings."""
CORE = 12
"""Of how many rows of each leg the neighbours are looked at."""
REACH = 2


@dataclass(frozen=True)
class Hit:
    """Something that was found: `score` is how likely it is wanted, from 0 to 1, and `why` what that is made of.

    `kind` and `id` say what it is, `seq` which message of a session or chunk of a document; `legs` found it. A score is
    relative to what else was found; `near` is not: the cosine of the question and the text, where both have a vector.
    """

    kind: str
    id: str
    seq: int
    text: str
    at: datetime
    score: float
    author: str = ""
    role: str = ""
    title: str = ""
    session: str | None = None
    legs: tuple[str, ...] = ()
    why: Mapping[str, float] = field(default_factory=dict)
    before: str = ""
    after: str = ""
    near: float | None = None
    same: int = 0


@dataclass(frozen=True)
class WordMatches:
    """What the first read found: rows that have words of the question, who speaks in them, and how many have each word."""

    words: Sequence[str]
    numbers: Sequence[int]
    authors: Collection[str]
    corpus: Corpus
    depth: int = DEPTH


@dataclass(frozen=True)
class Query:
    """A question that was read and embedded; `legs` says what ran and what did not."""

    asked: SearchFilter
    begun: WordMatches
    question: Question
    vector: Vector | None
    model: str
    family: Family
    legs: Mapping[str, str]


def match_words(
    tx: Transaction, index: Index, text: str, asked: SearchFilter, depth: int = DEPTH
) -> WordMatches:
    """The first read: what the words of the question find."""
    terms = words.query_words(text)
    found = index.engine.matching(tx, terms, asked, depth)
    corpus = Corpus(max(index.engine.extent(tx, asked), len(found.numbers)), found.having)
    return WordMatches(terms, found.numbers, index.engine.authors(tx, found.numbers), corpus, depth)


def prepare_query(
    text: str, now: int, asked: SearchFilter, begun: WordMatches, embedder: Embedder | None
) -> Query:
    """Read the question, knowing who speaks in what its words found, and embed it; a failing embedder is only a leg less."""
    asks = question.parse_question(text, now=now, authors=begun.authors)
    if not begun.words:
        nothing = "there are no words in the question"
        return Query(asked, begun, asks, None, "", "static", {"words": nothing, "vectors": nothing})
    if embedder is None:
        return Query(
            asked,
            begun,
            asks,
            None,
            "",
            "static",
            {"words": "ran", "vectors": "no embedder is set"},
        )
    try:
        vector = embed_texts(embedder, [asks.for_embedding])[0]
    except (ModelError, SettingsError) as error:
        return Query(
            asked, begun, asks, None, "", "static", {"words": "ran", "vectors": f"failed: {error}"}
        )
    model = embedder.identity
    return Query(
        asked,
        begun,
        asks,
        vector,
        model,
        embedder.family,
        {"words": "ran", "vectors": f"ran: {model}"},
    )


def run_query(tx: Transaction, index: Index, sought: Query, limit: int) -> list[Hit]:
    """The second read: what is near in meaning, the neighbours of the best, and the order of them all."""
    engine, by_words = index.engine, sought.begun.numbers
    near: dict[int, float] = {}
    if sought.vector is not None:
        near = dict(
            engine.nearest(tx, sought.vector, sought.model, sought.asked, sought.begun.depth)
        )
    rows = engine.items(tx, list(dict.fromkeys([*by_words, *near])))
    best = [
        rows[number]
        for number in dict.fromkeys([*by_words[:CORE], *list(near)[:CORE]])
        if number in rows
    ]
    rows |= {row.number: row for row in engine.around(tx, best, REACH) if row.number not in rows}
    cosines = near
    if sought.vector is not None:
        cosines = near | engine.cosines(
            tx, sought.vector, sought.model, [number for number in rows if number not in near]
        )
    candidates = [
        _candidate(row, cosines.get(number), index.digests) for number, row in rows.items()
    ]
    wanted = {number for number, row in rows.items() if _within(row, sought.asked, tx.now)}
    ranked = ranking.rank(
        sought.question, candidates, sought.begun.corpus, family=sought.family, wanted=wanted
    )
    things: dict[tuple[str, str, int], Ranked] = {}
    for one in ranked:
        row = rows[one.number]
        things.setdefault((row.kind, row.id, row.seq), one)
        if len(things) == limit:
            break
    found = [rows[one.number] for one in things.values()]
    beside = {(row.kind, row.id, row.seq): row.text for row in engine.around(tx, found, 1)}
    beside |= {(row.kind, row.id, row.seq): row.text for row in found}
    legs = {"words": set(by_words), "vectors": set(near)}
    return [
        _hit(rows[one.number], one, legs, beside, cosines.get(one.number))
        for one in things.values()
    ]


def _within(row: Item, asked: SearchFilter, now: int) -> bool:
    """Whether a row passes what may have changed since the first read, or was not asked of it as a neighbour."""
    since, until = asked.since, asked.until
    in_time = (since is None or row.at >= since) and (until is None or row.at < until)
    shared = row.board is None or asked.boards is None or row.board in asked.boards
    return in_time and shared and (row.expires_at is None or row.expires_at > now)


def _hit(
    row: Item,
    ranked: Ranked,
    legs: Mapping[str, Collection[int]],
    beside: Mapping[tuple[str, str, int], str],
    near: float | None,
) -> Hit:
    before, after = (beside.get((row.kind, row.id, row.seq + step), "") for step in (-1, 1))
    by = tuple(leg for leg, found in legs.items() if row.number in found)
    return Hit(
        row.kind, row.id, row.seq, row.text, clock.to_datetime(row.at), ranked.score, row.author, row.role, row.title,
        row.session, by, ranked.parts, before, after, near, len(ranked.same),
    )  # fmt: skip


def _candidate(row: Item, cosine: float | None, digests: DigestCache) -> Candidate:
    return Candidate(
        row.number, row.kind, row.id, row.seq, row.at, digests.get(row), row.role, row.author, cosine, row.part
    )  # fmt: skip
