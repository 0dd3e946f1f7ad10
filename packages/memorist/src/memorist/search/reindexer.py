"""Reindexing: add missing rows to the index, after a migration or an import.

If the text analysis has changed, or words were lost, rows are analysed again and keep their numbers
and vectors.

All other writes index their records themselves, so this runs beside any number of writers. A batch
is read and analysed outside of any write. Then its records are locked, and only those that are
unchanged and still missing are added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from memorist.base.errors import Busy, ReadTooLong, SettingsError, StorageError, Unreachable
from memorist.search import words as analysis
from memorist.search.candidates import digest
from memorist.search.index import Index
from memorist.search.retrieval import index_terms
from memorist.search.search_engine import IndexRow
from memorist.storage.contents.blobs import Blobs
from memorist.storage.database import Database, Row, Transaction
from memorist.storage.tables import Check

ROWS_PER_WRITE = 200
_MAX_REPORTED = 200
_BEGINNING = 16 << 10
_REMOVE = "delete from search_items where tenant = :tenant and number = :number"
_ROUND = "select round from search_behind where tenant = :tenant"
_DONE = "delete from search_behind where tenant = :tenant and round = :round and old = 0"
_OLD = """select number from search_items where tenant = :tenant
    and number <= (select old from search_behind where tenant = :tenant) order by number desc limit :size"""
_UP_TO = "update search_behind set old = :number where tenant = :tenant and old > :number"
Place = tuple[Any, ...]


@dataclass(frozen=True)
class Findable:
    """Functions that find and index the records of a kind.

    start:   a key before the first one
    lacking: return records without rows, by key, after a key; each row starts with its key
    stray:   return rows of the index without a record: number and description
    hold:    lock records until the commit
    items:   return the items of a record, given the beginning of its stored content
    content: return user and digest of a record's stored content, if the kind has one
    """

    kind: str
    start: Place
    lacking: Callable[[Transaction, Place, int], Sequence[Row]]
    stray: Callable[[Transaction, int], Sequence[Row]]
    hold: Callable[[Transaction, Sequence[Place]], None]
    items: Callable[[Row, str], Sequence[IndexRow]]
    content: Callable[[Row], tuple[str, str]] | None = None

    @property
    def checks(self) -> tuple[Check, ...]:
        """Checks that the index has every record, and nothing else (P12, P13)."""
        return (
            Check(
                f"the index has all rows of {self.kind} (`memorist reindex` adds missing ones)",
                find=self._missing,
            ),
            Check(
                f"the index has no rows of {self.kind} that do not exist",
                find=lambda tx: [r[1] for r in self.stray(tx, _MAX_REPORTED)],
            ),
        )

    def key(self, row: Row) -> Place:
        """Return the key of a row."""
        return tuple(row[: len(self.start)])

    def _missing(self, tx: Transaction) -> Sequence[str]:
        wrong = (" ".join(map(str, self.key(row))) for row in self._each(tx) if self.items(row, ""))
        return list(islice(wrong, _MAX_REPORTED))

    def _each(self, tx: Transaction) -> Iterator[Row]:
        after = self.start
        while rows := self.lacking(tx, after, ROWS_PER_WRITE):
            yield from rows
            after = self.key(rows[-1])


@dataclass(frozen=True)
class Reindexed:
    """Number of rows that were added, removed, and analysed again."""

    added: int = 0
    removed: int = 0
    reworded: int = 0

    def __add__(self, other: Reindexed) -> Reindexed:
        return Reindexed(
            self.added + other.added, self.removed + other.removed, self.reworded + other.reworded
        )


def is_behind(tx: Transaction) -> bool:
    """Return whether something is left to do in the index of a tenant."""
    return tx.one(_ROUND) is not None


def lacks_only_upkeep(tx: Transaction) -> bool:
    """Return whether only upkeep is left."""
    return tx.one(f"{_ROUND} and round = 0 and old = 0") is not None


class Reindexer:
    """Reindexes one tenant; calls `progress` with the number of rows after each step."""

    def __init__(
        self,
        database: Database,
        index: Index,
        blobs: Blobs,
        tenant: str,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._database = database
        self._index = index
        self._blobs = blobs
        self._tenant = tenant
        self._progress = progress or (lambda added: None)

    def run(self, kinds: Iterable[Findable]) -> Reindexed:
        """Add missing rows and remove stray ones; then the tenant is no longer behind."""
        unfinished = self._database.read(self._tenant, lambda tx: tx.one(_ROUND))
        total = Reindexed()
        for things in kinds:
            # Records that changed between read and write are left for the next round.
            while added := self._once(things):
                total += Reindexed(added)
            while removed := self._database.write(
                self._tenant, partial(_tidy, things=things), long=True
            ):
                total += Reindexed(0, removed)
        total += Reindexed(0, 0, self._reword_outdated())
        self._add_digests()
        if unfinished is not None:
            self._finish(unfinished[0])
        return total

    def run_upkeep(self) -> None:
        """Store missing digests, which a search does not need."""
        self._add_digests()
        self._finish(0)

    def _finish(self, round: int) -> None:
        """Note that the tenant is complete.

        An import that started meanwhile has raised the round; then nothing is deleted here.
        """
        self._database.write(self._tenant, lambda tx: tx.run(_DONE, round=round))

    def mend(self) -> Reindexed:
        """Restore lost words, and remove those of deleted rows. Reads every word."""
        total = 0
        while lost := self._database.read(self._tenant, self._index.engine.lost, long=True):
            done = sum(
                self._reword(lost[n : n + ROWS_PER_WRITE])
                for n in range(0, len(lost), ROWS_PER_WRITE)
            )
            total += done
            if not done:  # the rows were removed meanwhile
                break
        return Reindexed(
            0, self._database.write(self._tenant, self._index.engine.sweep, long=True), total
        )

    def _reword_outdated(self) -> int:
        """Analyse rows of an older analysis again, newest first; return their number."""
        total = 0
        while rows := self._database.read(
            self._tenant, lambda tx: tx.all(_OLD, size=ROWS_PER_WRITE)
        ):
            total += self._reword([number for (number,) in rows], rows[-1][0] - 1)
        self._database.write(self._tenant, lambda tx: tx.run(_UP_TO, number=0))
        return total

    def _reword(self, numbers: Sequence[int], left: int | None = None) -> int:
        """Analyse rows outside of any write, then write the words of those that still exist."""
        items = self._database.read(self._tenant, lambda tx: self._index.engine.items(tx, numbers))
        words = {n: index_terms(i) for n, i in items.items()}
        digests = _packed_digests(items)

        def work(tx: Transaction) -> int:
            if left is not None:
                tx.run(_UP_TO, number=left)
            _put_digests(tx, digests)
            return self._index.engine.reword(tx, words)

        done = self._database.write(self._tenant, work, long=True)
        self._progress(done)
        return done

    def _add_digests(self) -> None:
        """Store the digests of rows that have none."""
        after = 0
        while items := self._database.read(
            self._tenant, partial(self._rows_without_digest, after), long=True
        ):
            digests = _packed_digests(items)
            self._database.write(self._tenant, partial(_put_digests, digests=digests), long=True)
            self._progress(0)
            after = max(items)

    def _rows_without_digest(self, after: int, tx: Transaction) -> dict[int, IndexRow]:
        """Return the next rows without a digest."""
        engine = self._index.engine
        return engine.items(tx, engine.without_digest(tx, after, ROWS_PER_WRITE))

    def _once(self, things: Findable) -> int:
        """Go once through all records without rows; return the number of rows added."""
        after = things.start
        total = 0
        while rows := self._database.read(
            self._tenant, partial(_lacking, things=things, after=after), long=True
        ):
            ready = {
                row: items
                for row in rows
                if (items := things.items(row, self._beginning(things, row)))
            }
            if ready:
                with analysis.preanalysed(item.text for items in ready.values() for item in items):
                    added = self._database.write(
                        self._tenant, partial(self._add, things, after, ready), long=True
                    )
                total += added
                self._progress(added)
            after = things.key(rows[-1])
        return total

    def _add(
        self,
        things: Findable,
        after: Place,
        ready: Mapping[Row, Sequence[IndexRow]],
        tx: Transaction,
    ) -> int:
        """Add prepared items of unchanged records; the write that changed one also indexed it."""
        things.hold(tx, [things.key(row) for row in ready])
        items = [item for row in _lacking(tx, things, after) for item in ready.get(row, ())]
        self._index.add(tx, items)
        return len(items)

    def _beginning(self, things: Findable, row: Row) -> str:
        """Return the beginning of a record's stored content; "" if it cannot be read."""
        if things.content is None:
            return ""
        try:
            user, digest = things.content(row)
            with self._blobs.open(self._tenant, user, digest, check=False) as file:
                return file.read(_BEGINNING).decode("utf-8", "replace")
        except (Busy, Unreachable, ReadTooLong):  # the database failed, not this content
            raise
        except (StorageError, SettingsError):
            return ""


def _put_digests(tx: Transaction, digests: Sequence[Mapping[str, Any]]) -> None:
    """Store digests of rows, except of those whose time has changed since the digest was computed."""
    tx.many(
        """update search_items set digest = :digest
           where tenant = :tenant and number = :number and at = :at""",
        digests,
    )


def _packed_digests(items: Mapping[int, IndexRow]) -> list[dict[str, Any]]:
    """Return the digests of rows, with their numbers and times."""
    return [
        {
            "number": number,
            "at": item.at,
            "digest": digest(item.author, item.title, item.text, item.at).pack(),
        }
        for number, item in items.items()
    ]


def _lacking(tx: Transaction, things: Findable, after: Place) -> Sequence[Row]:
    return things.lacking(tx, after, ROWS_PER_WRITE)


def _tidy(tx: Transaction, things: Findable) -> int:
    stray = things.stray(tx, ROWS_PER_WRITE)
    tx.many(_REMOVE, [{"number": row[0]} for row in stray])
    return len(stray)
