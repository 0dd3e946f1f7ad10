"""One search, from the words of a question to ranked hits.

A search takes two reads. The first opens a view of the documents in one snapshot and finds some by
their words. Then the question is parsed, with the authors of these documents, and embedded outside
of any transaction. It finds more by meaning and ranks them in memory. The second read gets the
records of the hits, which is also the check that they still exist and may be seen.

memorist's own encoder needs no authors, so it embeds the question in a thread during the first read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING

from memorist.base import clock
from memorist.base.errors import ModelError, SettingsError
from memorist.search import question, ranking, words
from memorist.search.block import DocumentKey
from memorist.search.candidates import Candidates, Corpus
from memorist.search.embedders import Embedder, Family, embed_texts
from memorist.search.fresh import documents_of
from memorist.search.question import Question
from memorist.search.ranking import Ranked
from memorist.search.search_document import Findable, SearchDocument
from memorist.search.search_view import (
    SearchFilter,
    SearchView,
    ViewPlace,
    only_separate_kinds,
    rarity,
)
from memorist.search.segment import word_hash
from memorist.storage.database import Transaction

if TYPE_CHECKING:
    from memorist.search.segment import Mask
    from memorist.search.vectors import Vector

DEPTH = 100
"""Documents from each retriever."""
EXPANDED = 12
"""Best documents of each retriever whose neighbours become candidates too."""
NEIGHBOUR_REACH = 2
SEPARATE_DEPTH = 30
"""Documents from each retriever for the kinds that are ranked separately; few of them become hits."""


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
    newer_statement: str = ""  # what is true instead, if what the message says was replaced


@dataclass(frozen=True)
class WordMatches:
    """Result of the first read."""

    view: SearchView
    filter: SearchFilter
    words: Sequence[str]
    places: Sequence[ViewPlace]  # most promising first
    corpus: Corpus
    depth: int = DEPTH
    separate_places: Sequence[ViewPlace] = ()  # of the kinds that are ranked separately
    separate_corpus: Corpus | None = None  # with them; None if the scope has no such documents


@dataclass(frozen=True)
class Query:
    """A question that was parsed and embedded."""

    matches: WordMatches
    question: Question
    vector: Vector | None
    model: str
    family: Family
    legs: Mapping[str, str]  # for each retriever whether it ran, or why not
    hit_reach: int = 1  # messages or chunks before and after a hit that are read with it

    @property
    def view(self) -> SearchView:
        """The documents that it searches."""
        return self.matches.view

    @property
    def filter(self) -> SearchFilter:
        """The documents that may be hits."""
        return self.matches.filter

    def narrowed(self, filter: SearchFilter, depth: int | None = None) -> Query:
        """Return the query with another filter, or to another depth; it is not embedded again."""
        depth = self.matches.depth if depth is None else depth
        matches = match_words(self.view, self.question.text, filter, depth)
        return replace(self, matches=matches)


def match_words(
    view: SearchView, text: str, filter: SearchFilter, depth: int = DEPTH
) -> WordMatches:
    """Find documents by the words of a question: those with the rarest words first."""
    terms = words.query_words(text)
    hashes = [word_hash(term) for term in terms]
    whole = replace(filter, kinds=None, session=None, since=None, until=None, place=None)
    every = view.allowed(replace(whole, separate_kinds=()))
    # Kinds that are ranked separately must not change the statistics of the others.
    counted = view.allowed(whole) if filter.separate_kinds else every
    frequencies = view.count_documents(hashes, counted)
    extent = _count(counted)
    weights = [rarity(frequency, extent) for frequency in frequencies]
    places = view.weigh_words(hashes, weights, view.allowed(filter), depth)
    corpus = Corpus(max(extent, len(places)), frequencies)
    separate_places: Sequence[ViewPlace] = ()
    separate_corpus = None
    every_extent = _count(every)
    if every_extent > extent:
        all_frequencies = view.count_documents(hashes, every)
        separate_corpus = Corpus(every_extent, all_frequencies)
        separate_filter = only_separate_kinds(filter)
        if separate_filter.kinds:
            weights = [rarity(frequency, every_extent) for frequency in all_frequencies]
            masks = view.allowed(separate_filter)
            separate_places = view.weigh_words(hashes, weights, masks, depth)
    return WordMatches(view, filter, terms, places, corpus, depth, separate_places, separate_corpus)


def _count(masks: Sequence[Mask]) -> int:
    import numpy as np

    return sum(int(np.count_nonzero(mask)) for mask in masks)


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
    matches: WordMatches,
    embedder: Embedder | None,
    embedding: Future[Vector] | None = None,
) -> Query:
    """Parse the question, using the authors that its words found, and embed it.

    If the embedder fails, the search continues by words alone.

    embedding: the result of `start_embedding`
    """
    view = matches.view
    authors = view.authors(matches.places)
    parsed = question.parse_question(text, now=now, authors=authors, terms=matches.words)
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
            by_vectors = f"ran: {embedder.identity}"
    legs = {"words": by_words, "vectors": by_vectors}
    if view.problems:
        legs["index"] = "; ".join(view.problems)
    return Query(matches, parsed, vector, model, family, legs)


def run_query(
    tx: Transaction, findables: Mapping[str, Findable], query: Query, limit: int
) -> list[Hit]:
    """Find documents by meaning, add neighbours, rank all candidates, and read the records of hits."""
    view = query.view
    masks = view.allowed(query.filter)
    by_words = query.matches.places
    nearest: Sequence[ViewPlace] = ()
    if query.vector is not None:
        nearest = view.nearest(query.vector, masks, query.matches.depth)
    around = view.neighbours([*by_words[:EXPANDED], *nearest[:EXPANDED]], NEIGHBOUR_REACH)
    ordered, candidates = view.candidates([*by_words, *nearest, *around], query.vector)
    wanted = view.passing(ordered, masks)
    ranked = ranking.rank(
        query.question, candidates, query.matches.corpus, family=query.family, wanted=wanted
    )
    legs = {"words": frozenset(by_words), "vectors": frozenset(nearest)}
    reader = _HitReader(tx, findables, query, ordered, candidates, legs)
    hits: list[Hit] = []
    waiting = _best_of_records(ranked, candidates)
    # A record may have been removed since the first read; then the next one takes its place.
    while len(hits) < limit and (batch := list(islice(waiting, limit - len(hits)))):
        hits += reader.read(batch)
    return hits


def _best_of_records(ranked: Iterable[Ranked], candidates: Candidates) -> Iterator[Ranked]:
    """Yield the best document of each record, best first; a long record has several."""
    known: set[tuple[str, str, int]] = set()
    for entry in ranked:
        key = candidates.keys[entry.place]
        if key[:3] not in known:
            known.add(key[:3])
            yield entry


def run_separate_query(
    tx: Transaction, findables: Mapping[str, Findable], query: Query, limit: int
) -> list[Hit]:
    """Do the second half for the kinds that are ranked separately, if the search includes them."""
    filter = only_separate_kinds(query.filter)
    corpus = query.matches.separate_corpus
    if not filter.kinds or corpus is None:
        return []
    places = query.matches.separate_places[:SEPARATE_DEPTH]
    matches = replace(
        query.matches, filter=filter, places=places, corpus=corpus, depth=SEPARATE_DEPTH
    )
    return run_query(tx, findables, replace(query, matches=matches), limit)


def read_messages(
    tx: Transaction,
    findables: Mapping[str, Findable],
    query: Query,
    messages: Collection[tuple[str, int]],
) -> list[Hit]:
    """Return messages by session and number that ranking did not find, if the search may see them.

    Their score is 0: they are wanted because of another hit.
    """
    findable = findables["messages"]
    filter = query.filter
    sent = [
        (id, seq, findable.send_between(tx, id, seq - query.hit_reach, seq + query.hit_reach))
        for id, seq in messages
    ]
    hits = []
    for id, seq, result in sent:
        documents: dict[int, SearchDocument] = {}
        for document in documents_of(findable, result.rows()):
            documents.setdefault(document.seq, document)  # the first part of a long message
        message = documents.get(seq)
        if message is not None and _passes(message, filter, tx.now):
            before = documents.get(seq - 1)
            after = documents.get(seq + 1)
            hits.append(
                Hit(
                    kind=message.kind,
                    id=id,
                    seq=seq,
                    text=message.text,
                    at=clock.to_datetime(message.at),
                    score=0.0,
                    author=message.author,
                    role=message.role,
                    title=message.title,
                    session=message.session,
                    before=before.text if before else "",
                    after=after.text if after else "",
                )
            )
    return hits


def _passes(document: SearchDocument, filter: SearchFilter, now: int) -> bool:
    """Return whether a document that was read by its name passes a filter."""
    return (
        _is_shared_with(document, filter, now)
        and filter.place is None
        and (filter.user is None or document.user in (None, filter.user))
        and (filter.kinds is None or document.kind in filter.kinds)
        and (filter.session is None or document.session == filter.session)
        and (filter.since is None or document.at >= filter.since)
        and (filter.until is None or document.at < filter.until)
    )


def _is_shared_with(document: SearchDocument, filter: SearchFilter, now: int) -> bool:
    """Return whether a document is unexpired and the agent of a search may see it."""
    return (
        (document.expires_at is None or document.expires_at > now)
        and (filter.agent is None or document.agent in (None, filter.agent))
        and (filter.boards is None or document.board in (None, *filter.boards))
    )


class _HitReader:
    """Reads the records of hits."""

    def __init__(
        self,
        tx: Transaction,
        findables: Mapping[str, Findable],
        query: Query,
        places: Sequence[ViewPlace],
        candidates: Candidates,
        legs: Mapping[str, Collection[ViewPlace]],
    ) -> None:
        self._tx = tx
        self._findables = findables
        self._query = query
        self._places = places
        self._candidates = candidates
        self._legs = legs

    def read(self, batch: Sequence[Ranked]) -> list[Hit]:
        """Return the hits of those records that still exist and may be seen."""
        sent = []
        wanted: dict[tuple[object, ...], tuple[Findable, str, int]] = {}
        for kind, id, seq in {self._candidates.keys[entry.place][:3] for entry in batch}:
            if findable := self._findables.get(kind):
                # Several sections of a document that is one record need one read.
                wanted[kind, findable.key_of(id, seq)] = (findable, id, seq)
        for findable, id, seq in wanted.values():
            reach = self._query.hit_reach
            sent.append((findable, findable.send_between(self._tx, id, seq - reach, seq + reach)))
        documents: dict[DocumentKey, SearchDocument] = {}
        for findable, result in sent:
            for document in documents_of(findable, result.rows()):
                key = DocumentKey(document.kind, document.id, document.seq, document.part)
                documents[key] = document
        hits = []
        for entry in batch:
            key = self._candidates.keys[entry.place]
            place = self._places[entry.place]
            now = documents.get(key)
            if now is not None and self._is_visible(now, place):
                hits.append(self._hit(entry, now, documents))
        return hits

    def _is_visible(self, document: SearchDocument, place: ViewPlace) -> bool:
        is_same_owner = document.owner == self._query.view.owner(place)
        return is_same_owner and _is_shared_with(document, self._query.filter, self._tx.now)

    def _hit(
        self,
        entry: Ranked,
        document: SearchDocument,
        documents: Mapping[DocumentKey, SearchDocument],
    ) -> Hit:
        kind, id, seq, _ = self._candidates.keys[entry.place]
        before = documents.get(DocumentKey(kind, id, seq - 1, 0))
        after = documents.get(DocumentKey(kind, id, seq + 1, 0))
        cosine = float(self._candidates.cosines[entry.place])
        place = self._places[entry.place]
        return Hit(
            kind=kind,
            id=id,
            seq=seq,
            text=document.text,
            at=clock.to_datetime(self._candidates.at[entry.place]),
            score=entry.score,
            author=document.author,
            role=document.role,
            title=document.title,
            session=document.session,
            legs=tuple(name for name, places in self._legs.items() if place in places),
            why=entry.parts,
            before=before.text if before else "",
            after=after.text if after else "",
            near=None if math.isnan(cosine) else cosine,
            same=len(entry.same),
        )
