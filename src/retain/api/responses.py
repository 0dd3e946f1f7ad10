"""What a verb returned, as a response: JSON, with the version of a record as its ETag."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from starlette.responses import Response

from retain.api.rendering import as_json
from retain.auth.idempotency import StoredResponse
from retain.base import clock
from retain.base.canonical import quote
from retain.kinds.kind import Page
from retain.messages.message import Message

_JSON = b"application/json"
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def rendered(found: Any, status: int = 200) -> StoredResponse:
    """An answer as it goes over the wire."""
    if found is None and status == 204:
        return StoredResponse(204, "")
    version = getattr(found, "version", None)
    return StoredResponse(status, written(found), version if isinstance(version, int) else None)


def written(found: Any) -> str:
    """A result as JSON; messages, of which there are many, without taking their content apart and putting it together."""
    if type(found) is Message:
        return _message(found)
    if type(found) is list and found and type(found[0]) is Message:
        return f"[{','.join(map(_message, found))}]"
    if type(found) is Page and found.items and type(found.items[0]) is Message:
        return f'{{"data":[{",".join(map(_message, found.items))}],"next":{_write(found.next)}}}'
    return _write(as_json(found))


def _message(one: Message) -> str:
    kept = vars(one)
    author, at = kept["author"], kept.get("_at")
    made = clock.from_datetime(one.created_at, "created_at") if at is None else at
    return (
        f'{{"session":{_quoted(kept["session"])},"seq":{kept["seq"]},"role":"{kept["role"]}",'
        f'"author":{"null" if author is None else _quoted(author)},"tokens":{kept["tokens"]},'
        f'"tokens_in":{_number(kept["tokens_in"])},"tokens_out":{_number(kept["tokens_out"])},'
        f'"cost":{_number(kept["cost"])},"created_at":"{_second(made // clock.SECOND)}{_fraction(made % clock.SECOND)}",'
        f'"content":{kept["raw"]}}}'
    )


@lru_cache(1024)
def _quoted(name: str) -> str:
    return quote(name)


@lru_cache(1024)
def _second(seconds: int) -> str:
    return clock.to_datetime(seconds * clock.SECOND).isoformat().removesuffix("+00:00")


def _fraction(micros: int) -> str:
    return f".{micros:06d}Z" if micros else "Z"


def _number(given: float | None) -> str:
    return "null" if given is None else repr(given)


class Written(Response):
    """JSON that is written already, with its headers: the framework's way to make one takes longer than writing it."""

    def __init__(
        self, body: bytes, status: int, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", _JSON),
            *headers,
        ]


def response(answer: StoredResponse, known: str | None = None) -> Response:
    """An answer as a response; 304 where who asks knows it already, by its ETag."""
    headers: list[tuple[bytes, bytes]] = []
    if answer.version is not None:
        tag = f'"{answer.version}"'
        if known is not None and _has(known, tag):
            return Response(status_code=304, headers={"ETag": tag})
        headers.append((b"etag", tag.encode()))
    if answer.replayed:
        headers.append((b"idempotent-replayed", b"true"))
    if answer.status == 204:
        return Response(
            status_code=204, headers={name.decode(): value.decode() for name, value in headers}
        )
    return Written(encoded(answer.body), answer.status, headers)


def encoded(body: str) -> bytes:
    """JSON as bytes; what came in as half a letter, and was not kept, goes out as it came in."""
    try:
        return body.encode()
    except UnicodeEncodeError:
        return json.dumps(json.loads(body)).encode()


def answer(found: Any, status: int = 200) -> Response:
    """What a verb returned, as a response."""
    return response(rendered(found, 204 if found is None else status))


def _has(known: str, tag: str) -> bool:
    given: Sequence[str] = [one.strip().removeprefix("W/") for one in known.split(",")]
    return tag in given or given == ["*"]
