"""Items: JSON documents under a namespace and a key, with expiry, versions, filters and search.

Agent frameworks keep their long-term memory this way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any

from memorist.base import canonical, clock, limits
from memorist.base.canonical import Json
from memorist.base.errors import Invalid, NotFound, WrongVersion
from memorist.base.masking import OFF
from memorist.base.parameters import KEY, Count, JsonSchema, Key, Keys, PageSize, Range, Texts
from memorist.base.verbs import verb
from memorist.kinds import scope_search
from memorist.kinds.items import item as records
from memorist.kinds.items.item import (
    ITEM_INDEX,
    MAX_NAMES,
    Drop,
    ItemChange,
    Match,
    Place,
    PlacedItem,
    Put,
    area_of,
    is_searchable,
    item_index_id,
    join_names,
    mark,
    place_range,
    placed_item,
    split_names,
)
from memorist.kinds.kind import Check, Kind, Table
from memorist.kinds.page import Page, decode_cursor, make_page
from memorist.kinds.section import RecallScope
from memorist.search import query as query_steps
from memorist.search.query import Hit
from memorist.search.search_document import IndexMark
from memorist.search.search_view import SearchFilter
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Sent, Transaction
from memorist.storage.tables import PLACE_SEPARATOR
from memorist.text import fields as json_fields

MAX_ID_BYTES = 2000
"""Limit for owner, namespace and key together: a database index holds them in one entry."""
_NAMESPACES_PER_READ = 500
_MAX_TTL_BASE = 1000 * 365 * clock.DAY

# A filter reads more rows than it returns. It starts with FILTER_FACTOR rows for each one wanted,
# at most FILTER_FIRST_ROWS while the size of a row is not known, and then reads more at a time.
_FILTER_FACTOR = 16
_FILTER_FIRST_ROWS = 128
_FILTER_MAX_ROWS = 4000
_FILTER_MAX_CHARACTERS = 1 << 26

OptionalItems = list[PlacedItem | None]
_ChangeList = list[ItemChange]
_ItemList = list[PlacedItem]
FieldLists = list[Sequence[str] | None]

_COLUMNS = "place, key, value, version, expires_at, created_at, updated_at"
_LIVE = "(expires_at is null or expires_at > :now)"
_THIS_ITEM = "tenant = :tenant and area = :area and place = :place and key = :key"
_ITEM = f"select {_COLUMNS} from items where {_THIS_ITEM} and {_LIVE}"
_ITEMS_BELOW = (
    f"tenant = :tenant and area = :area and place >= :under and place < :beyond and {_LIVE}"
)
_PUT = """
    insert into items (tenant, area, place, key, version, ttl, expires_at, created_at,
                       updated_at, source, fields, checksum, value)
    values (:tenant, :area, :place, :key, 1, :ttl, :expires, :now, :now, :source, :fields, :checksum,
            :value)
    on conflict (tenant, area, place, key) do update
    set value = excluded.value, checksum = excluded.checksum, version = items.version + 1, ttl = excluded.ttl,
        fields = excluded.fields, source = excluded.source, expires_at = excluded.expires_at,
        updated_at = :now,
        created_at = case when items.expires_at <= :now then :now else items.created_at end"""
# One condition of a filter each, with the parameters of `probe_parameters`.
_TEXT_PROBE = "and cast({fields} ->> :text_name as {text}) in (:text, :other_text)"
_NUMBER = "and cast({fields} -> :number_name as {number})"
_RANGE_PROBE = _NUMBER + " between cast(:low as {number}) and cast(:high as {number})"
_LOW_PROBE = _NUMBER + " >= cast(:low as {number})"
_HIGH_PROBE = _NUMBER + " <= cast(:high as {number})"
_SLOTS = "abcdefghijklmnop"
"""One statement reads as many items as there are slots."""


def _checked_names(place: Sequence[str], minimum: int) -> Place:
    if isinstance(place, str | bytes) or not isinstance(place, Sequence):
        raise Invalid(field="place", problem='must be a list of names, such as ["memories", "ada"]')
    if not minimum <= len(place) <= MAX_NAMES:
        raise Invalid(
            field="place",
            problem=f"must have from {minimum} to {MAX_NAMES} names, not {len(place)}",
        )
    return tuple([canonical.key(name, "place") for name in place])


Names = Annotated[Sequence[str], Texts(KEY, max_items=MAX_NAMES)]
SomeNames = Annotated[Sequence[str], Texts(KEY, min_items=1, max_items=MAX_NAMES)]


@lru_cache(1024)
def _cached_place(names: Place, minimum: int) -> str:
    """Return checked names as they are stored; agents use few namespaces, again and again."""
    return join_names(_checked_names(names, minimum))


class Items(Kind):
    """The items of a user, or of the tenant if no user is named."""

    name = "items"
    sharing = "without_user"
    parameter_help = {
        "key": "Key of the item at its place.",
        "value": "The value: a JSON object.",
    }
    tables = (
        Table(
            "items",
            order="area, place, key",
            owned="area = 'user:' || :user",
            live="(expires_at is null or expires_at > :now)",
            checked=("value", "fields"),
        ),
    )
    checks = (
        Check(
            "items have an owner, a place and a JSON object",
            f"""select area || ' ' || place || key from items where tenant = :tenant and not (
                    (area = 'tenant' or area like 'user:_%')
                    and place like '_%' || '{PLACE_SEPARATOR}'
                    and ltrim(value, ' \t\r\n') like '{{%')""",
        ),
    )
    findable = ITEM_INDEX

    @verb(
        "PUT /items/{key:path}",
        effect="change",
        example="""memorist items put memories,ada tea '{"text": "likes green tea"}' --ttl 86400 --user ada""",
    )
    def put(
        self,
        place: SomeNames,
        key: Key,
        value: Annotated[Json, JsonSchema({"type": "object"})],
        *,
        ttl: Annotated[float, Range(above=0)] | None = None,
        fields: Keys | None = None,
        if_version: Count | None = None,
    ) -> PlacedItem:
        """Store a JSON object under a namespace and a key.

        ttl:        seconds until it expires; without it, it stays
        fields:     paths of the value that a search finds; all by default, none for an empty list
        if_version: write only over this version; 0 means that the item must not exist
        """
        change = self._checked_change(Put(place, key, value, ttl, fields, if_version))

        def work(tx: Transaction) -> PlacedItem:
            item = self._put(tx, change)
            if is_searchable(change.fields) or item.version > 1:
                self._services.index.mark(tx, [self._mark_of(change)])
            return item

        return self._write("put", work, row=self._row_key(change))

    @verb(
        "GET /items/{key:path}",
        effect="read",
        raw_output=True,
        example="memorist items get memories,ada tea --user ada",
    )
    def get(self, place: SomeNames, key: Key, *, refresh: bool = False) -> PlacedItem:
        """Return an item; with `refresh`, its time to live starts again."""
        item = self.read([(place, key)], refresh=refresh)[0]
        if item is None:
            raise NotFound(what="item", id=key)
        return item

    @verb(effect="read")
    def read(
        self, asks: Sequence[tuple[Sequence[str], str]], *, refresh: bool = False
    ) -> OptionalItems:
        """Return several items by namespace and key in one read; None for each missing one."""
        keys = [(self._checked_place(place), canonical.key(key, "key")) for place, key in asks]
        if len(keys) == 1:
            rows = self._read_rows(
                lambda tx: tx.send(_ITEM, area=self._area, place=keys[0][0], key=keys[0][1])
            )
            items: OptionalItems = [placed_item(rows[0]) if rows else None]
        else:
            items = self._read(lambda tx: self._get_several(tx, keys))
        if refresh and any(item is not None and item.expires_at is not None for item in items):
            return self._write(
                "read", lambda tx: [self._refresh(tx, place, key) for place, key in keys]
            )
        return items

    @verb(
        "DELETE /items/{key:path}",
        effect="remove",
        example="memorist items remove memories,ada tea --user ada",
    )
    def remove(self, place: SomeNames, key: Key, *, if_version: Count | None = None) -> None:
        """Remove an item; with `if_version`, only that version of it."""
        change = self._checked_change(Drop(place, key, if_version))

        def work(tx: Transaction) -> None:
            if if_version is None and self._get(tx, change.place, key) is None:
                raise NotFound(what="item", id=key)
            if self._drop(tx, change):
                self._services.index.mark(tx, [self._mark_of(change)])

        self._write("remove", work, row=self._row_key(change))

    @verb(effect="change")
    def write(self, changes: Sequence[Put | Drop]) -> None:
        """Put and remove items, all or none."""
        if not changes:
            return
        checked = sorted(self._checked_changes(changes), key=lambda change: change[:2])
        are_plain_puts = all(
            change.raw and change.if_version is None and is_searchable(change.fields)
            for change in checked
        )

        def work(tx: Transaction) -> None:
            if are_plain_puts:
                tx.many(_PUT, [self._values(tx, change) for change in checked])
                indexed = checked
            else:
                indexed = self._apply(tx, checked)
            self._services.index.mark(tx, [self._mark_of(change) for change in indexed])

        self._write("write", work)

    @verb(
        "GET /items",
        effect="read",
        example="""memorist items list memories --where '{"kind": "fact"}' --user ada""",
    )
    def list(
        self,
        place: Names = (),
        *,
        where: Mapping[str, Any] | None = None,
        exact: bool = False,
        newest: bool = False,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[PlacedItem]:
        """Return the items of a namespace and of those below it, by namespace and key.

        where:  only items whose fields match: {"kind": "fact"}, or {"price": {"$lt": 20}} with
                $eq, $ne, $gt, $gte, $lt or $lte
        exact:  only items of exactly this namespace
        newest: the newest first
        """
        bounds = place_range(self._checked_place(place, minimum=0), exact)
        size = self._limit(limit)
        wanted = records.checked_filter(where)
        start = records.list_start(after, newest)

        def work(tx: Transaction) -> _ItemList:
            if wanted is None:
                rows = self._rows(tx, newest, bounds, start, size + 1, {})
                return [placed_item(row) for row in islice(rows, size + 1)]
            probe = records.probe_parameters(wanted)
            batch = size + 1 if probe else min(_FILTER_FACTOR * (size + 1), _FILTER_FIRST_ROWS)
            rows = self._rows(tx, newest, bounds, start, batch, probe)
            return list(islice(records.matching_items(rows, wanted), size + 1))

        cursor = records.newest if newest else records.ordered
        return make_page(self._read(work, allow_replica=True), size, cursor)

    @verb(
        "POST /items/search",
        effect="read",
        calls_model="embedder",
        example="memorist items search 'what does Ada drink' memories --user ada",
    )
    def search(
        self,
        query: str,
        place: Names = (),
        *,
        where: Mapping[str, Any] | None = None,
        limit: PageSize = 10,
    ) -> Page[Match]:
        """Return the items in and below a namespace that match a query, best first.

        Matches by words and by meaning.

        where: only items whose fields match, as in `list`
        """
        size = self._limit(limit)
        wanted = records.checked_filter(where)
        below = f"{self._area}{PLACE_SEPARATOR}{self._checked_place(place, minimum=0)}"
        text = scope_search.checked_query(query)
        search_filter = SearchFilter(self._owner.user or "", kinds=(self.name,), place=below)
        depth = max(query_steps.DEPTH, 2 * size)
        started = scope_search.start_search(
            self._services, self._owner, text, search_filter, None, depth
        )

        def work(tx: Transaction) -> list[Match]:
            current = started
            previous_hits = -1
            while True:  # search deeper until enough hits match the filter, or there are no more
                depth = current.matches.depth
                hits_limit = size if wanted is None else depth
                ranked = scope_search.finish_search(
                    tx, self._services, self._owner, current, hits_limit
                )
                hits = ranked.hits
                matches = list(islice(self._matches(tx, hits, wanted), size))
                if wanted is None or len(matches) == size or len(hits) == previous_hits:
                    return matches
                previous_hits = len(hits)
                current = current.narrowed(current.filter, 4 * depth)

        return Page(self._read(work, allow_replica=True))

    @verb(
        "GET /places", effect="read", example="memorist items places memories --depth 2 --user ada"
    )
    def places(
        self,
        under: Keys = (),
        *,
        ending: Keys = (),
        depth: Annotated[int, Range(1, 64)] | None = None,
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Place]:
        """Return the namespaces that have items, in order.

        under:  only namespaces that start with these names; `*` is any one name
        ending: only namespaces that end with these names; `*` is any one name
        depth:  cut each namespace to this many names, and return each result once
        """
        prefix = _checked_names(under, 0)
        suffix = _checked_names(ending, 0)
        fixed = prefix[: prefix.index("*")] if "*" in prefix else prefix
        bounds = place_range(join_names(fixed))
        size = self._limit(limit)
        if depth is not None:
            canonical.check_integer(depth, "depth", 1, MAX_NAMES)
        last_place = join_names(decode_cursor(after, [str, ...])) if after else ""
        if last_place and last_place.count(PLACE_SEPARATOR) == depth:
            last_place = place_range(last_place)["beyond"]

        def work(tx: Transaction) -> Sequence[Place]:
            namespaces: dict[Place, None] = {}
            start = last_place
            while len(namespaces) <= size:
                places = self._next_places(tx, bounds, start)
                for place in places:
                    names = split_names(place)
                    if records.starts_with(names, prefix) and records.starts_with(
                        names[::-1], suffix[::-1]
                    ):
                        namespaces[names[:depth]] = None
                if len(places) < _NAMESPACES_PER_READ:
                    break
                start = places[-1]
            return list(namespaces)[: size + 1]

        return make_page([*self._read(work, allow_replica=True)], size, lambda names: [*names])

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return who wrote an item, by its id in the index."""
        area, place, key = records.item_of(id)
        row = tx.one(
            f"select source from items where {_THIS_ITEM}",
            area=area,
            place=place,
            key=key,
        )
        return None if row is None else str(row[0])

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"from {' › '.join(json.loads(hit.id)[1:-1])}"

    # -- arguments -----------------------------------------------------------------------------

    @property
    def _area(self) -> str:
        return area_of(self._owner.user)

    def _row_key(self, change: ItemChange) -> dict[str, str]:
        return {"area": self._area, "place": change.place, "key": change.key}

    def _checked_place(self, place: Sequence[str], *, minimum: int = 1) -> str:
        """Return a namespace as it is stored."""
        if type(place) is tuple:
            try:
                return _cached_place(place, minimum)
            except TypeError:  # a name that cannot be hashed is no text
                pass
        return join_names(_checked_names(place, minimum))

    def _checked_changes(self, changes: Sequence[Put | Drop]) -> _ChangeList:
        """Return changes as they are written.

        All writers write in the order of namespaces and keys, so that no two wait for each other.
        Changes of one key stay in their own order.
        """
        limit = limits.MAX_BATCH
        return [
            self._checked_change(change)
            for change in canonical.check_list(changes, "changes", limit)
        ]

    def _checked_change(self, change: Put | Drop) -> ItemChange:
        """Return a change as it is written, with everything checked before the first write."""
        if not isinstance(change, (Put, Drop)):
            raise Invalid(
                field="changes",
                problem=f"must be a list of Put and Drop, not {type(change).__name__}",
            )
        if change.if_version is not None:
            canonical.check_integer(change.if_version, "if_version")
        place = self._checked_place(change.place)
        if isinstance(change, Drop):
            key = canonical.key(change.key, "key")
            return ItemChange(place, key, change.if_version)
        policy = self._settings.masking
        if policy is not OFF:
            for name in change.place:
                canonical.key(name, "place", policy)
        key = canonical.name(change.key, "key", policy)
        canonical.within(item_index_id(self._area, place, key), "place", MAX_ID_BYTES)
        raw = canonical.dump(change.value, "value", limits.MAX_ITEM_BYTES, policy)
        fields = None if change.fields is None else records.fields_json(change.fields)
        if not isinstance(change.value, Mapping):
            value = json.loads(raw)
            if not isinstance(value, dict):
                raise Invalid(
                    field="value", problem=f"must be a JSON object, not {type(value).__name__}"
                )
        ttl = None
        if change.ttl is not None:
            # The limit leaves centuries before a refresh could pass the end of the calendar.
            ttl = clock.after(_MAX_TTL_BASE, change.ttl, "ttl") - _MAX_TTL_BASE
        return ItemChange(
            place,
            key,
            if_version=change.if_version,
            raw=raw,
            ttl=ttl,
            fields=fields,
        )

    # -- inside a transaction ------------------------------------------------------------------

    def _values(self, tx: Transaction, change: ItemChange) -> dict[str, Any]:
        """Return the parameters of _PUT."""
        return {
            "area": self._area,
            "place": change.place,
            "key": change.key,
            "value": change.raw,
            "checksum": checksum(change.raw, change.fields),
            "ttl": change.ttl,
            "expires": None if change.ttl is None else tx.now + change.ttl,
            "source": self._owner.source,
            "fields": change.fields,
        }

    def _mark_of(self, change: ItemChange) -> IndexMark:
        return mark(self._area, change.place, change.key)

    def _put(self, tx: Transaction, change: ItemChange) -> PlacedItem:
        """Write an item and return it."""
        if change.if_version is None:
            sql = f"{_PUT} returning {_COLUMNS}"
        elif change.if_version == 0:
            sql = f"{_PUT} where items.expires_at <= :now returning {_COLUMNS}"
        else:
            sql = f"""
                update items set value = :value, checksum = :checksum, version = version + 1, ttl = :ttl,
                    fields = :fields, expires_at = :expires, source = :source, updated_at = :now
                where {_THIS_ITEM} and version = :version and {_LIVE} returning {_COLUMNS}"""
        row = tx.one(sql, **self._values(tx, change), version=change.if_version)
        if row is None:
            raise self._wrong_version(tx, change)
        return placed_item(row)

    def _apply(self, tx: Transaction, changes: _ChangeList) -> _ChangeList:
        """Write or remove items; return the changes of those that are in the index, or were.

        An item that is new and not searchable is not and was not. Over a network, the answers are
        read after all statements were sent.
        """
        indexed = []
        sent: list[tuple[ItemChange, Sent]] = []
        for change in changes:
            if not change.raw:
                if self._drop(tx, change):
                    indexed.append(change)
            elif change.if_version is None:
                put = tx.send(f"{_PUT} returning version", **self._values(tx, change))
                sent.append((change, put))
            elif self._put(tx, change).version > 1 or is_searchable(change.fields):
                indexed.append(change)
        return indexed + [
            change for change, put in sent if is_searchable(change.fields) or put.rows()[0][0] > 1
        ]

    def _drop(self, tx: Transaction, change: ItemChange) -> bool:
        """Remove an item if it exists; return whether it was in the index."""
        row = tx.one(
            f"""delete from items
                where {_THIS_ITEM} and version = coalesce(:version, version) and {_LIVE}
                returning fields""",
            area=self._area,
            place=change.place,
            key=change.key,
            version=change.if_version,
        )
        if row is not None:
            return is_searchable(row[0])
        if change.if_version is not None:
            error = self._wrong_version(tx, change)
            if error.actual != change.if_version:
                raise error
        return False

    def _wrong_version(self, tx: Transaction, change: ItemChange) -> WrongVersion:
        item = self._get(tx, change.place, change.key)
        actual = 0 if item is None else item.version
        return WrongVersion(what="item", id=change.key, actual=actual, expected=change.if_version)

    def _get(self, tx: Transaction, place: str, key: str) -> PlacedItem | None:
        row = tx.one(_ITEM, area=self._area, place=place, key=key)
        return placed_item(row) if row else None

    def _get_several(self, tx: Transaction, keys: Sequence[tuple[str, str]]) -> OptionalItems:
        """Read several items with few statements: over a network, each one is a round trip."""
        if len(keys) == 1:
            return [self._get(tx, *keys[0])]
        slots = ", ".join([f"(:p{slot}, :k{slot})" for slot in _SLOTS])
        sql = f"""with wanted (wanted_place, wanted_key) as (values {slots})
            select {_COLUMNS} from wanted cross join items
            where tenant = :tenant and area = :area and place = wanted_place and key = wanted_key
            and {_LIVE}"""
        items: dict[tuple[str, str], PlacedItem] = {}
        for start in range(0, len(keys), len(_SLOTS)):
            values = dict.fromkeys([letter + slot for slot in _SLOTS for letter in "pk"], "")
            batch = keys[start : start + len(_SLOTS)]
            for slot, (place, key) in zip(_SLOTS, batch, strict=False):
                values[f"p{slot}"] = place
                values[f"k{slot}"] = key
            for row in tx.all(sql, area=self._area, **values):
                items[row[0], row[1]] = placed_item(row)
        return [items.get(key) for key in keys]

    def _matches(
        self, tx: Transaction, hits: Sequence[Hit], where: Mapping[str, Any] | None
    ) -> Iterator[Match]:
        """Yield the items of hits that match a filter."""
        keys = [records.item_of(hit.id)[1:] for hit in hits]
        for start in range(0, len(hits), len(_SLOTS)):
            items = self._get_several(tx, keys[start : start + len(_SLOTS)])
            for hit, item in zip(hits[start:], items, strict=False):
                if item is not None and (where is None or json_fields.match(item.value, where)):
                    yield Match(item, hit.score)

    def _refresh(self, tx: Transaction, place: str, key: str) -> PlacedItem | None:
        """Start the time to live of an item again, if it has one; return the item."""
        row = tx.one(
            f"""update items set expires_at = :now + ttl
                where {_THIS_ITEM} and ttl is not null and {_LIVE} returning {_COLUMNS}""",
            area=self._area,
            place=place,
            key=key,
        )
        if row is None:
            return self._get(tx, place, key)
        return placed_item(row)

    def _rows(
        self,
        tx: Transaction,
        newest: bool,
        bounds: Mapping[str, str],
        start: Mapping[str, Any],
        size: int,
        probe: Mapping[str, str],
    ) -> Iterator[Row]:
        """Yield the rows between bounds after a start that pass the probe of a filter, in order.

        Each read fetches more of them.
        """
        text_probe = _TEXT_PROBE if "text_name" in probe else ""
        number_probe = ""
        if "low" in probe and "high" in probe:
            number_probe = _RANGE_PROBE
        elif "low" in probe:
            number_probe = _LOW_PROBE
        elif "high" in probe:
            number_probe = _HIGH_PROBE
        if newest:
            # The values are read only of the rows that are wanted: not by a join, which is planned
            # badly before a table is analyzed, and not by an index on the time, by which PostgreSQL
            # without statistics would look up single keys.
            sql = f"""
                select place, key,
                    (select value from items where tenant = :tenant and area = :area
                     and place = newest.place and key = newest.key),
                    version, expires_at, created_at, updated_at
                from (
                    select place, key, version, expires_at, created_at, updated_at from items
                    where {_ITEMS_BELOW} {text_probe} {number_probe} and (
                        updated_at < :at or (updated_at = :at and (place, key) > (:place, :key)))
                    order by updated_at desc, place, key limit :size) newest
                order by updated_at desc, place, key"""
        else:
            sql = f"""select {_COLUMNS} from items
                where {_ITEMS_BELOW} {text_probe} {number_probe}
                and (place, key) > (:place, :key)
                order by place, key limit :size"""
        while True:
            rows = tx.all(sql, area=self._area, **bounds, **start, **probe, size=size)
            yield from rows
            if len(rows) < size:
                return
            last = rows[-1]
            start = {"place": last[0], "key": last[1], "at": last[6]}
            longest = max(len(row[2]) for row in rows)
            size = max(1, min(4 * size, _FILTER_MAX_ROWS, _FILTER_MAX_CHARACTERS // longest))

    def _next_places(self, tx: Transaction, bounds: Mapping[str, str], start: str) -> Sequence[str]:
        """Return the stored namespaces after one.

        Steps from one namespace to the next, however many items each has.
        """
        rows = tx.all(
            f"""with recursive places (place) as (
                    select * from (
                        select place from items where {_ITEMS_BELOW} and place > :start
                        order by place limit 1) first
                    union all
                    select (select place from items where {_ITEMS_BELOW} and place > places.place
                            order by place limit 1)
                    from places where places.place is not null)
                select place from places where place is not null limit :size""",
            area=self._area,
            **bounds,
            start=start,
            size=_NAMESPACES_PER_READ,
        )
        return [place for (place,) in rows]


def fields_of(items: Items, addresses: Sequence[tuple[Place, str]]) -> FieldLists:
    """Return the fields by which each item is searched; None for all fields."""

    def work(tx: Transaction) -> FieldLists:
        rows = [
            tx.one(
                f"select fields from items where {_THIS_ITEM}",
                area=items._area,
                place=join_names(place),
                key=key,
            )
            for place, key in addresses
        ]
        return [json.loads(row[0]) if row and row[0] else None for row in rows]

    return items._read(work, allow_replica=True)
