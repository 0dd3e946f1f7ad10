"""Search what a scope may see: every kind that has documents, by words and by meaning.

A search takes two reads, because the question is embedded between them and never in a transaction:
`start_search` matches words and embeds, `finish_search` ranks, and reads the hits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memorist.base import canonical, clock, limits
from memorist.base.errors import ModelError, SettingsError
from memorist.kinds.kind import Owner, Services, own_session
from memorist.kinds.newer_statement import (
    MessageName,
    NewerStatement,
    message_name,
    missing_messages,
    put_newer_first,
    with_newer_words,
)
from memorist.kinds.page import Page
from memorist.kinds.trust import FOREIGN
from memorist.search import query as query_steps
from memorist.search.chunk import ARROW
from memorist.search.embedders import Embedder
from memorist.search.indexer import Indexer
from memorist.search.query import Hit, Query
from memorist.search.rerankers import RERANK_LIMIT, rerank
from memorist.search.search_view import SearchFilter, SearchView, open_view
from memorist.storage.database import Transaction
from memorist.storage.transaction_database import TransactionDatabase

MAX_HITS = 200
MAX_QUERY_CHARACTERS = 8_000
"""A longer query, such as a pasted file, is cut to its beginning."""
LIKELY_SCORE = 0.001
"""Hits with a lower score are hidden from people and models by default."""


@dataclass(frozen=True)
class SearchResults(Page[Hit]):
    """The hits of a search, best first; `legs` says if words and vectors were used, or why not.

    They are one page. `facts` has up to three facts that match, beside the hits: facts repeat what
    messages say and must not take their places. A search for facts alone has them as its hits.
    """

    items: list[Hit]
    legs: Mapping[str, str] = field(default_factory=dict)
    facts: list[Hit] = field(default_factory=list)

    @property
    def hits(self) -> list[Hit]:
        """The hits, which are the items of the page."""
        return self.items


MAX_FACTS = 3
"""Facts that a search returns beside its hits."""
EXTRA_FACTS = 9
"""Additional facts that are ranked, of which a search may return some."""


@dataclass(frozen=True)
class RankedHits:
    """The hits of a search, best first, and the facts that match.

    Facts are ranked separately, so that the hits are the same as without facts.
    """

    hits: list[Hit]
    facts: list[Hit]
    newer: Mapping[MessageName, NewerStatement] = field(default_factory=dict)
    """The messages to rank below a newer one; none if the question is about the past."""


@dataclass(frozen=True)
class SearchRequest:
    """A search as a caller asks for it; `Scope.search` explains the fields."""

    query: str
    kinds: Sequence[str] | None = None
    session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    at: datetime | None = None
    limit: int = 10
    min_score: float = 0.0


def search(services: Services, owner: Owner, request: SearchRequest) -> SearchResults:
    """Return the hits of a search among the records that the scope may see."""
    limit = canonical.check_integer(request.limit, "limit", 1, MAX_HITS)
    min_score = canonical.amount(request.min_score, "min_score")
    text = checked_query(request.query)
    now = None if request.at is None else clock.from_datetime(request.at, "at")
    started = start_search(services, owner, text, _filter(owner, request), now)
    reranker = services.reranker
    candidates = limit if reranker is None else max(limit, RERANK_LIMIT)
    ranked = services.database.read(
        owner.tenant,
        lambda tx: finish_search(tx, services, owner, started, candidates),
        allow_replica=True,
    )
    legs = started.legs
    if reranker is not None:
        question = started.question.for_embedding
        hits, outcome = rerank(reranker, question, ranked.hits)
        facts, _ = rerank(reranker, question, ranked.facts)
        ranked = replace(ranked, hits=put_newer_first(hits, ranked.newer), facts=facts)
        legs = {**legs, "reranker": outcome}
    hits = [hit for hit in ranked.hits[:limit] if hit.score >= min_score]
    # If there are enough hits, a fact is at least as likely to be wanted as the last of them.
    min_fact_score = hits[-1].score if len(hits) == limit else min_score
    facts = [fact for fact in ranked.facts if fact.score >= min_fact_score]
    return SearchResults(hits, legs=legs, facts=facts)


def _filter(owner: Owner, request: SearchRequest) -> SearchFilter:
    """Return the checked filter of a search."""
    kinds, session, since, until = request.kinds, request.session, request.since, request.until
    return SearchFilter(
        owner.user,
        owner.agent,
        kinds=None if kinds is None else tuple(dict.fromkeys(kinds)),
        session=None if session is None else canonical.key(session, "session"),
        since=None if since is None else clock.from_datetime(since, "since"),
        until=None if until is None else clock.from_datetime(until, "until"),
    )


def checked_query(query: str) -> str:
    """Return the part of a query that is searched for; raise `Invalid` if it is not text."""
    text = canonical.text(query, "query", limits.MAX_MESSAGE_BYTES)
    return text[:MAX_QUERY_CHARACTERS]


def start_search(
    services: Services,
    owner: Owner,
    text: str,
    filter: SearchFilter,
    now: int | None = None,
    depth: int = query_steps.DEPTH,
) -> Query:
    """Match the words of a query in a read transaction, and embed it outside of any."""
    separate = tuple(kind.name for kind in services.kinds.values() if kind.is_ranked_separately)
    if filter.kinds is None or not set(filter.kinds) <= set(separate):
        filter = replace(filter, separate_kinds=separate)
    embedder = services.embedding(owner, limits.QUERY_VECTOR_SECONDS)
    embedding = query_steps.start_embedding(text, embedder)

    model = _model_name(embedder)

    def work(tx: Transaction) -> tuple[SearchFilter, int, SearchView]:
        if filter.session is not None:
            own_session(tx, owner, filter.session)
        visible = _with_boards(tx, owner, filter)
        return visible, tx.now, open_view(tx, services.index, services.findables, visible, model)

    visible, read_at, view = services.database.read(owner.tenant, work, allow_replica=True)
    # An open transaction must not be used in another thread.
    if view.waiting and not isinstance(services.database, TransactionDatabase):
        indexer = Indexer(services.database, services.index, services.findables)
        services.background_indexer.start(indexer, owner.tenant, view.waiting)
    matches = query_steps.match_words(view, text, visible, depth)
    asked_at = read_at if now is None else now
    return query_steps.prepare_query(text, asked_at, matches, embedder, embedding)


def _model_name(embedder: Embedder | None) -> str:
    """Return the model whose vectors are compared; "" if there is none, or it cannot be used."""
    try:
        return "" if embedder is None else embedder.identity
    except (ModelError, SettingsError):  # `prepare_query` meets it again and says why
        return ""


def finish_search(
    tx: Transaction, services: Services, owner: Owner, started: Query, limit: int
) -> RankedHits:
    """Return the ranked hits of a started search: up to `limit`, and a few facts.

    Reads again which boards the agent shares: that may have changed while the query was embedded.
    """
    visible = _with_boards(tx, owner, started.filter)
    query = replace(started, matches=replace(started.matches, filter=visible))
    names = query.filter.kinds or ()
    if names and all(services.kinds[name].is_ranked_separately for name in names):
        hits = query_steps.run_query(tx, services.findables, query, limit + EXTRA_FACTS)
        hits = _rank_by_kind(tx, services, hits)[:limit]
    else:
        hits = query_steps.run_query(tx, services.findables, query, limit)
    newer = _newer_statements(tx, services, query, hits)
    hits = with_newer_words(hits, newer)
    if query.question.past:
        newer = {}
    hits = _with_newer_messages(tx, services, query, hits, newer)[:limit]
    facts = query_steps.run_separate_query(tx, services.findables, query, MAX_FACTS + EXTRA_FACTS)
    facts = _rank_by_kind(tx, services, facts)[:MAX_FACTS]
    return RankedHits(
        _reviewed(tx, services, owner, hits),
        _reviewed(tx, services, owner, facts),
        newer,
    )


def _newer_statements(
    tx: Transaction, services: Services, query: Query, hits: Sequence[Hit]
) -> Mapping[MessageName, NewerStatement]:
    """Return what is true instead of what some hits say, for those that were replaced."""
    messages = [name for hit in hits if (name := message_name(hit))]
    now = tx.now if query.question.now is None else query.question.now
    newer: dict[MessageName, NewerStatement] = {}
    for kind in services.kinds.values():
        newer |= kind.replaced_messages(tx, query, messages, now)
    return newer


def _with_newer_messages(
    tx: Transaction,
    services: Services,
    query: Query,
    hits: Sequence[Hit],
    newer: Mapping[MessageName, NewerStatement],
) -> list[Hit]:
    """Return hits with the messages that replaced some of them, each before what it replaced."""
    added: dict[MessageName | None, Hit] = {}
    for names in missing_messages(hits, newer):
        messages = query_steps.read_messages(tx, services.findables, query, names)
        if messages:
            newest = max(messages, key=lambda hit: (hit.at, hit.id, hit.seq))
            added[message_name(newest)] = newest
    return put_newer_first([*hits, *added.values()], newer)


def _rank_by_kind(tx: Transaction, services: Services, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits of kinds that are ranked separately, best first."""
    ranked: list[Hit] = []
    for name in dict.fromkeys(hit.kind for hit in hits):
        ranked += services.kinds[name].rank_hits(tx, [hit for hit in hits if hit.kind == name])
    return sorted(ranked, key=lambda hit: -hit.score)


