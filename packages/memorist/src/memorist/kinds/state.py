"""State: key-value memory of a user, a session or a tenant, with expiry and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from memorist.base import canonical, clock, limits, tokens
from memorist.base.canonical import Json
from memorist.base.errors import Invalid, NotFound, WrongVersion
from memorist.base.parameters import KEY_PATTERN, Count, Key, PageSize, Prefix, Range, Text
from memorist.base.verbs import verb
from memorist.kinds.indexing import index_id, keys_of
from memorist.kinds.kind import Check, Kind, Table
from memorist.kinds.page import Page, make_page, page_start
from memorist.kinds.section import Ask, Piece, RecallScope, Section
from memorist.kinds.tool import Tool, ToolOutput, schema, string
from memorist.search.index import split_text
from memorist.search.query import Hit
from memorist.search.search_document import Findable, IndexMark, SearchDocument, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Sent, Transaction
from memorist.storage.rows import row_mapper
from memorist.storage.tables import OF_AGENT_SESSION

Area = Annotated[str, Text(f"^(user|tenant|session:{KEY_PATTERN})$")]
MAX_ITEMS_IN_PROMPT = 50
MAX_ITEMS_IN_RESULT = 50
_MAX_LISTED_TOKENS = 200
"""A list of keys does not show values with more tokens than this."""


@dataclass(frozen=True)
class Item:
    """A key and its value.

    `raw` is the value as JSON text. `version` counts how often the key was set.
    """

    area: str
    key: str
    raw: str
    version: int
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime

    @property
    def value(self) -> Any:
        """The value."""
        cache = self.__dict__
        if "value" not in cache:
            cache["value"] = canonical.stored_json(self.raw, f"state {self.area} {self.key}")
        return cache["value"]


_item = row_mapper(Item)


def _piece(age: int, area: str, key: str, raw: str) -> Piece:
    owner, _, _ = area.partition(":")
    # In JSON text, a line break is only whitespace. Replace it to keep one line per key.
    text = f"{key}: {raw}".replace("\n", " ").replace("\r", " ")
    reason = "set for this session" if owner == "session" else "set for this user"
    return Piece(f"state {owner} {key}", text, tokens.estimate(text + "\n"), reason, float(-age))


# -- documents: the id names the area and the key ---------------------------------------------


def _documents(row: Row) -> list[SearchDocument]:
    """Return the documents of a key: a value that is a string as it is, anything else as JSON."""
    area, key, user, session, raw, at, expires = row
    value = json.loads(raw)
    texts = split_text(value if isinstance(value, str) else raw)
    return [
        SearchDocument(
            "state",
            index_id(area, key),
            text,
            at,
            part=part,
            user=user,
            session=session,
            title=key,
            expires_at=expires,
        )
        for part, text in enumerate(texts or [""])
    ]


STATE_INDEX = Findable(
    kind="state",
    key=("area", "key"),
    select="""select area, key, coalesce(state.user_id, sessions.user_id), session_id, value,
                     updated_at, expires_at
              from state
              left join sessions on sessions.tenant = :tenant and sessions.id = session_id
              where state.tenant = :tenant and (expires_at is null or expires_at > :now)
              and {where}""",
    documents=_documents,
    key_of=lambda id, seq: tuple(keys_of(id)),
    first=("", ""),
)


class State(Kind):
    """Key-value state of a user, a session or the tenant."""

    name = "state"
    sharing = "by_area"
    parameter_help = {
        "key": "Key of the value.",
    }
    tables = (
        Table(
            "state",
            order="area, key",
            owned="(user_id = :user or session_id in (select id from sessions where tenant = :tenant and user_id = :user))",
            of_agent=OF_AGENT_SESSION,
            live="(expires_at is null or expires_at > :now)",
            checked=("value",),
        ),
    )
    checks = (
        Check(
            "every state item has its owner",
            """select area || ' ' || key from state where tenant = :tenant and (
                   area <> coalesce('user:' || user_id, 'session:' || session_id, 'tenant') or (
                       session_id is not null and not exists (
                           select 1 from sessions where sessions.tenant = :tenant and sessions.id = state.session_id)))""",
        ),
    )
    findable = STATE_INDEX

    def tools(self, session: str | None = None) -> list[Tool]:
        """Return the tools with which a model stores small values under keys."""
        return [
            Tool("get_state", _ABOUT["get"], _KEY_SCHEMA, self._tell, "Get state", _VALUE, "read"),
            Tool(
                "set_state",
                _ABOUT["set"],
                _SET_SCHEMA,
                self._put,
                "Set state",
                _DONE,
                action=self.verbs["set"].name,
                repeatable=True,
            ),
            Tool(
                "list_state",
                _ABOUT["list"],
                _LIST_SCHEMA,
                self._show,
                "List state",
                _VALUES,
                "read",
            ),
            Tool(
                "remove_state",
                _ABOUT["remove"],
                _KEY_SCHEMA,
                self._drop,
                "Remove state",
                _DONE,
                "delete",
                action=self.verbs["remove"].name,
                repeatable=True,
            ),
        ]

    @verb(
        "PUT /state/{key:path}",
        effect="change",
        example="""memorist state set theme '{"dark": true}' --user ada --ttl 3600""",
    )
    def set(
        self,
        key: Key,
        value: Json,
        *,
        area: Area = "user",
        ttl: Annotated[float, Range(above=0)] | None = None,
        if_version: Count | None = None,
    ) -> Item:
        """Set a key, permanently or for `ttl` seconds.

        With `if_version`, only if the key has that version; 0: only if it is not set.
        """
        canonical.name(key, "key", self._settings.masking)
        raw = canonical.dump(value, "value", limits.MAX_STATE_BYTES, self._settings.masking)
        if if_version is not None:
            canonical.check_integer(if_version, "if_version")
        if ttl is not None:
            clock.after(0, ttl, "ttl")

        def work(tx: Transaction) -> Item:
            place = self._place(tx, area)
            values = {
                **place,
                "key": key,
                "value": raw,
                "checksum": checksum(raw),
                "expires": None if ttl is None else clock.after(tx.now, ttl, "ttl"),
            }
            row = tx.one(
                _SET[None if if_version is None else min(if_version, 1)],
                **values,
                version=if_version,
            )
            if row is None:
                current = self._find(tx, place["area"], key)
                actual = 0 if current is None else current.version
                raise WrongVersion(what="state", id=key, actual=actual, expected=if_version)
            self._mark(tx, place, key)
            return _item(row)

        return self._write("set", work, row=self._row(area, key))

    @verb(
        "GET /state/{key:path}",
        effect="read",
        raw_output=True,
        example="memorist state get theme --user ada",
    )
    def get(self, key: Key, *, area: Area = "user") -> Item:
        """Return a key with its value, unless it has expired."""
        canonical.key(key, "key")

        rows = self._read_rows(
            lambda tx: tx.send(_SELECT_ITEM, area=self._place(tx, area)["area"], key=key)
        )
        if not rows:
            raise NotFound(what="state", id=key)
        return _item(rows[0])

    @verb("GET /state", effect="read", example="memorist state list --prefix the --user ada")
    def list(
        self,
        *,
        prefix: Prefix = "",
        area: Area = "user",
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[Item]:
        """Return the keys of an area that start with a prefix, in order."""
        if prefix != "":
            canonical.key(prefix, "prefix")
        size, (start,) = page_start(limit, after, "")

        def work(tx: Transaction) -> Sent:
            return tx.send(
                """select area, key, value, version, expires_at, created_at, updated_at from state
                   where tenant = :tenant and area = :area and key > :start and key >= :prefix and key < :end
                   and (expires_at is null or expires_at > :now) order by key limit :size""",
                area=self._place(tx, area)["area"],
                start=start,
                prefix=prefix,
                end=prefix + "\U0010ffff",
                size=size + 1,
            )

        return make_page(
            [_item(row) for row in self._read_rows(work, allow_replica=True)],
            size,
            lambda item: [item.key],
        )

    @verb(
        "DELETE /state/{key:path}",
        effect="remove",
        example="memorist state remove theme --user ada",
    )
    def remove(self, key: Key, *, area: Area = "user", if_version: Count | None = None) -> None:
        """Remove a key; with `if_version`, only if it has that version."""
        canonical.key(key, "key")
        if if_version is not None:
            canonical.check_integer(if_version, "if_version")

        def work(tx: Transaction) -> None:
            place = self._place(tx, area)
            removed = tx.run(
                """delete from state where tenant = :tenant and area = :area and key = :key
                   and version = coalesce(:version, version) and (expires_at is null or expires_at > :now)""",
                area=place["area"],
                key=key,
                version=if_version,
            )
            if not removed:
                current = self._find(tx, place["area"], key)
                if current is None:
                    raise NotFound(what="state", id=key)
                raise WrongVersion(
                    what="state", id=key, actual=current.version, expected=if_version
                )
            self._mark(tx, place, key)

        self._write("remove", work, row=self._row(area, key))

    def _tell(self, key: str, area: str = "user") -> ToolOutput:
        return _item_output(self.get(key, area=area))

    def _put(
        self,
        key: str,
        value: Json,
        area: str = "user",
        ttl_seconds: float | None = None,
        if_version: int | None = None,
    ) -> ToolOutput:
        output = _item_output(
            self.set(key, value, area=_own(area), ttl=ttl_seconds, if_version=if_version)
        )
        return {
            "success": True,
            **{name: field for name, field in output.items() if name != "value"},
        }

    def _show(self, prefix: str = "", area: str = "user", after: str | None = None) -> ToolOutput:
        page = self.list(prefix=prefix, area=area, limit=MAX_ITEMS_IN_RESULT, after=after)
        output: ToolOutput = {"items": [_item_output(item, _MAX_LISTED_TOKENS) for item in page]}
        return {**output, "next": page.next} if page.next else output

    def _drop(self, key: str, area: str = "user") -> ToolOutput:
        self.remove(key, area=_own(area))
        return {"success": True, "key": key}

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the keys of the user and of this session; of too many, the most recently set."""
        rows = tx.all(
            """select area, key, value from state
               where tenant = :tenant and (expires_at is null or expires_at > :now) and area in (:mine, (
                   select 'session:' || id from sessions
                   where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)))
               order by updated_at desc, area, key limit :size""",
            mine="" if self._owner.user is None else f"user:{self._owner.user}",
            session=ask.session,
            user=self._owner.user,
            size=MAX_ITEMS_IN_PROMPT,
        )
        pieces = [_piece(age, *row) for age, row in enumerate(rows)]
        return Section("state", sorted(pieces, key=lambda piece: piece.source)) if pieces else None

    def _row(self, area: str, key: str) -> dict[str, str]:
        """Return the primary key of a row: the stored area and the key."""
        return {"area": self._stored_area(area), "key": key}

    def _stored_area(self, area: str) -> str:
        """Return the name under which an area is stored."""
        if not isinstance(area, str):
            raise Invalid(field="area", problem=f"must be text, not {type(area).__name__}")
        if area == "user":
            return f"user:{self._user()}"
        if area.startswith("session:"):
            canonical.key(area.removeprefix("session:"), "area")
        elif area != "tenant":
            raise Invalid(field="area", problem=f"must be user, tenant or session:ID, not {area!r}")
        return area

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return the source of a hit of this kind in the report of a context."""
        area, key = json.loads(hit.id)
        if not area.startswith("session:") or area == f"session:{session}":
            area = area.partition(":")[0]
        return f"state {area} {key}"

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"the state {hit.title}"

    def _find(self, tx: Transaction, area: str, key: str) -> Item | None:
        row = tx.one(_SELECT_ITEM, area=area, key=key)
        return _item(row) if row else None

    def _mark(self, tx: Transaction, place: Mapping[str, Any], key: str) -> None:
        """Note in the index that a key was changed or removed."""
        mark = IndexMark(owner_of(place["owner"]), self.name, index_id(place["area"], key))
        self._services.index.mark(tx, [mark])

    def _place(self, tx: Transaction, area: str) -> dict[str, Any]:
        """Return the stored area, its user or session, and the user who owns it."""
        stored = self._stored_area(area)
        if area == "tenant":
            return {"area": stored, "user": None, "session": None, "owner": None}
        if area == "user":
            user = self._user()
            return {"area": stored, "user": user, "session": None, "owner": user}
        session = area.removeprefix("session:")
        row = tx.one(_OWNER, session=session, user=self._owner.user)
        if row is None:
            raise NotFound(what="session", id=session)
        return {"area": stored, "user": None, "session": session, "owner": row[0]}


_SELECT_ITEM = """select area, key, value, version, expires_at, created_at, updated_at from state
           where tenant = :tenant and area = :area and key = :key and (expires_at is null or expires_at > :now)"""
_OWNER = """select user_id from sessions
            where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)"""
# Constants, joined at import: set a key over any version, over none (if_version=0), or over one.
_RETURNING = "returning area, key, value, version, expires_at, created_at, updated_at"
_INSERT = """insert into state (tenant, area, key, user_id, session_id, value, version, expires_at, created_at, updated_at, checksum)
             values (:tenant, :area, :key, :user, :session, :value, 1, :expires, :now, :now, :checksum)
             on conflict (tenant, area, key) do update
             set value = excluded.value, checksum = excluded.checksum, version = state.version + 1, expires_at = excluded.expires_at,
                 created_at = case when state.expires_at <= :now then :now else state.created_at end, updated_at = :now """
_SET = {
    None: _INSERT + _RETURNING,
    0: _INSERT + "where state.expires_at <= :now " + _RETURNING,
    1: """update state set value = :value, checksum = :checksum, version = version + 1, expires_at = :expires, updated_at = :now
          where tenant = :tenant and area = :area and key = :key and version = :version
          and (expires_at is null or expires_at > :now) """ + _RETURNING,
}  # fmt: skip

_ABOUT = {
    "get": "Read the value of a key that was set before.",
    "set": """Store a small value under a key, for later turns and other conversations: settings, counters, the progress \
