"""What can be read over MCP without a tool: notes, conversations and stored texts, each under an address of its own."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from urllib.parse import quote, unquote

from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

from retain.base.errors import NotFound
from retain.chat.images import MOST_BYTES, media_of
from retain.kinds.entries.entry import indent_continuation
from retain.kinds.kind import decode_cursor, encode_cursor
from retain.mcp.guest import Caller
from retain.memory import Scope
from retain.messages import placeholder

SCHEME = "retain://"
NOTES, SESSIONS, REFS = "notes", "sessions", "refs"
MARKDOWN, PLAIN, JSON = "text/markdown", "text/plain", "application/json"
TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{SCHEME}{NOTES}/{{user}}/{{agent}}",
        name=NOTES,
        title="Long-term notes",
        description="What an agent has noted about a user.",
        mime_type=MARKDOWN,
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{SESSIONS}/{{id}}",
        name="session",
        title="A conversation",
        description="The newest messages of a session, oldest first, after what is summarized of those before them.",
        mime_type=PLAIN,
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{REFS}/{{key}}",
        name="reference",
        title="A stored text",
        description="The first page of what a placeholder [MemoryRef: key - description] stands for; an image whole.",
    ),
)
_PAGE = 50
_LISTED = 100
_MOST_TOKENS = 8_000
_MOST_COMPLETED = 100


def address(*parts: str) -> str:
    """The address of something, whatever letters its name has."""
    return SCHEME + "/".join(quote(part, safe="") for part in parts)


def listed(guest: Caller, cursor: str | None) -> tuple[list[Resource], str | None]:
    """A page of what can be read: the notes, then the conversations and the stored texts, newest first; and what follows."""
    scope = guest.scope()
    kind, after = decode_cursor(cursor, [str, str]) if cursor else (SESSIONS, "")
    found: list[Resource] = [] if cursor else _first(scope)
    if kind == SESSIONS:
        sessions = scope.sessions.list(limit=_PAGE, after=after or None)
        found += [
            Resource(
                uri=address(SESSIONS, one.id),
                name=one.id,
                title=_line(one.label) or None,
                mime_type=PLAIN,
            )
            for one in sessions
        ]
        if sessions.next:
            return found, encode_cursor([SESSIONS, sessions.next])
        after = ""
    refs = scope.refs.list(active=True, limit=_PAGE, after=after or None)
    found += [
        Resource(
            uri=address(REFS, one.key),
            name=one.key,
            description=_line(one.summary),
            mime_type=None if one.type == "image" else PLAIN,  # which image, its bytes tell
        )
        for one in refs
    ]
    return found, encode_cursor([REFS, refs.next]) if refs.next else None


def _first(scope: Scope) -> list[Resource]:
    user, agent = scope.owner.user, scope.owner.agent
    found = [
        Resource(uri=address(SESSIONS), name=SESSIONS, title="Recent conversations", mime_type=JSON)
    ]
    if user is not None and agent is not None:
        found.append(
            Resource(
                uri=address(NOTES, user, agent),
                name=NOTES,
                title="Long-term notes",
                mime_type=MARKDOWN,
            )
        )
    return found


def read(guest: Caller, uri: str) -> TextResourceContents | BlobResourceContents:
    """What is under an address; NotFound where nothing is."""
    if not uri.startswith(SCHEME):
        raise NotFound(what="resource", id=uri[:200])
    match [unquote(part) for part in uri.removeprefix(SCHEME).split("/")]:
        case [kind, user, agent] if kind == NOTES and user and agent:
            text, media = guest.scope(user=user, agent=agent).notes.read().text, MARKDOWN
        case [kind] if kind == SESSIONS:
            text, media = _sessions(guest.scope()), JSON
        case [kind, id] if kind == SESSIONS and id:
            text, media = _session(guest.scope(), id), PLAIN
        case [kind, key] if kind == REFS and key:
            if (image := _image(guest.scope(), key)) is not None:
                return BlobResourceContents(
                    uri=uri, blob=base64.b64encode(image).decode(), mime_type=media_of(image)
                )
            text, media = _reference(guest.scope(), key), PLAIN
        case _:
            raise NotFound(what="resource", id=uri[:200])
    return TextResourceContents(uri=uri, text=text, mime_type=media)


def completed(guest: Caller, argument: str, begun: str) -> list[str]:
    """What an argument of an address can be, as far as it is written."""
    scope = guest.scope()
    found: Sequence[str]
    match argument:
        case "id":
            found = [one.id for one in scope.sessions.list(limit=_LISTED)]
        case "key":
            found = [one.key for one in scope.refs.list(active=True, limit=_LISTED)]
        case "agent":
            found = (
                [scope.owner.agent]
                if scope.owner.agent
                else [one.name for one in scope.agents.list(limit=_LISTED)]
            )
        case "user":
            found = [scope.owner.user] if scope.owner.user else []
        case _:
            found = []
    return [name for name in found if name.startswith(begun)][:_MOST_COMPLETED]


def _sessions(scope: Scope) -> str:
    told = [
        {
            "uri": address(SESSIONS, one.id),
            "id": one.id,
            "label": one.label,
            "agent": one.agent,
            "messages": one.count,
            "updated_at": one.updated_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        for one in scope.sessions.list(limit=_LISTED)
    ]
    return json.dumps(told, ensure_ascii=False, indent=1)


def _session(scope: Scope, id: str) -> str:
    """A conversation, to be read; no line of what was said can pass for the beginning of another message."""
    session = scope.sessions.get(id)
    shown = scope.messages.window(id, tokens=_MOST_TOKENS)
    lines = [
        f"Conversation {_line(session.label or id)}: {session.count} messages, the newest {len(shown)} of them here."
    ]
    if session.summary:
        lines.append(
            f"Summary of the first {session.summarized_count}: {indent_continuation(session.summary)}"
        )
    for message in shown:
        owner = f"{message.role} ({_line(message.author)})" if message.author else message.role
        lines.append(
            f"#{message.seq} {owner}: {indent_continuation(message.text) if message.text else '(no text)'}"
        )
    return "\n\n".join(lines)


def _image(scope: Scope, key: str) -> bytes | None:
    """The bytes of an image that is kept as a reference; None for what is none, or larger than anybody would look at."""
    found = scope.refs.info(key)
    if found.type != "image" or found.bytes > MOST_BYTES:
        return None
    data = scope.refs.content(key)
    return data if media_of(data) else None


def _reference(scope: Scope, key: str) -> str:
    view = scope.refs.get(key)
    return f"{view.text}\n\n({view.more})" if view.more else view.text


def _line(text: str) -> str:
    return placeholder.one_line(placeholder.neutralize(text))
