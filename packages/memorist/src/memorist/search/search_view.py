"""What one search sees: the documents of some owners, in one snapshot."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from memorist.base.wording import counted
from memorist.search import fresh
from memorist.search.block import DocumentBlock, DocumentKey
from memorist.search.candidates import Candidates
from memorist.search.fresh import Changed
from memorist.search.owner_index import BEHIND, OWNER, OwnerState, read_state
from memorist.search.search_document import owner_of
from memorist.search.segment import word_hash
from memorist.search.vectors import OwnerVectors

if TYPE_CHECKING:
    from memorist.search.index import Index
    from memorist.search.search_document import Findable
    from memorist.search.segment import Array, Mask
    from memorist.search.vectors import Vector
    from memorist.storage.database import Transaction

LOWEST_COSINE = -2.0
"""Below every cosine, also those of rounded vectors."""
MANY_FRESH = 500
"""Fresh documents of an owner after which a search asks for it to be indexed."""
MAX_OWNERS = 2000
MAX_DOCUMENTS = 1_000_000
"""A search over a whole tenant reads the owners that were written last, up to these limits."""
_OWNERS = """select owner, max(generation), max(next_number), max(documents), max(embedded), max(vectors), max(is_fresh)
    from (
        select owner, generation, next_number, documents, embedded, vectors, changed_at, 0 as is_fresh
        from index_owners where tenant = :tenant
        union all select owner, 0, 0, 0, '', 0, :now, 1 from fresh_records where tenant = :tenant
        union all select owner, 0, 0, 0, '', 0, :now, 1 from fresh_sessions where tenant = :tenant) known
    where owner >= :first and owner < :beyond
    group by owner order by max(changed_at) desc, owner limit :limit"""


@dataclass(frozen=True)
class SearchFilter:
    """The documents that a search may return; None means no restriction.

    Documents without a user or an agent are shared: every filter lets them pass.
    """

    user: str | None = None
    agent: str | None = None
    boards: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    session: str | None = None
    since: int | None = None
    until: int | None = None
    place: str | None = None  # this place and everything below it
    separate_kinds: tuple[str, ...] = ()
    """Kinds that are ranked separately: neither among the hits of the others nor in their statistics."""


def only_separate_kinds(filter: SearchFilter) -> SearchFilter:
    """Return a filter for the kinds that are ranked separately and that the search includes."""
    kinds = [kind for kind in filter.separate_kinds if filter.kinds is None or kind in filter.kinds]
    return replace(filter, kinds=tuple(kinds), separate_kinds=())


ViewPlace = int
"""The place of a document in a view, which has the documents of its parts one after the other."""


@dataclass
class ViewPart:
    """The documents of one block."""

    owner: str
    block: DocumentBlock
    alive: Mask
    vectors: OwnerVectors | None = None
    stored_rows: Array | None = None
    """The row of each document's vector, -1 if it has none."""
    outdated: Sequence[int] = ()
    """Messages whose vectors contain a predecessor that was removed."""
    _occurrences: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    _allowed: dict[SearchFilter, Mask] = field(default_factory=dict)

    def allowed(self, filter: SearchFilter) -> Mask:
        """Return which documents pass a filter; `alive` itself if all do."""
        if filter not in self._allowed:
            self._allowed[filter] = _allowed(self, filter)
        return self._allowed[filter]

    def occurrences(self, hashes: Sequence[int]) -> list[tuple[Array, Array]]:
        """Return for each word the documents that have it, and how often each has it."""
        import numpy as np

        missing = [hash for hash in dict.fromkeys(hashes) if hash not in self._occurrences]
        if missing:
            every = self.block.occurrences(np.array(missing, np.int32))
            self._occurrences.update(zip(missing, every, strict=True))
        return [self._occurrences[hash] for hash in hashes]

    @cached_property
    def vector_rows(self) -> Array:
        """The row of each document's current vector, -1 if it has none."""
        import numpy as np

        if self.stored_rows is None:
            return np.full(self.block.size, -1, np.int32)
        if not self.outdated:
            return self.stored_rows
        rows = self.stored_rows.copy()
        rows[list(self.outdated)] = -1
        return rows


