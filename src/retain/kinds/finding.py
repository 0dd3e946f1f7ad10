"""Searching as somebody: what a scope may find, and how a question is put."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from retain.base import canonical, clock, limits
from retain.kinds.kind import Owner, Services, own_session
from retain.search import query as find
from retain.search.engine import SearchFilter
from retain.search.query import Hit, Query, WordMatches
from retain.search.rerankers import RERANK_LIMIT, rerank
from retain.search.retrieval import PLACE_SEPARATOR
from retain.storage.database import Transaction

MOST_HITS = 200
LIKELY = 0.001
"""Less likely than this is no answer: a person or a model is not shown it unless they ask for it."""
FOREIGN = frozenset({"tool", "import"})
"""Sources whose words may be anybody's."""
_SOURCE = {
    "refs": "select source from refs where tenant = :tenant and key = :id",
    "knowledge": "select source from documents where tenant = :tenant and id = :id",
    "graph": "select source from graph_entities where tenant = :tenant and id = :id",
    "entries": "select source from entries where tenant = :tenant and id = :id",
    "items": "select source from items where tenant = :tenant and area = :area and place = :place and key = :key",
}
_LONGEST = 8_000
"""Characters of a question that are looked at: who pastes a file to search for it means its beginning."""


@dataclass(frozen=True)
class SearchResults:
    """What a search found, best first; `legs` says for words and vectors whether they ran, and if not, why."""

    hits: list[Hit]
    legs: Mapping[str, str]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, place: int) -> Hit:
        return self.hits[place]


def search(
    services: Services,
    owner: Owner,
    query: str,
    kinds: Sequence[str] | None,
    session: str | None,
    since: datetime | None,
    until: datetime | None,
    at: datetime | None,
    limit: int,
    min_score: float = 0.0,
) -> SearchResults:
    """What the scope remembers that answers a question."""
    canonical.whole(limit, "limit", 1, MOST_HITS)
    canonical.amount(min_score, "min_score")
    text = question(services, query)
    now = None if at is None else clock.from_datetime(at, "at")
    asked = SearchFilter(
        owner.user,
        owner.agent,
        None,
        None if kinds is None else tuple(kinds),
        None if session is None else canonical.key(session, "session"),
        None if since is None else clock.from_datetime(since, "since"),
        None if until is None else clock.from_datetime(until, "until"),
    )
    sought = seek(services, owner, text, asked, now)
    wanted = limit if services.reranker is None else max(limit, RERANK_LIMIT)
    hits, legs = (
        services.database.read(
            owner.tenant, lambda tx: finish(tx, services, owner, sought, wanted)
        ),
        sought.legs,
    )
    if services.reranker is not None:
        hits, said = rerank(services.reranker, sought.question.for_embedding, hits)
        legs = {**legs, "reranker": said}
    return SearchResults([hit for hit in hits if hit.score >= min_score][:limit], legs)


def question(services: Services, query: str) -> str:
    """A question, as much of it as is looked at."""
    return canonical.text(query, "query", limits.MAX_MESSAGE_BYTES)[:_LONGEST]


def seek(
    services: Services,
    owner: Owner,
    text: str,
    asked: SearchFilter,
    now: int | None,
    depth: int = find.DEPTH,
) -> Query:
    """The first half of a search: a read by words, and then the question embedded, outside of any transaction."""

    def work(tx: Transaction) -> tuple[SearchFilter, int, WordMatches]:
        if asked.session is not None:
            own_session(tx, owner, asked.session)
        mine = asked_by(tx, owner, asked)
        return mine, tx.now, find.match_words(tx, services.index, text, mine, depth)

    mine, moment, begun = services.database.read(owner.tenant, work)
    embedder = services.embedding(owner, limits.QUERY_VECTOR_SECONDS)
    return find.prepare_query(text, moment if now is None else now, mine, begun, embedder)


def finish(
    tx: Transaction, services: Services, owner: Owner, sought: Query, limit: int
) -> list[Hit]:
    """The second half: what may be seen is asked again, because an embedder may have taken its time."""
    return find.run_query(
        tx, services.index, replace(sought, filter=asked_by(tx, owner, sought.filter)), limit
    )


def asked_by(tx: Transaction, owner: Owner, asked: SearchFilter) -> SearchFilter:
    """The same, with the boards that the scope's agent shares; without an agent, every board."""
    if owner.agent is None:
        return asked
    rows = tx.all(
        "select board from board_members where tenant = :tenant and agent = :agent",
        agent=owner.agent,
    )
    return replace(asked, boards=tuple(board for (board,) in rows))


def foreign(tx: Transaction, hits: Iterable[Hit]) -> Mapping[tuple[str, str], str]:
    """Which of what was found is no person's and no agent's own words, by kind and id: `tool` or `import`."""
    rows = {
        (hit.kind, hit.id): tx.one(_SOURCE[hit.kind], **_named(hit))
        for hit in hits
        if hit.kind in _SOURCE
    }
    return {which: str(row[0]) for which, row in rows.items() if row and row[0] in FOREIGN}


def _named(hit: Hit) -> dict[str, str]:
    """The parameters that name the row of what was found."""
    if hit.kind != "items":
        return {"id": hit.id}
    area, *names, key = json.loads(hit.id)
    return {"area": area, "place": "".join([name + PLACE_SEPARATOR for name in names]), "key": key}
