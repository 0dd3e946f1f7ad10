"""What the adapters of conversations share: a session that is made where it is needed, its messages, what is told of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from retain.base import canonical, limits
from retain.base.errors import AlreadyExists, NotFound, TooLarge
from retain.context.assemble import Context
from retain.context.render import PREAMBLE, Said
from retain.memory import Scope
from retain.messages import pairing
from retain.messages.content import VENDOR_FIELDS
from retain.messages.message import NewMessage

T = TypeVar("T")
_ASKED = 4_000
"""How much of a message is searched for: the message itself is the agent's own, and needs no room in the context."""
_SMALL = 4_000
"""The most bytes of a part that stays as it is in a message that is too large."""


def there(scope: Scope, session: str, work: Callable[[], T]) -> T:
    """Do something in a session, which is made where it is not there yet."""
    try:
        return work()
    except NotFound as error:
        if error.what != "session":
            raise
    with suppress(AlreadyExists):  # another process is making it
        scope.sessions.add(session)
    try:
        return work()
    except NotFound as error:
        if error.what != "session":
            raise
        hint = "It is another user's: a session has one id in a tenant, so put the user's name into it."
        raise AlreadyExists(what="session", id=session, hint=hint) from error


def extend(scope: Scope, session: str, new: Sequence[NewMessage]) -> None:
    """Add messages at the end, all or none, however many."""
    most = limits.MAX_BATCH

    def work(inner: Scope) -> None:
        for start in range(0, len(new), most):
            inner.messages.extend(session, new[start : start + most])

    if len(new) <= most:
        work(scope)
    else:
        scope.transaction(work)


def context(scope: Scope, session: str, asked: str, budget: int | None) -> Context:
    """What is remembered for a message, without the message: that is the framework's to tell, however long it is."""
    words = asked[: min(budget or _ASKED, _ASKED)]
    found = there(scope, session, lambda: scope.context(session, words, budget=budget))
    return replace(found, said=found.said[:-1]) if words.strip() else found


def remembered(found: Context) -> list[Said]:
    """What is told to an agent that has its history from elsewhere: everything but the recent turns."""
    return [
        one
        for one in found.said
        if one.role == "system" or (one.role == "user" and one.text.startswith(PREAMBLE))
    ]


def keep(
    scope: Scope, session: str, new: Sequence[NewMessage], save: Callable[[Sequence[NewMessage]], T]
) -> T:
    """Save messages of a run that was answered, and so must not fail any more: what is too large for one is a reference."""

    def work() -> T:
        try:
            return save(new)
        except TooLarge:
            return save([_fitting(scope, session, message) for message in new])

    return there(scope, session, work)


def _fitting(scope: Scope, session: str, message: NewMessage) -> NewMessage:
    most, content = limits.MAX_MESSAGE_BYTES, message.content
    if _fits(content, most):
        return message
    line = f"(more than {most} bytes, which are not kept)"
    with suppress(TooLarge):
        said = "a message that is too large for one"
        line = scope.refs.info(
            scope.refs.add(json.dumps(content), said, type="file_content", session=session)
        ).placeholder
    short = _shortened({"text": content} if isinstance(content, str) else content, line)
    return replace(message, content=short if _fits(short, most) else {"text": line})


def _fits(content: Any, most: int) -> bool:
    try:
        canonical.dump(content, "content", most)
    except TooLarge:
        return False
    return True


def _shortened(content: Any, line: str) -> dict[str, Any]:
    """What is said with a line in place of each part that is long, and without what a framework has beside it."""
    said = {name: value for name, value in content.items() if name not in VENDOR_FIELDS}
    for name, value in said.items():
        if isinstance(value, list):
            said[name] = [_part(part, line) for part in value]
        elif not _is_small(value):
            said[name] = line
    return said if said.get("parts") or said.get("text") else {**said, "text": line}


def _part(part: Any, line: str) -> Any:
    if _is_small(part):
        return part
    if isinstance(part, Mapping) and (
        pairing.is_call(part) or pairing.is_result(part)
    ):  # so that they stay a pair
        return {name: value if _is_small(value) else line for name, value in part.items()}
    return {"type": "text", "text": line}


def _is_small(value: Any) -> bool:
    return len(json.dumps(value)) <= _SMALL