@dataclass(frozen=True)
class _Chosen:
    """Some documents of a view, by part, with their positions in a list."""

    count: int
    by_part: Sequence[tuple[ViewPart, Array, Array]]

    def numbers(self, column: str) -> Array:
        """Return the values of a column of numbers."""
        import numpy as np

        values = np.zeros(self.count, np.int64)
        for part, positions, documents in self.by_part:
            values[positions] = part.block.columns[column][documents]
        return values

    def texts(self, column: str) -> list[str]:
        """Return the values of a column of strings, "" for none."""
        values = [""] * self.count
        for part, positions, documents in self.by_part:
            texts = part.block.texts(column, documents)
            for position, text in zip(positions.tolist(), texts, strict=True):
                values[position] = text or ""
        return values

    def keys(self) -> list[DocumentKey]:
        """Return the names of the documents."""
        columns = (
            self.texts("kind"),
            self.texts("id"),
            self.numbers("seq").tolist(),
            self.numbers("part").tolist(),
        )
        return list(map(DocumentKey, *columns))

    def count_words(self, words: Sequence[str]) -> Array:
        """Return how often each document has each word."""
        import numpy as np

        counts = np.zeros((self.count, len(words)))
        hashes = [word_hash(word) for word in words]
        for part, positions, chosen in self.by_part:
            position_of = np.full(part.block.size, -1, np.int32)
            position_of[chosen] = positions
            for word, (documents, often) in enumerate(part.occurrences(hashes)):
                wanted = position_of[documents]
                inside = np.flatnonzero(wanted >= 0)
                counts[wanted[inside], word] = often[inside]
        return counts

    def cosines(self, vector: Vector) -> Array:
        """Return the cosine of each document; NaN if it has no vector."""
        import numpy as np

        cosines = np.full(self.count, np.nan)
        for part, positions, documents in self.by_part:
            if part.vectors is None or not _fits(part.vectors, vector):
                continue
            rows = part.vector_rows[documents]
            known = rows >= 0
            exact = part.vectors.exact(vector, rows[known]).astype(np.float64).round(7)
            cosines[positions[known]] = exact
        return cosines