of a task. An existing value is replaced.""",
    "list": "List the keys that are set, with their values if these are short.",
    "remove": "Remove a key and its value.",
}
_KEY = string("The key.")
_AREA = string(
    "The owner: `user`, or `session:ID` for one conversation. `tenant`, which all users share, is read-only.",
    default="user",
)
_JSON = {
    "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object", "array", "null")]
}
_KEY_SCHEMA = schema(("key",), key=_KEY, area=_AREA)
_SET_SCHEMA = schema(
    ("key", "value"),
    key=_KEY,
    value={"description": "The value: any JSON.", **_JSON},
    area=_AREA,
    ttl_seconds={
        "type": "number",
        "exclusiveMinimum": 0,
        "description": "Remove the key after this many seconds.",
    },
    if_version={
        "type": "integer",
        "minimum": 0,
        "description": "Set the key only if it has this version; 0: only if it is not set.",
    },
)
_LIST_SCHEMA = schema(
    prefix=string("Only keys that start with this."),
    area=_AREA,
    after=string("The `next` of the previous page, to get the page after it."),
)
_TEXT = string()
_VERSION = {"type": "integer"}
_VALUE = schema(
    ("key", "version"), key=_TEXT, value=_JSON, version=_VERSION, expires_at=_TEXT, note=_TEXT
)
_VALUES = schema(("items",), items={"type": "array", "items": _VALUE}, next=_TEXT)
_DONE = schema(
    ("success", "key"), success={"const": True}, key=_TEXT, version=_VERSION, expires_at=_TEXT
)


def _item_output(item: Item, max_tokens: int | None = None) -> ToolOutput:
    """Return an item as a tool's output; a value over `max_tokens` is replaced by a note."""
    output: ToolOutput = {"key": item.key, "version": item.version}
    if max_tokens is not None and tokens.estimate(item.raw) > max_tokens:
        output["note"] = "The value is long: get_state shows it."
    else:
        output["value"] = item.value
    if item.expires_at is not None:
        output["expires_at"] = item.expires_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    return output


def _own(area: str) -> str:
    """Return an area that a model may change; raise `Invalid` for the tenant's shared state."""
    if area == "tenant":
        raise Invalid(
            field="area",
            problem="must be user or session:ID; tools cannot set the tenant's state",
        )
    return area
