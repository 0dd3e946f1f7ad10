"""Items: JSON documents at a place, under a key, with expiry, versions and search below a place.

Frameworks keep things this way: a place is a path of names, such as `("memories", "ada")`, and a document is found by where
it is, by what its fields say, or by a question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from retain.base import canonical, clock, limits
from retain.base.canonical import Json
from retain.base.errors import Invalid, NotFound, TooLarge, WrongVersion
from retain.kinds import findable as index
from retain.kinds import finding
from retain.kinds.indexing import index_id
from retain.kinds.items import item as one
from retain.kinds.items.item import MOST_NAMES, Change, Drop, Match, Place, PlacedItem, Put
from retain.kinds.kind import Check, Kind, Page, Table, decode_cursor, make_page
from retain.kinds.section import RecallScope
from retain.search import query as find
from retain.search.engine import Item as Indexed
from retain.search.engine import SearchFilter
from retain.search.query import Hit
from retain.search.retrieval import PLACE_SEPARATOR
from retain.storage.database import Row, Transaction
from retain.text import fields as said

__all__ = ["Drop", "Item", "Items", "Match", "Matches", "Place", "PlacedItem", "Put", "Some"]
MOST_BYTES = 2000
"""The most bytes of an owner, a place and a key together: an index keeps them in one entry."""
_AT_ONCE = 500
_SOME = 16
"""Of so many documents one is as a filter asks, it is guessed; where it is not, more are read at once each time."""
_MOST_AT_ONCE = 4000
_UNSEEN = 128
"""How many documents are read before it is known how large they are here."""
_ROOM = 1 << 26
"""About how many characters of documents a filter reads at once."""
_LATEST = 1000 * 365 * clock.DAY
Item = PlacedItem
Some = list[PlacedItem | None]
Matches = list[Match]
_Found = list[PlacedItem]


class Items(Kind):
    """The documents of the scope's user, or the tenant's own where the scope has no user."""

    name = "items"
    tables = (
        Table(
            "items",
            order="area, place, key",
            owned="area = 'user:' || :user",
            live="(expires_at is null or expires_at > :now)",
        ),
    )
    checks = (
        Check(
            "items have an owner, a place and a JSON object",
            """select area || ' ' || place || key from items where tenant = :tenant and not (
                   (area = 'tenant' or area like 'user:_%') and place like '_%' || ' '
                   and ltrim(value, ' \t\r\n') like '{%')""".replace("' '", f"'{PLACE_SEPARATOR}'"),
        ),
        *index.ITEMS.checks,
    )
    findable = index.ITEMS

    def put(
        self,
        place: Sequence[str],
        key: str,
        value: Json,
        *,
        ttl: float | None = None,
        fields: Sequence[str] | None = None,
        if_version: int | None = None,
    ) -> PlacedItem:
        """Keep a JSON object, for `ttl` seconds or for good; with `if_version`, only over that version (0: only if new).

        `fields` are the paths of the value that a search finds: all of it where None, nothing of it where empty.
        """
        change = self._checked(Put(place, key, value, ttl, fields, if_version))

        def work(tx: Transaction) -> PlacedItem:
            item, rows = self._put(tx, change)
            self._services.index.replace(tx, self.name, change.id, rows)
            return item

        return self._write("put", work, row=self._row(change.place, key))

    def get(self, place: Sequence[str], key: str, *, refresh: bool = False) -> PlacedItem:
        """The document under a key; with `refresh`, it lives for its whole ttl again."""
        found = self.read([(place, key)], refresh=refresh)[0]
        if found is None:
            raise NotFound(what="item", id=key)
        return found

    def read(self, asks: Sequence[tuple[Sequence[str], str]], *, refresh: bool = False) -> Some:
        """The documents at several places and keys, at one moment; None for each that is not there."""
        wanted = [(one.text(self._place(place)), canonical.key(key, "key")) for place, key in asks]
        found = self._read(lambda tx: self._found(tx, wanted))
        if refresh and any(item is not None and item.expires_at is not None for item in found):
            return self._write(
                "read", lambda tx: [self._refreshed(tx, place, key) for place, key in wanted]
            )
        return found

    def remove(self, place: Sequence[str], key: str, *, if_version: int | None = None) -> None:
        """Remove a document; with `if_version`, only that version of it."""
        change = self._checked(Drop(place, key, if_version))

        def work(tx: Transaction) -> None:
            if if_version is None and self._find(tx, change.place, key) is None:
                raise NotFound(what="item", id=key)
            self._drop(tx, change)
            self._services.index.remove(tx, self.name, change.id)

        self._write("remove", work, row=self._row(change.place, key))

    def write(self, changes: Sequence[Put | Drop]) -> Some:
        """Put and remove several documents, all or none of them; what each put left, and None for each that is removed."""
        if not changes:
            return []
        ready = [
            self._checked(change)
            for change in canonical.several(changes, "changes", limits.MAX_BATCH)
        ]
        # In one order for everybody, so that no two writers wait for each other; of one key, as they came.
        order = sorted(range(len(ready)), key=lambda n: (ready[n].place, ready[n].key))

        def work(tx: Transaction) -> Some:
            done: Some = [None] * len(ready)
            rows: dict[str, Sequence[Indexed]] = {}
            for n in order:
                if ready[n].raw:
                    done[n], rows[ready[n].id] = self._put(tx, ready[n])
                else:
                    self._drop(tx, ready[n])
                    rows[ready[n].id] = ()
            self._services.index.remove_all(tx, self.name, list(rows))
            self._services.index.add(tx, [row for each in rows.values() for row in each])
            return done

        return self._write("write", work)

    def list(
        self,
        place: Sequence[str] = (),
        *,
        where: Mapping[str, Any] | None = None,
        exact: bool = False,
        newest: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[PlacedItem]:
        """The documents at a place and below it, or `exact`ly there, in the order of place and key, or the newest first.

        `where` says what fields must be: {"kind": "fact"}, or {"price": {"$lt": 20}} with $eq, $ne, $gt, $gte, $lt or $lte.
        """
        span, size = one.span(one.text(self._place(place, least=0)), exact), self._limit(limit)
        wanted, start = one.filtered(where), one.start(after, newest)

        def work(tx: Transaction) -> _Found:
            rows = self._each(
                tx,
                newest,
                span,
                start,
                size + 1 if wanted is None else min(_SOME * (size + 1), _UNSEEN),
            )
            return [
                one.item(row)
                for row in islice(rows if wanted is None else one.fitting(rows, wanted), size + 1)
            ]

        return make_page(self._read(work), size, one.newest if newest else one.ordered)

    def search(
        self,
        query: str,
        place: Sequence[str] = (),
        *,
        where: Mapping[str, Any] | None = None,
        limit: int = 10,
    ) -> Matches:
        """The documents at a place and below it that answer a question, by words and by meaning, the best first.

        `where` says what fields must be, as in `list`.
        """
        size, wanted = self._limit(limit), one.filtered(where)
        below = f"{self._area}{PLACE_SEPARATOR}{one.text(self._place(place, least=0))}"
        text = finding.question(self._services, query)
        depth = max(find.DEPTH, 2 * size)
        sought = finding.seek(
            self._services,
            self._owner,
            text,
            SearchFilter(self._owner.user or "", kinds=(self.name,), place=below),
            None,
            depth,
        )

        def work(tx: Transaction) -> Matches:
            now, known = sought, -1
            while True:  # look deeper until there is enough of what is as it must be, or no more
                hits = finding.finish(tx, self._services, self._owner, now, now.matches.depth)
                found = list(islice(self._kept(tx, hits, wanted), size))
                if wanted is None or len(found) == size or len(hits) == known:
                    return found
                known, deeper = len(hits), 4 * now.matches.depth
                now = replace(
                    now,
                    matches=find.match_words(tx, self._services.index, text, now.filter, deeper),
                )

        return self._read(work)

    def places(
        self,
        under: Sequence[str] = (),
        *,
        ending: Sequence[str] = (),
        depth: int | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[Place]:
        """The places where there is something, in order, that begin and end so; `*` is any one name.

        With `depth`, only so many names of each, every one once.
        """
        begins, ends = (self._place(names, least=0) for names in (under, ending))
        known = begins[: begins.index("*")] if "*" in begins else begins
        size = self._limit(limit)
        if depth is not None:
            canonical.whole(depth, "depth", 1, MOST_NAMES)
        passed = one.text(decode_cursor(after, [str, ...])) if after else ""
        if passed and passed.count(PLACE_SEPARATOR) == depth:
            passed = one.span(passed)["beyond"]

        def work(tx: Transaction) -> Sequence[Place]:
            found: dict[Place, None] = {}
            start = passed
            while len(found) <= size:
                rows = tx.all(
                    _PLACES,
                    area=self._area,
                    **one.span(one.text(known)),
                    start=start,
                    size=_AT_ONCE,
                )
                for (place,) in rows:
                    names = one.names(place)
                    if one.like(names, begins) and one.like(names[::-1], ends[::-1]):
                        found[names[:depth]] = None
                if len(rows) < _AT_ONCE:
                    break
                start = rows[-1][0]
            return list(found)[: size + 1]

        return make_page([*self._read(work)], size, lambda place: [*place])

    # -- inside ------------------------------------------------------------------------------------------------

    @property
    def _area(self) -> str:
        return one.area(self._owner.user)

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"from {' › '.join(json.loads(hit.id)[1:-1])}"

    def _place(self, place: Sequence[str], *, least: int = 1, secrets: bool = False) -> Place:
        if isinstance(place, str | bytes) or not isinstance(place, Sequence):
            raise Invalid(
                field="place", problem='must be a list of names, such as ["memories", "ada"]'
            )
        if not least <= len(place) <= MOST_NAMES:
            raise Invalid(
                field="place",
                problem=f"must have from {least} to {MOST_NAMES} names, not {len(place)}",
            )
        mode = self._settings.secrets if secrets else "off"
        return tuple([canonical.key(name, "place", mode) for name in place])

    def _row(self, place: str, key: str) -> dict[str, str]:
        """Return the primary key of an item."""
        return {"area": self._area, "place": place, "key": key}

    def _checked(self, change: Put | Drop) -> Change:
        """A change as it can be written; everything that can be wrong with it is said here, before any is written."""
        if not isinstance(change, Put | Drop):
            raise Invalid(
                field="changes", problem=f"must be Put and Drop, not {type(change).__name__}"
            )
        if change.if_version is not None:
            canonical.whole(change.if_version, "if_version")
        place = self._place(change.place, secrets=isinstance(change, Put))
        key, id = canonical.key(change.key, "key"), index_id(self._area, *place, change.key)
        if isinstance(change, Drop):
            return Change(one.text(place), key, id, change.if_version)
        canonical.name(key, "key", self._settings.secrets)
        if len(id) * 4 > MOST_BYTES and (size := len(id.encode())) > MOST_BYTES:
            raise TooLarge(field="place", size=size, unit="bytes", limit=MOST_BYTES)
        raw = canonical.dump(change.value, "value", limits.MAX_ITEM_BYTES, self._settings.secrets)
        value = json.loads(raw)
        if not isinstance(value, dict):
            raise Invalid(
                field="value", problem=f"must be a JSON object, not {type(value).__name__}"
            )
        # Not so long that it could pass the end of the calendar when it is refreshed, in any century soon.
        ttl = None if change.ttl is None else clock.after(_LATEST, change.ttl, "ttl") - _LATEST
        fields = None if change.fields is None else one.paths(change.fields)
        found = index.document(value, change.fields)
        return Change(one.text(place), key, id, change.if_version, raw, ttl, fields, found)

    def _put(self, tx: Transaction, change: Change) -> tuple[PlacedItem, Sequence[Indexed]]:
        """Write a document; as it is now, and the rows that it is found by."""
        expires = None if change.ttl is None else tx.now + change.ttl
        row = tx.one(
            _PUT[None if change.if_version is None else min(change.if_version, 1)],
            area=self._area,
            place=change.place,
            key=change.key,
            value=change.raw,
            ttl=change.ttl,
            expires=expires,
            source=self._owner.source,
            fields=change.fields,
            version=change.if_version,
        )
        if row is None:
            raise self._wrong(tx, change)
        return one.item(row), index.items(
            self._area, change.place, change.key, change.found, tx.now, expires
        )

    def _drop(self, tx: Transaction, change: Change) -> None:
        dropped = tx.run(
            _DROP, area=self._area, place=change.place, key=change.key, version=change.if_version
        )
        if not dropped and change.if_version is not None:
            wrong = self._wrong(tx, change)
            if wrong.actual != change.if_version:
                raise wrong

    def _wrong(self, tx: Transaction, change: Change) -> WrongVersion:
        found = self._find(tx, change.place, change.key)
        actual = 0 if found is None else found.version
        return WrongVersion(what="item", id=change.key, actual=actual, expected=change.if_version)

    def _find(self, tx: Transaction, place: str, key: str) -> PlacedItem | None:
        row = tx.one(_GET, area=self._area, place=place, key=key)
        return one.item(row) if row else None

    def _found(self, tx: Transaction, wanted: Sequence[tuple[str, str]]) -> Some:
        """Several at once, some in each statement: over a network, every statement is a way there and back."""
        if len(wanted) == 1:
            return [self._find(tx, *wanted[0])]
        found: dict[tuple[str, str], PlacedItem] = {}
        for start in range(0, len(wanted), len(_SLOTS)):
            values = dict.fromkeys(_NAMED, "")
            for slot, (place, key) in zip(
                _SLOTS, wanted[start : start + len(_SLOTS)], strict=False
            ):
                values |= {f"p{slot}": place, f"k{slot}": key}
            found |= {row[:2]: one.item(row) for row in tx.all(_SEVERAL, area=self._area, **values)}
        return [found.get(which) for which in wanted]

    def _kept(
        self, tx: Transaction, hits: Sequence[Hit], wanted: Mapping[str, Any] | None
    ) -> Iterator[Match]:
        named = [(one.text(names), key) for _, *names, key in (json.loads(hit.id) for hit in hits)]
        for start in range(0, len(hits), len(_SLOTS)):
            items = self._found(tx, named[start : start + len(_SLOTS)])
            for hit, item in zip(hits[start:], items, strict=False):
                if item is not None and (wanted is None or said.match(item.value, wanted)):
                    yield Match(item, hit.score)

    def _refreshed(self, tx: Transaction, place: str, key: str) -> PlacedItem | None:
        row = tx.one(_REFRESH, area=self._area, place=place, key=key)
        if row is None:
            return self._find(tx, place, key)
        self._services.index.extend_expiry(
            tx, self.name, index.item_id(self._area, place, key), row[4]
        )
        return one.item(row)

    def _each(
        self,
        tx: Transaction,
        newest: bool,
        span: Mapping[str, str],
        start: Mapping[str, Any],
        size: int,
    ) -> Iterator[Row]:
        """The rows of a span after one of them, in order, some at a time."""
        while True:
            rows = tx.all(_NEWEST if newest else _LIST, area=self._area, **span, **start, size=size)
            yield from rows
            if len(rows) < size:
                return
            start = {"place": rows[-1][0], "key": rows[-1][1], "at": rows[-1][6]}
            size = max(1, min(4 * size, _MOST_AT_ONCE, _ROOM // max(len(row[2]) for row in rows)))


_COLUMNS = "place, key, value, version, expires_at, created_at, updated_at"
_LIVE = "(expires_at is null or expires_at > :now)"
_THIS = "tenant = :tenant and area = :area and place = :place and key = :key"
_BELOW = f"tenant = :tenant and area = :area and place >= :under and place < :beyond and {_LIVE}"
_GET = f"select {_COLUMNS} from items where {_THIS} and {_LIVE}"
_SLOTS = "abcdefghijklmnop"
_NAMED = tuple(letter + slot for slot in _SLOTS for letter in "pk")
_SEVERAL = f"""with wanted (this, that) as (values {", ".join([f"(:p{slot}, :k{slot})" for slot in _SLOTS])})
    select {_COLUMNS} from wanted cross join items
    where tenant = :tenant and area = :area and place = this and key = that and {_LIVE}"""
_LIST = f"select {_COLUMNS} from items where {_BELOW} and (place, key) > (:place, :key) order by place, key limit :size"
# The values are read of those only that are wanted. Not by a join: before a table is analyzed, that is planned badly. And by
# no index of what is newest: PostgreSQL, before it has statistics, would look up single keys by it.
_NEWEST = f"""select place, key, (select value from items
        where tenant = :tenant and area = :area and place = newest.place and key = newest.key),
        version, expires_at, created_at, updated_at from (
        select place, key, version, expires_at, created_at, updated_at from items where {_BELOW}
        and (updated_at < :at or (updated_at = :at and (place, key) > (:place, :key)))
        order by updated_at desc, place, key limit :size) newest
    order by updated_at desc, place, key"""
# From one place to the next, however much there is at each.
_PLACES = f"""with recursive places (place) as (
        select * from (select place from items where {_BELOW} and place > :start order by place limit 1) first
        union all
        select (select place from items where {_BELOW} and place > places.place order by place limit 1)
        from places where places.place is not null)
    select place from places where place is not null limit :size"""
_REFRESH = f"update items set expires_at = :now + ttl where {_THIS} and ttl is not null and {_LIVE} returning {_COLUMNS}"
_DROP = f"delete from items where {_THIS} and version = coalesce(:version, version) and {_LIVE}"
# How to put over anything, over nothing (if_version=0), or over one version.
_INSERT = """insert into items (tenant, area, place, key, version, ttl, expires_at, created_at, updated_at, source,
                                fields, value)
             values (:tenant, :area, :place, :key, 1, :ttl, :expires, :now, :now, :source, :fields, :value)
             on conflict (tenant, area, place, key) do update
             set value = excluded.value, version = items.version + 1, ttl = excluded.ttl, fields = excluded.fields,
                 source = excluded.source, expires_at = excluded.expires_at, updated_at = :now,
                 created_at = case when items.expires_at <= :now then :now else items.created_at end """
_PUT = {
    None: f"{_INSERT} returning {_COLUMNS}",
    0: f"{_INSERT} where items.expires_at <= :now returning {_COLUMNS}",
    1: f"""update items set value = :value, version = version + 1, ttl = :ttl, fields = :fields, expires_at = :expires,
           source = :source, updated_at = :now where {_THIS} and version = :version and {_LIVE} returning {_COLUMNS}""",
}