@dataclass(frozen=True)
class SearchView:
    """The documents that a search may see."""

    parts: Sequence[ViewPart]
    problems: Sequence[str] = ()
    """Why it is incomplete."""
    waiting: Sequence[str] = ()
    """Owners with so many fresh documents that they should be indexed now."""

    @cached_property
    def _starts(self) -> list[ViewPlace]:
        """The place of the first document of each part."""
        return list(accumulate((part.block.size for part in self.parts), initial=0))[:-1]

    def allowed(self, filter: SearchFilter) -> list[Mask]:
        """Return which documents of each part pass a filter."""
        return [part.allowed(filter) for part in self.parts]

    def count_documents(self, hashes: Sequence[int], masks: Sequence[Mask]) -> list[int]:
        """Return how many documents have each word."""
        import numpy as np

        counts = [0] * len(hashes)
        for part, mask in zip(self.parts, masks, strict=True):
            everything = bool(mask.all())
            for word, (documents, _) in enumerate(part.occurrences(hashes)):
                counted = len(documents) if everything else np.count_nonzero(mask[documents])
                counts[word] += int(counted)
        return counts

    def weigh_words(
        self, hashes: Sequence[int], rarity: Sequence[float], masks: Sequence[Mask], limit: int
    ) -> list[ViewPlace]:
        """Return the documents with the rarest words, at most `limit`; newest first among equals.

        The weights are summed in the order of the words, so equal words give equal sums.
        """
        import numpy as np

        best: list[tuple[Array, Array]] = []
        for index, (part, mask) in enumerate(zip(self.parts, masks, strict=True)):
            weights = np.zeros(part.block.size, np.float32)
            for (documents, _), weight in zip(part.occurrences(hashes), rarity, strict=True):
                weights[documents] += weight
            if not mask.all():
                weights *= mask
            documents = np.flatnonzero(weights > 0)
            best.append(self._best(index, documents, weights[documents], limit))
        return self._first(best, limit)

    def nearest(self, vector: Vector, masks: Sequence[Mask], limit: int) -> list[ViewPlace]:
        """Return the documents whose vectors are nearest, at most `limit`."""
        import numpy as np

        approximate: dict[str, tuple[Array, float]] = {}
        best: list[tuple[Array, Array]] = []
        for index, (part, mask) in enumerate(zip(self.parts, masks, strict=True)):
            vectors = part.vectors
            if vectors is None or not _fits(vectors, vector):
                continue
            if part.owner not in approximate:
                approximate[part.owner] = vectors.approximate(vector)
            scores, error = approximate[part.owner]
            rows = part.vector_rows
            near = np.where(mask & (rows >= 0), scores[rows], -np.inf)
            lowest = LOWEST_COSINE
            if error and limit < len(near):
                lowest = max(np.partition(near, -limit)[-limit] - 2 * error, lowest)
            documents = np.flatnonzero(near >= lowest)
            near = vectors.exact(vector, rows[documents]) if error else near[documents]
            cosines = near.astype(np.float64).round(7)
            best.append(self._best(index, documents, cosines, limit))
        return self._first(best, limit)

    def _best(self, index: int, documents: Array, scores: Array, limit: int) -> tuple[Array, Array]:
        """Return the best documents of a part and those as good as the last, with their scores."""
        import numpy as np

        if len(documents) > limit:
            chosen = scores >= np.partition(scores, -limit)[-limit]
            documents = documents[chosen]
            scores = scores[chosen]
        if len(documents) > limit:
            # Of those that are as good as the last one, only the newest can be among the first.
            at = self.parts[index].block.columns["at"][documents]
            last = np.lexsort((-at, -scores))[limit - 1]
            chosen = (scores > scores[last]) | (at >= at[last])
            documents = documents[chosen]
            scores = scores[chosen]
        return documents + self._starts[index], scores

    def _first(self, best: Sequence[tuple[Array, Array]], limit: int) -> list[ViewPlace]:
        """Return the first documents: by score, then the newest, then by their names."""
        import numpy as np

        if not best:
            return []
        places, scores = (np.concatenate(each) for each in zip(*best, strict=True))
        chosen = self._chosen(places)
        at = chosen.numbers("at")
        order = np.lexsort((-at, -scores))
        is_tie = (np.diff(scores[order]) == 0) & (np.diff(at[order]) == 0)
        if is_tie.any():
            names = sorted(range(len(places)), key=chosen.keys().__getitem__)
            order = np.array(names)[np.lexsort((-at[names], -scores[names]))]
        first: list[ViewPlace] = places[order[:limit]].tolist()
        return first

    def _chosen(self, places: Sequence[ViewPlace] | Array) -> _Chosen:
        import numpy as np

        every = np.array(places, np.int64)
        part_of = np.searchsorted(self._starts, every, side="right") - 1
        by_part = []
        for index in sorted(set(part_of.tolist())):
            positions = np.flatnonzero(part_of == index)
            by_part.append((self.parts[index], positions, every[positions] - self._starts[index]))
        return _Chosen(len(every), by_part)

    def passing(self, places: Sequence[ViewPlace], masks: Sequence[Mask]) -> set[int]:
        """Return the positions in a list of the documents that masks let pass."""
        import numpy as np

        return set(np.flatnonzero(np.concatenate(masks)[places]).tolist()) if places else set()

    def owner(self, place: ViewPlace) -> str:
        """Return the owner of a document."""
        return self.parts[bisect_right(self._starts, place) - 1].owner

    def authors(self, places: Sequence[ViewPlace]) -> set[str]:
        """Return the authors of documents."""
        return set(filter(None, self._chosen(places).texts("author")))

    def neighbours(self, places: Sequence[ViewPlace], reach: int) -> list[ViewPlace]:
        """Return the documents around others in their session or document, with themselves."""
        keys: dict[str, list[DocumentKey]] = {}
        for part, _, documents in self._chosen(places).by_part:
            keys.setdefault(part.owner, []).extend(part.block.keys(documents))
        neighbours: list[ViewPlace] = []
        for start, part in zip(self._starts, self.parts, strict=True):
            around = part.block.neighbours(keys.get(part.owner, ()), reach)
            neighbours += (around[part.alive[around]] + start).tolist()
        return neighbours

    def candidates(
        self, places: Iterable[ViewPlace], vector: Vector | None
    ) -> tuple[list[ViewPlace], Candidates]:
        """Return documents in the order of time and name, and what ranking needs of each."""
        import numpy as np

        distinct = list(set(places))
        unordered = self._chosen(distinct)
        every = sorted(
            zip(unordered.numbers("at").tolist(), unordered.keys(), distinct, strict=True)
        )
        ordered = [place for _, _, place in every]
        chosen = self._chosen(ordered)
        unknown = np.full(len(ordered), np.nan)
        table = Candidates(
            keys=[key for _, key, _ in every],
            at=[at for at, _, _ in every],
            roles=chosen.texts("role"),
            authors=chosen.texts("author"),
            cosines=unknown if vector is None else chosen.cosines(vector),
            lengths=chosen.numbers("length").astype(float),
            has_question=chosen.numbers("has_question").astype(float),
            question_words=chosen.numbers("question_words").astype(float),
            fingerprints=chosen.numbers("fingerprint").tolist(),
            count_words=chosen.count_words,
        )
        return ordered, table