def _reviewed(tx: Transaction, services: Services, owner: Owner, hits: Sequence[Hit]) -> list[Hit]:
    """Return hits without text that waits for a review.

    The index has the newest text of a record. Which text waits depends on the settings, so it is
    left out here and not in the index.
    """
    reviewed_texts = {
        (kind, id): services.kinds[kind](services, owner).text_before_review(tx, id)
        for kind, id in {(hit.kind, hit.id) for hit in hits}
    }
    shown = []
    for hit in hits:
        text = reviewed_texts[hit.kind, hit.id]
        if text is None:
            shown.append(hit)
        elif hit.text in text and all(heading in text for heading in hit.title.split(ARROW)):
            before = hit.before if hit.before in text else ""
            after = hit.after if hit.after in text else ""
            shown.append(replace(hit, before=before, after=after))
    return shown


def _with_boards(tx: Transaction, owner: Owner, filter: SearchFilter) -> SearchFilter:
    """Limit a search to the whiteboards of the scope's agent; without an agent, no limit."""
    if owner.agent is None:
        return filter
    rows = tx.all(
        "select board from board_members where tenant = :tenant and agent = :agent",
        agent=owner.agent,
    )
    return replace(filter, boards=tuple(board for (board,) in rows))


def foreign_sources(
    tx: Transaction, services: Services, hits: Iterable[Hit]
) -> dict[tuple[str, str], str]:
    """Return the source, by kind and id, of the hits that a tool or an import wrote."""
    sources = {(hit.kind, hit.id): services.kinds[hit.kind].source_of(tx, hit.id) for hit in hits}
    return {key: source for key, source in sources.items() if source in FOREIGN}
