"""Render the result of a verb as a JSON response; the version of a record is its ETag."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from starlette.responses import Response

from memorist.admin.stored_responses import StoredResponse
from memorist.api.rendering import as_json
from memorist.base import clock
from memorist.content.message import Message
from memorist.kinds.page import Page

_encode = msgspec.json.Encoder().encode


def rendered(result: Any, status: int = 200) -> StoredResponse:
    """Render a result as a response that can be stored under an idempotency key."""
    if result is None and status == 204:
        return StoredResponse(204, "")
    version = getattr(result, "version", None)
    return StoredResponse(status, written(result), version if isinstance(version, int) else None)


def written(result: Any) -> str:
    """Render a result as JSON text."""
    try:
        return _encode(_with_raw_content(result)).decode()
    except (OverflowError, UnicodeEncodeError):  # integers over 64 bits, lone surrogates
        return json.dumps(as_json(result), ensure_ascii=False, separators=(",", ":"))


def _with_raw_content(result: Any) -> Any:
    """Return a result for the encoder, with the stored JSON text of messages unchanged.

    Long lists of messages are the most frequent response; parsing and rendering their content
    again would take most of the time.
    """
    if type(result) is MessageRows:
        return _messages(result.session, result.rows)
    if type(result) is Message:
        return _messages(result.session, [_row(result)])[0]
    if type(result) is list and result and type(result[0]) is Message:
        return _messages(result[0].session, map(_row, result))
    if type(result) is Page and result.items and type(result.items[0]) is Message:
        messages = _messages(result.items[0].session, map(_row, result.items))
        return {"data": messages, "next": result.next}
    return as_json(result)


class MessageRows(NamedTuple):
    """Rows of messages of one session, with the columns of `message.COLUMNS`."""

    session: str
    rows: Sequence[Sequence[Any]]


class _MessageJson(msgspec.Struct):
    """A message for the encoder. Structs and datetimes are encoded faster than dictionaries."""

    session: str
    seq: int
    role: str
    author: str | None
    tokens: int
    tokens_in: int | None
    tokens_out: int | None
    cost: float | None
    created_at: datetime
    content: msgspec.Raw


_row = attrgetter(
    "seq",
    "role",
    "raw",
    "author",
    "tokens",
    "tokens_in",
    "tokens_out",
    "cost",
    "created_micros",
)


def _messages(session: str, rows: Iterable[Sequence[Any]]) -> list[_MessageJson]:
    """Return rows with the columns of `message.COLUMNS` for the encoder."""
    to_datetime = clock.to_datetime
    raw_json = msgspec.Raw
    return [
        _MessageJson(
            session,
            seq,
            role,
            author,
            tokens,
            tokens_in,
            tokens_out,
            cost,
            to_datetime(created_at),
            raw_json(raw),
        )
        for seq, role, raw, author, tokens, tokens_in, tokens_out, cost, created_at in rows
    ]


class Written(Response):
    """A response whose JSON is already rendered."""

    def __init__(
        self, body: bytes, status: int, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
            *headers,
        ]


def response(stored: StoredResponse, known_etags: str | None = None) -> Response:
    """Return the HTTP response: 304 if the caller's ETags include this version."""
    headers: list[tuple[bytes, bytes]] = []
    if stored.version is not None:
        etag = f'"{stored.version}"'
        if known_etags is not None and _matches(known_etags, etag):
            return Response(status_code=304, headers={"ETag": etag})
        headers.append((b"etag", etag.encode()))
    if stored.replayed:
        headers.append((b"idempotent-replayed", b"true"))
    if stored.status == 204:
        no_content = Response(status_code=204)
        no_content.raw_headers += headers
        return no_content
    return Written(encoded(stored.body), stored.status, headers)


def encoded(body: str) -> bytes:
    """Encode JSON text as UTF-8; lone surrogates are escaped."""
    try:
        return body.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(body)).encode()


def json_response(result: Any, status: int = 200) -> Response:
    """Return the response for a result; without a result, 204."""
    return response(rendered(result, 204 if result is None else status))


def _matches(known_etags: str, etag: str) -> bool:
    etags = [part.strip().removeprefix("W/") for part in known_etags.split(",")]
    return etag in etags or etags == ["*"]
