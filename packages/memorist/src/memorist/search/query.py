"""One search, from the words of a question to ranked hits.

A search takes two reads. The first finds rows by words, and the authors of those rows. Then the
question is parsed and embedded outside of any transaction. The second read finds rows by meaning,
loads everything that is to be scored, and ranks it.

memorist's own encoder needs no authors, so it embeds the question in a thread during the first read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from threading import Thread
from typing import TYPE_CHECKING

from memorist.base import clock
from memorist.base.errors import ModelError, SettingsError
from memorist.search import question, ranking, words
from memorist.search.candidates import Candidate, Corpus, is_current, recent_digest
from memorist.search.embedders import Embedder, Family, embed_texts
from memorist.search.index import Index
from memorist.search.question import Question
from memorist.search.ranking import Ranked
from memorist.search.retrieval import IndexReader, only_separate_kinds
from memorist.search.search_engine import CandidateRow, SearchFilter
from memorist.storage.database import Transaction

if TYPE_CHECKING:
    from memorist.search.search_engine import Vector

DEPTH = 100
"""Rows from each retriever."""
EXPANDED = 12
"""Best rows of each retriever whose neighbours become candidates too."""
NEIGHBOUR_REACH = 2
SEPARATE_DEPTH = 30
"""Rows from each retriever for the kinds that are ranked separately; few of them become hits."""


@dataclass(frozen=True)
class Hit:
    """A search result.

    `kind` and `id` name the record, `seq` the message of a session or the chunk of a document.
    """

    kind: str
    id: str
    seq: int
    text: str
    at: datetime
    score: float  # probability that the hit is wanted, 0 to 1, relative to the other hits
    author: str = ""
    role: str = ""
    title: str = ""
    session: str | None = None
    legs: tuple[str, ...] = ()  # the retrievers that found it: words, vectors
    why: Mapping[str, float] = field(default_factory=dict)  # contribution of each feature
    before: str = ""
    after: str = ""
    near: float | None = None  # cosine of question and text, if both have a vector
    same: int = 0  # near-duplicates that were folded into this hit


@dataclass(frozen=True)
class WordMatches:
    """Result of the first read."""

    words: Sequence[str]
    rows: Sequence[CandidateRow]
    corpus: Corpus
    depth: int = DEPTH
    separate_rows: Sequence[CandidateRow] = ()  # of the kinds that are ranked separately
    separate_corpus: Corpus | None = None  # with them; None if the scope has no rows of these kinds


@dataclass(frozen=True)
class Query:
    """A question that was parsed and embedded."""

    filter: SearchFilter
    matches: WordMatches
    question: Question
    vector: Vector | None
    model: str
    family: Family
    legs: Mapping[str, str]  # for each retriever whether it ran, or why not


def match_words(
    tx: Transaction, index: Index, text: str, filter: SearchFilter, depth: int = DEPTH
) -> WordMatches:
    """Do the first read: find rows by the words of the question."""
    engine = index.engine
    terms = words.query_words(text)
    matches = engine.matching(tx, terms, filter, depth)
    corpus = Corpus(max(matches.extent, len(matches.rows)), matches.document_frequencies)
    separate_corpus = None
    if matches.separate_extent:
        separate_corpus = Corpus(
            corpus.count + matches.separate_extent, matches.all_document_frequencies
        )
    return WordMatches(terms, matches.rows, corpus, depth, matches.separate_rows, separate_corpus)


def start_embedding(text: str, embedder: Embedder | None) -> Future[Vector] | None:
    """Start to embed a question in a thread; return None if that needs the authors first."""
    # Only the encoder was trained with the names of speakers in questions.
    if embedder is None or embedder.family != "encoder":
        return None
    embedding: Future[Vector] = Future()

    def embed() -> None:
        try:
            embedding.set_result(embed_texts(embedder, [text])[0])
        except Exception as error:  # `prepare_query` raises it again
            embedding.set_exception(error)

    # A thread of its own, because the threads of a pool would be missing in the child of a fork.
    try:
        Thread(target=embed, name="memorist-embed-question").start()
    except RuntimeError:  # no more threads can be started
        embed()
    return embedding


def prepare_query(
    text: str,
    now: int,
    filter: SearchFilter,
    matches: WordMatches,
    embedder: Embedder | None,
    embedding: Future[Vector] | None = None,
) -> Query:
    """Parse the question, using the authors that its words found, and embed it.

    If the embedder fails, the search continues by words alone.

    embedding: the result of `start_embedding`
    """
    authors = {row.author for row in matches.rows if row.author}
    parsed = question.parse_question(text, now=now, authors=authors)
    by_words = "ran"
    vector = None
    model = ""
    family: Family = "static"
    if not matches.words:
        by_words = by_vectors = "there are no words in the question"
    elif embedder is None:
        by_vectors = "no embedder is set"
    else:
        try:
            if embedding is not None:
                vector = embedding.result()
            else:
                vector = embed_texts(embedder, [parsed.for_embedding])[0]
        except (ModelError, SettingsError) as error:
            by_vectors = f"failed: {error}"
        else:
            model = embedder.identity
            family = embedder.family
            by_vectors = f"ran: {model}"
    legs = {"words": by_words, "vectors": by_vectors}
    return Query(filter, matches, parsed, vector, model, family, legs)


def run_query(tx: Transaction, index: Index, query: Query, limit: int) -> list[Hit]:
    """Do the second read: find rows by meaning, add neighbours, rank all candidates."""
    engine = index.engine
    by_words = {row.number: row for row in query.matches.rows}
    nearest = []
    if query.vector is not None:
        nearest = engine.nearest(tx, query.vector, query.model, query.filter, query.matches.depth)
    by_vectors = {row.number: row for row, _ in nearest}
    cosines = {row.number: cosine for row, cosine in nearest}

    rows = by_words | by_vectors
    best = [*query.matches.rows[:EXPANDED], *[row for row, _ in nearest[:EXPANDED]]]
    for row in engine.rows_with_neighbours(tx, best, NEIGHBOUR_REACH):
        rows.setdefault(row.number, row)
    if query.vector is not None:
        others = [number for number in rows if number not in cosines]
        user = query.filter.user
        cosines |= engine.cosines_in_memory(tx, query.vector, query.model, user, others)
        others = [number for number in others if number not in cosines]
        cosines |= engine.cosines(tx, query.vector, query.model, others)

    complete = _with_digests(tx, engine, rows)
    candidates = [
        Candidate(
            number=number,
            kind=kind,
            id=id,
            seq=seq,
            at=at,
            digest=digest or b"",
            role=role,
            author=author,
            cosine=cosines.get(number),
        )
        for number, kind, id, seq, _, at, _, _, role, author, digest in complete.values()
    ]
    allowed = _allowed_numbers(complete.values(), query.filter, tx.now)
    ranked = ranking.rank(
        query.question, candidates, query.matches.corpus, family=query.family, wanted=allowed
    )

    # A long record has several rows: only the best one becomes a hit.
    records: dict[tuple[str, str, int], Ranked] = {}
    for entry in ranked:
        row = rows[entry.number]
        records.setdefault((row.kind, row.id, row.seq), entry)
        if len(records) == limit:
            break
    items = {
        item.number: item
        for item in engine.items_with_neighbours(tx, [rows[hit.number] for hit in records.values()])
    }
    # Rows that words found may have been deleted since the first read.
    hits = [(items[hit.number], hit) for hit in records.values() if hit.number in items]
    texts = {(item.kind, item.id, item.seq): item.text for item in items.values() if not item.part}
    texts |= {(item.kind, item.id, item.seq): item.text for item, _ in hits}
    retrievers = {"words": by_words, "vectors": by_vectors}
    return [
        Hit(
            kind=item.kind,
            id=item.id,
            seq=item.seq,
            text=item.text,
            at=clock.to_datetime(item.at),
            score=entry.score,
            author=item.author,
            role=item.role,
            title=item.title,
            session=item.session,
            legs=tuple(name for name, numbers in retrievers.items() if item.number in numbers),
            why=entry.parts,
            before=texts.get((item.kind, item.id, item.seq - 1), ""),
            after=texts.get((item.kind, item.id, item.seq + 1), ""),
            near=cosines.get(item.number),
            same=len(entry.same),
        )
        for item, entry in hits
    ]


def run_separate_query(tx: Transaction, index: Index, query: Query, limit: int) -> list[Hit]:
    """Do the second read for the kinds that are ranked separately, if the search includes them."""
    filter = only_separate_kinds(query.filter)
    corpus = query.matches.separate_corpus
    if not filter.kinds or corpus is None:
        return []
    rows = query.matches.separate_rows[:SEPARATE_DEPTH]
    matches = replace(query.matches, rows=rows, corpus=corpus, depth=SEPARATE_DEPTH)
    return run_query(tx, index, replace(query, filter=filter, matches=matches), limit)


def _with_digests(
    tx: Transaction, engine: IndexReader, rows: Mapping[int, CandidateRow]
) -> Mapping[int, CandidateRow]:
    """Return rows that all have digests: those that are not stored are computed."""
    missing = [number for number, row in rows.items() if not is_current(row.digest)]
    if not missing:
        return rows
    items = engine.items(tx, missing)
    complete = {number: row for number, row in rows.items() if is_current(row.digest)}
    for number, item in items.items():
        digest = recent_digest(item.author, item.title, item.text, item.at)
        complete[number] = rows[number]._replace(digest=digest)
    return complete


def _allowed_numbers(rows: Iterable[CandidateRow], filter: SearchFilter, now: int) -> set[int]:
    """Return the numbers of the rows that may be hits.

    Neighbours were not filtered when they were read, and a row may have expired since the first
    read.
    """
    since = -math.inf if filter.since is None else filter.since
    until = math.inf if filter.until is None else filter.until
    boards = filter.boards
    return {
        number
        for number, _, _, _, _, at, expires_at, board, _, _, _ in rows
        if since <= at < until
        and (board is None or boards is None or board in boards)
        and (expires_at is None or expires_at > now)
    }