def _fits(vectors: OwnerVectors, vector: Vector) -> bool:
    return bool(vectors.pages) and vectors.pages[0].vectors.shape[1] == len(vector)


def _allowed(part: ViewPart, filter: SearchFilter) -> Mask:
    block = part.block
    conditions: list[Mask | None] = []
    if filter.agent is not None:
        conditions.append(block.has_value("agent", (None, filter.agent)))
    if filter.boards is not None:
        conditions.append(block.has_value("board", (None, *filter.boards)))
    if filter.kinds is not None:
        conditions.append(block.has_value("kind", filter.kinds))
    if filter.separate_kinds:
        conditions.append(block.has_value("kind", filter.separate_kinds, excluded=True))
    if filter.session is not None:
        conditions.append(block.has_value("session", (filter.session,)))
    if filter.since is not None:
        conditions.append(block.columns["at"] >= filter.since)
    if filter.until is not None:
        conditions.append(block.columns["at"] < filter.until)
    if filter.place is not None:
        conditions.append(block.is_below(filter.place))
    mask = part.alive
    for condition in conditions:
        if condition is not None:
            mask = mask & condition
    return mask


def open_view(
    tx: Transaction,
    index: Index,
    findables: Mapping[str, Findable],
    filter: SearchFilter,
    model: str = "",
) -> SearchView:
    """Return the documents of the owners that a filter lets pass.

    model: the embedder whose vectors are read, "" for none
    """
    behind = tx.send(BEHIND)
    named = [(owner, tx.send(OWNER, owner=owner)) for owner in _named_owners(filter)]
    others, problems = _other_owners(tx, filter)
    fresh_owners = [owner for owner, _ in named] + [each.owner for each in others if each.is_fresh]
    sent = [(owner, fresh.send_marks(tx, owner)) for owner in fresh_owners]
    states = {owner: read_state(state.rows()) for owner, state in named}
    states.update((each.owner, each.state) for each in others)
    marked = {owner: fresh.marks(marks) for owner, marks in sent}
    if behind.rows():
        problems.append("the index is being completed after an import or an upgrade")
    loaded = index.cache.load(tx, states, model)
    blocks = index.fresh.load(tx, findables, marked)
    parts: list[ViewPart] = []
    for each in loaded:
        replaced = blocks[each.owner].replaced if each.owner in blocks else ()
        for (block, alive), rows in zip(each.blocks, each.vector_rows, strict=True):
            mask = _without_expired(block, without_changed(block, alive, replaced), tx.now)
            outdated = _successors(block, replaced)
            parts.append(ViewPart(each.owner, block, mask, each.vectors, rows, outdated))
        if each.owner in blocks:
            block = blocks[each.owner].block
            parts.append(ViewPart(each.owner, block, _without_expired(block, None, tx.now)))
        if each.damaged:
            skipped = counted(len(each.damaged), "damaged segment")
            problems.append(f"skipped {skipped}; run `memorist reindex`")
    if not all(marks.is_complete for marks in marked.values()):
        problems.append("there are too many unindexed documents; some were not searched")
    waiting = [owner for owner, marks in marked.items() if marks.count > MANY_FRESH]
    return SearchView(parts, tuple(dict.fromkeys(problems)), waiting)


