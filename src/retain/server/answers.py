"""What a verb returned, as a response: JSON, with the version of a record as its ETag."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from retain.access.once import Answer
from retain.canonical import quote
from retain.faces.render import as_json
from retain.kinds.kind import Page
from retain.talk.message import Message

JSON = "application/json"
IF_NONE_MATCH = "if-none-match"
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def rendered(found: Any, status: int = 200) -> Answer:
    """An answer as it goes over the wire."""
    if found is None and status == 204:
        return Answer(204, "")
    version = getattr(found, "version", None)
    return Answer(status, written(found), version if isinstance(version, int) else None)


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
    author = "null" if one.author is None else quote(one.author)
    at = one.created_at.isoformat().replace("+00:00", "Z")
    return (
        f'{{"session":{quote(one.session)},"seq":{one.seq},"role":"{one.role}","author":{author},"tokens":{one.tokens},'
        f'"tokens_in":{_number(one.tokens_in)},"tokens_out":{_number(one.tokens_out)},"cost":{_number(one.cost)},'
        f'"created_at":"{at}","content":{one.raw}}}'
    )


def _number(given: float | None) -> str:
    return "null" if given is None else repr(given)


def response(answer: Answer, asked: Headers | None = None) -> Response:
    """An answer as a response; 304 where who asked for something has it already."""
    headers = {}
    if answer.version is not None:
        headers["ETag"] = tag = f'"{answer.version}"'
        if asked is not None and (known := asked.get(IF_NONE_MATCH)) and _has(known, tag):
            return Response(status_code=304, headers=headers)
    if answer.replayed:
        headers["Idempotent-Replayed"] = "true"
    if answer.status == 204:
        return Response(status_code=204, headers=headers)
    return Response(encoded(answer.body), answer.status, headers, JSON)


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
