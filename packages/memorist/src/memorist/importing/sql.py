"""Import the tables of another system through a map: a built-in one or a user's own.

Sessions, their owners and summaries are read first and kept in memory; messages, notes, entries,
references, state and model calls are streamed. A table or column that the map requires and the
source lacks is an error before anything is written; columns that the map does not name are listed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

from memorist.base.canonical import JsonText
from memorist.base.errors import Invalid
from memorist.content.formats import langchain
from memorist.content.message import ROLES, NewMessage
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import (
    ImportedCall,
    ImportedConversation,
    ImportedEntry,
    ImportedNote,
    ImportedReference,
    ImportedState,
    Record,
    Unplaced,
    parse_time,
)
from memorist.importing.table_files import Tables, open_tables
from memorist.importing.table_map import Map, TableMap, load_map
from memorist.kinds.interactions import Usage

Values = Mapping[str, Any]
ROLE_NAMES = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant"}
_INTERNAL_TABLES = {"sqlite_sequence"}
_UNIX_SECONDS = re.compile(r"[0-9]{9,10}(\.[0-9]{1,9})?")
_NOT_MAPPED = "is not in the map"


@dataclass
class _SessionRow:
    """A session of the source, without its messages."""

    id: str
    tenant: str | None = None
    user: str | None = None
    agent: str | None = None
    label: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    summary: str = ""
    summarized_count: int = 0
    is_active: bool = False


def read(source: ImportSource) -> Iterator[Record]:
    """Yield everything in the tables of a database, a dump or a JSON file."""
    if source.map is None:
        raise Invalid(field="map", problem="is required: the name of a built-in map, or a file")
    tables = open_tables(source.location)
    is_file = "://" not in source.location
    yield from _Reader(tables, load_map(source.map), lists_tables=is_file).read()


IMPORTER = Importer(
    read,
    takes_map=True,
    has_many_users=True,
    tables=("chat_message_history", "agent_memories", "chat_sessions", "memory_kv"),
)


class _Reader:
    def __init__(self, tables: Tables, map: Map, *, lists_tables: bool) -> None:
        self._tables = tables
        self._map = map
        self._lists_tables = lists_tables
        self._names = {name.lower(): name for name in tables.tables()}
        self._columns: dict[str, dict[str, str]] = {}  # of each table: lower case to its own name
        self._check()
        self._sessions: dict[tuple[str | None, str], _SessionRow] = {}
        self._sessions_by_id: dict[str, list[_SessionRow]] = {}  # one for each tenant
        self._users: set[tuple[str | None, str | None]] = set()  # of the sessions, with tenants
        self._agent_names: dict[str, str] = {}
        self._problems: list[Unplaced] = []  # found while rows are converted

    def _check(self) -> None:
        """Raise Invalid with every missing table and column."""
        missing = []
        for table in self._map.tables:
            if table.table.lower() not in self._names:
                if not table.is_optional:
                    missing.append(f"the table {table.table}")
                continue
            columns = self._columns_of(table)
            for name, choices in table.columns.items():
                if name not in table.optional_fields and not any(c in columns for c in choices):
                    missing.append(f"the column {table.table}.{' or '.join(choices)}")
        if missing:
            tables = ", ".join(sorted(self._names.values())[:20]) or "none"
            problem = f"lacks {', '.join(missing)}, which the map {self._map.name} requires; "
            raise Invalid(field="file", problem=f"{problem}its tables are: {tables}")

    def _columns_of(self, table: TableMap) -> dict[str, str]:
        name = self._names[table.table.lower()]
        if name not in self._columns:
            self._columns[name] = {column.lower(): column for column in self._tables.columns(name)}
        return self._columns[name]

    def read(self) -> Iterator[Record]:
        yield from self._unmapped()
        readers = {
            "agent names": self._read_agent_name,
            "sessions": self._read_session,
            "active sessions": self._read_active_session,
            "summaries": self._read_summary,
        }
        for becomes, read in readers.items():
            for table in self._map.of(becomes):
                for where, row in self._rows(table):
                    try:
                        read(row, where)
                    except Invalid as error:
                        self._problems.append(Unplaced(becomes, where, str(error)))
        yield from self._taken_problems()
        yield from self._read_conversations()
        yield from self._read_others()

    def _read_conversations(self) -> Iterator[Record]:
        seen: set[tuple[str | None, str]] = set()
        for table in self._map.of("messages"):
            yield from self._read_messages(table, seen)
        for key, session in self._sessions.items():
            if key not in seen:
                yield self._conversation(session, [])

    def _read_others(self) -> Iterator[Record]:
        self._users = {(session.tenant, session.user) for session in self._sessions.values()}
        converters = {
            "notes": self._note,
            "entries": self._entry,
            "references": self._reference,
            "state": self._state,
            "model calls": self._call,
        }
        for becomes, convert in converters.items():
            for table in self._map.of(becomes):
                for where, row in self._rows(table):
                    try:
                        yield convert(row, where)
                    except Invalid as error:
                        yield Unplaced(becomes, where, str(error))
                    yield from self._taken_problems()

    def _unmapped(self) -> Iterator[Unplaced]:
        mapped: dict[str, set[str]] = {}
        for table in self._map.tables:
            choices = [choice for choices in table.columns.values() for choice in choices]
            mapped.setdefault(table.table.lower(), set()).update(choices)
        for key, name in sorted(self._names.items()):
            if key in mapped:
                columns = self._columns[name]
                for column in sorted(set(columns) - mapped[key]):
                    yield Unplaced("column", f"{name}.{columns[column]}", _NOT_MAPPED)
            elif self._lists_tables and key not in _INTERNAL_TABLES:
                yield Unplaced("table", name, _NOT_MAPPED)

    def _taken_problems(self) -> list[Unplaced]:
        problems = self._problems
        self._problems = []
        return problems

    def _rows(self, table: TableMap, first: str | None = None) -> Iterator[tuple[str, Values]]:
        """Yield the rows of a table as the fields of the map, each with its location."""
        if table.table.lower() not in self._names:
            return
        columns = self._columns_of(table)
        present = {
            name: next((columns[choice] for choice in choices if choice in columns), None)
            for name, choices in table.columns.items()
        }
        order = [first] if first else []
        order += [name for name in table.order if name not in order]
        names = [column for name in order if (column := present.get(name))]
        read = list(dict.fromkeys(column for column in present.values() if column))
        if not read:
            return
        rows = self._tables.read_table(self._names[table.table.lower()], read, names)
        for number, row in enumerate(rows):
            values = {name: row.get(column) for name, column in present.items() if column}
            for name, others in table.values.items():
                if name in values:
                    values[name] = others.get(_text(values[name]), values[name])
            id = values.get("id", values.get("key"))
            yield f"{table.table} {number if id is None else _text(id)}", values

    # -- sessions and messages --------------------------------------------------------------------

    def _read_agent_name(self, row: Values, where: str) -> None:
        self._agent_names[_text(row["id"])] = _text(row["name"])

    def _read_session(self, row: Values, where: str) -> None:
        session = self._session(_optional(row, "tenant"), _text(row["id"]))
        session.user = _optional(row, "user")
        session.agent = self._agent(row)
        session.label = _optional(row, "label") or ""
        session.created_at = self._time(row, "created_at", where)
        session.updated_at = self._time(row, "updated_at", where)
        try:
            attributes = _json(row.get("attributes"), f"{where} attributes")
        except Invalid as error:
            self._problems.append(Unplaced("attributes", where, str(error)))
            attributes = None
        if isinstance(attributes, dict):
            session.attributes |= attributes
        elif attributes is not None:
            session.attributes["attributes"] = attributes
        summary = _optional(row, "summary")
        if summary:
            self._set_summary(session, summary, _integer(row.get("summarized_count")), None)

    def _session(self, tenant: str | None, id: str) -> _SessionRow:
        if (tenant, id) not in self._sessions:
            session = _SessionRow(id, tenant)
            self._sessions[tenant, id] = session
            self._sessions_by_id.setdefault(id, []).append(session)
        return self._sessions[tenant, id]

    def _read_active_session(self, row: Values, where: str) -> None:
        session = self._session(_optional(row, "tenant"), _text(row["session"]))
        user = _optional(row, "user")
        if session.user not in (None, user):
            reason = f"names the user {user}, but the session {session.id} is {session.user}'s"
            self._problems.append(Unplaced("active session", where, reason))
            return
        session.user = user
        session.agent = self._agent(row)
        session.created_at = session.created_at or self._time(row, "created_at", where)
        session.updated_at = self._time(row, "updated_at", where) or session.updated_at
        session.is_active = True

    def _read_summary(self, row: Values, where: str) -> None:
        id = _text(row["session"])
        sessions = self._sessions_by_id.get(id, [])
        text = _optional(row, "text")
        if len(sessions) != 1:
            reason = f"belongs to {len(sessions)} sessions with the id {id}"
            self._problems.append(Unplaced("summary", where, reason))
        elif text:
            updated_at = self._time(row, "updated_at", where)
            count = _integer(row.get("summarized_count"))
            self._set_summary(sessions[0], text, count, updated_at)

    def _set_summary(
        self, session: _SessionRow, text: str, count: int | None, updated_at: datetime | None
    ) -> None:
        """Keep a summary; one with unknown coverage covers no message, so that it hides none."""
        session.summary = text
        session.summarized_count = count or 0
        if updated_at is not None:
            session.attributes["summary_updated_at"] = updated_at.isoformat()

    def _read_messages(
        self, table: TableMap, seen: set[tuple[str | None, str]]
    ) -> Iterator[Record]:
        rows = self._rows(table, first="session")
        for id, group in groupby(rows, key=lambda item: _text(item[1]["session"])):
            messages: dict[str | None, list[NewMessage]] = {}
            incomplete: set[str | None] = set()  # tenants
            for where, row in group:
                try:
                    message = replace(
                        _message(row, where), created_at=self._time(row, "created_at", where)
                    )
                except Invalid as error:
                    yield Unplaced("message", where, str(error))
                    incomplete.add(self._tenant_of(row, id))
                    continue
                messages.setdefault(self._tenant_of(row, id), []).append(message)
            yield from self._taken_problems()
            for tenant, list_ in messages.items():
                seen.add((tenant, id))
                session = self._session(tenant, id)
                if tenant in incomplete:  # the count includes messages that are not imported
                    session.summarized_count = 0
                yield self._conversation(session, list_)

    def _tenant_of(self, row: Values, session: str) -> str | None:
        """Return the tenant of a message: its own, or the only one that has the session."""
        tenant = _optional(row, "tenant")
        if tenant is not None:
            return tenant
        sessions = self._sessions_by_id.get(session, [])
        return sessions[0].tenant if len(sessions) == 1 else None

    def _conversation(
        self, session: _SessionRow, messages: list[NewMessage]
    ) -> ImportedConversation:
        times = [message.created_at for message in messages if message.created_at]
        fields = {
            **vars(session),
            "attributes": {"import": f"sql {self._map.name}", **session.attributes},
            "agent": session.agent or self._map.name,
            "created_at": session.created_at or min(times, default=None),
            "updated_at": session.updated_at or max(times, default=None),
        }
        return ImportedConversation(messages=messages, **fields)

    # -- everything else --------------------------------------------------------------------------

    def _note(self, row: Values, where: str) -> Record:
        text = _optional(row, "text")
        if text is None:
            return Unplaced("notes", where, "are empty")
        return ImportedNote(
            where,
            text,
            **self._source_of(row, where, self._map.name),
        )

    def _entry(self, row: Values, where: str) -> Record:
        kind = _optional(row, "kind") or "journal"
        if kind not in ("journal", "core"):
            problem = f"must be journal or core, not {kind!r}; add it to `values` in the map"
            raise Invalid(field="kind", problem=problem)
        return ImportedEntry(
            where,
            _text(row["text"]),
            core=kind == "core",
            **self._source_of(row, where, self._map.name),
        )

    def _reference(self, row: Values, where: str) -> Record:
        metadata = _json(row.get("metadata"), f"{where} metadata")
        if metadata is not None and not isinstance(metadata, dict):
            metadata = {"metadata": metadata}
        content = row["content"]
        return ImportedReference(
            _text(row["key"]),
            content if isinstance(content, dict | list) else _text(content),
            _optional(row, "description") or "",
            _optional(row, "type") or "note",
            metadata or {},
            _optional(row, "session"),
            _flag(row.get("is_active")),
            **self._source_of(row, where),
        )

    def _state(self, row: Values, where: str) -> Record:
        tenant = _optional(row, "tenant")
        owner = _optional(row, "owner")
        area = "tenant"
        user = None
        if owner is not None:
            is_session = (tenant, owner) in self._sessions
            is_user = (tenant, owner) in self._users
            if is_session and is_user:
                problem = f"may be the user or the session {owner}; the source does not say which"
                raise Invalid(field="owner", problem=problem)
            area = f"session:{owner}" if is_session else "user"
            user = None if is_session else owner
        return ImportedState(
            area,
            _text(row["key"]),
            _json(row["value"], f"{where} value"),
            expires_at=_expiry(row.get("expires_at"), where),
            **{**self._source_of(row, where), "user": user},
        )

    def _call(self, row: Values, where: str) -> Record:
        parameters = _json(row.get("parameters"), f"{where} parameters")
        if parameters is not None and not isinstance(parameters, dict):
            parameters = {"parameters": parameters}
        usage = Usage(
            model=_optional(row, "model") or "unknown",
            route=_optional(row, "route") or "unknown",
            latency_ms=_number(row.get("latency_ms")),
            tokens_in=_integer(row.get("tokens_in")),
            tokens_out=_integer(row.get("tokens_out")),
            cost=_number(row.get("cost")),
            parameters=parameters,
            error=_optional(row, "error") or "",
        )
        return ImportedCall(
            where,
            usage,
            session=_optional(row, "session"),
            **self._source_of(row, where),
        )

    def _source_of(self, row: Values, where: str, agent: str | None = None) -> dict[str, Any]:
        """Return the owner and the times of a row; `agent` is for a row that names none."""
        return {
            "tenant": _optional(row, "tenant"),
            "user": _optional(row, "user"),
            "agent": self._agent(row) or agent,
            "created_at": self._time(row, "created_at", where),
            "updated_at": self._time(row, "updated_at", where),
        }

    def _agent(self, row: Values) -> str | None:
        agent = _optional(row, "agent")
        return None if agent is None else self._agent_names.get(agent, agent)

    def _time(self, row: Values, name: str, where: str) -> datetime | None:
        value = row.get(name)
        time = parse_time(_seconds(value))
        if time is None and value is not None:
            reason = f"{name} is not a time in the past: {str(value)[:50]!r}"
            self._problems.append(Unplaced("time", where, reason))
        return time


# -- values -----------------------------------------------------------------------------------


def _message(row: Values, where: str) -> NewMessage:
    if row.get("message") is not None:
        value = _json(row["message"], where)
        if not isinstance(value, dict):
            raise Invalid(field=where, problem="is not a message")
        return langchain.to_message(value, where)
    role = (_optional(row, "role") or "").lower()
    role = ROLE_NAMES.get(role, role)
    if role not in ROLES:
        problem = f"has the role {role!r}; add it to `values` in the map"
        raise Invalid(field=where, problem=problem)
    content: Any = _json(row.get("json"), where)
    if content is None:
        content = row.get("text")
    if isinstance(content, list):
        content = {"parts": content}
    elif not isinstance(content, dict):
        content = _text(content)
    return NewMessage(
        role,
        content,
        tokens_in=_integer(row.get("tokens_in")),
        tokens_out=_integer(row.get("tokens_out")),
        cost=_number(row.get("cost")),
    )


def _text(value: Any) -> str:
    """Return a value as text; a whole number has no decimal places."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, JsonText):
        return str(json.loads(value))
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def _optional(row: Values, name: str) -> str | None:
    text = _text(row.get(name))
    return text if text.strip() else None


def _json(value: Any, where: str) -> Any:
    if isinstance(value, str | bytes):
        return foreign_files.parse_json(value, where)
    return value


def _number(value: Any) -> float | None:
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise Invalid(field="number", problem=f"is not a number: {str(value)[:50]!r}")
    return number


def _integer(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _flag(value: Any) -> bool:
    return str(value).lower() not in ("0", "f", "false", "n", "no")


def _seconds(value: Any) -> Any:
    """Return Unix seconds as a number, also those that are text; anything else unchanged."""
    if isinstance(value, Decimal) or (isinstance(value, str) and _UNIX_SECONDS.fullmatch(value)):
        return float(value)
    return value


def _expiry(value: Any, where: str) -> datetime | None:
    """Parse Unix seconds or ISO 8601, like `parse_time`, but the time may lie in the future."""
    text = _text(value).strip()
    seconds = _seconds(value)
    if not text:
        return None
    try:
        if isinstance(value, datetime):
            time = value
        elif isinstance(seconds, int | float):
            time = datetime.fromtimestamp(seconds, UTC)
        else:
            time = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        problem = f"is not a time: {str(value)[:50]!r}"
        raise Invalid(field=f"{where} expires_at", problem=problem) from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