def without_changed(block: DocumentBlock, alive: Mask, changed: Iterable[Changed]) -> Mask:
    """Return which documents of a block still count."""
    mask = alive
    for each in changed:
        places = block.find(each.kind, each.id, each.low, each.high)
        if len(places):
            mask = mask.copy() if mask is alive else mask
            mask[places] = False
    return mask


def _successors(block: DocumentBlock, changed: Iterable[Changed]) -> list[int]:
    """Return the messages after changed ones."""
    places: list[int] = []
    for each in changed:
        if each.kind == "messages":
            places += block.find(each.kind, each.id, each.high + 1, each.high + 1).tolist()
    return places


def _without_expired(block: DocumentBlock, alive: Mask | None, now: int) -> Mask:
    import numpy as np

    expires = block.columns["expires"]
    if alive is None:
        alive = np.ones(block.size, bool)
    if not expires.any():
        return alive
    mask: Mask = alive & ((expires == 0) | (expires > now))
    return mask


def _named_owners(filter: SearchFilter) -> list[str]:
    """Return the owners that a filter names."""
    if filter.user is None:
        return []
    owners = [owner_of(filter.user), owner_of(None)]
    if filter.agent is not None:
        owners.append(owner_of(None, filter.agent))
        owners += [owner_of(None, board=board) for board in filter.boards or ()]
    return owners


class _KnownOwner(NamedTuple):
    """An owner, its state, and whether it has fresh documents."""

    owner: str
    state: OwnerState
    is_fresh: bool


def _other_owners(tx: Transaction, filter: SearchFilter) -> tuple[list[_KnownOwner], list[str]]:
    """Return the owners that a filter lets pass without naming them, and what was left out."""
    if filter.user is not None and filter.agent is not None:
        return [], []
    # Agents and whiteboards (a…, b…), or everything.
    first, beyond = ("a", "c") if filter.user is not None else ("a", "v")
    owners: list[_KnownOwner] = []
    total = 0
    for owner, *state, is_fresh in tx.all(
        _OWNERS, first=first, beyond=beyond, limit=MAX_OWNERS + 1
    ):
        if not _is_visible(owner, filter):
            continue
        known = OwnerState(*state)
        total += known.documents
        if len(owners) >= MAX_OWNERS or (owners and total > MAX_DOCUMENTS):
            problem = f"searched only the {len(owners):,} most recently active users and agents"
            return owners, [problem]
        owners.append(_KnownOwner(owner, known, bool(is_fresh)))
    return owners, []


def _is_visible(owner: str, filter: SearchFilter) -> bool:
    kind, name = owner[0], owner[1:]
    if kind == "a" and filter.agent is not None:
        return name == filter.agent
    if kind == "b" and filter.boards is not None:
        return name in filter.boards
    return True


def rarity(frequency: int, extent: int) -> float:
    """Return the weight of a word that so many of all documents have."""
    return math.log1p(max(extent - frequency, 0.5) / (frequency + 0.5))
