"""MCP resources: notes, conversations and stored texts, each under its own URI."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from urllib.parse import quote, unquote

from mcp_types import BlobResourceContents, Resource, ResourceTemplate, TextResourceContents

from memorist.base.errors import NotFound
from memorist.chat.images import MAX_IMAGE_BYTES, media_of
from memorist.content import placeholder
from memorist.kinds.entries.entry import indent_continuation
from memorist.kinds.page import decode_cursor, encode_cursor
from memorist.mcp.mcp_caller import McpCaller
from memorist.memory import Scope

SCHEME = "memorist://"
NOTES = "notes"
SESSIONS = "sessions"
REFS = "refs"
MARKDOWN = "text/markdown"
PLAIN = "text/plain"
JSON = "application/json"
TEMPLATES = (
    ResourceTemplate(
        uri_template=f"{SCHEME}{NOTES}/{{user}}/{{agent}}",
        name=NOTES,
        title="Long-term notes",
        description="The notes of an agent about a user.",
        mime_type=MARKDOWN,
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{SESSIONS}/{{id}}",
        name="session",
        title="A conversation",
        description="The newest messages of a session, oldest first, after a summary of earlier messages.",
        mime_type=PLAIN,
    ),
    ResourceTemplate(
        uri_template=f"{SCHEME}{REFS}/{{key}}",
        name="reference",
        title="A stored text",
        description="The first page of the content of [MemoryRef: key - description], or the whole image.",
    ),
)
PAGE_SIZE = 50
LIST_LIMIT = 100
MAX_SESSION_TOKENS = 8_000
MAX_COMPLETIONS = 100


def resource_uri(*parts: str) -> str:
    """Return the URI of a resource; names are percent-encoded."""
    return SCHEME + "/".join(quote(part, safe="") for part in parts)


def list_page(caller: McpCaller, cursor: str | None) -> tuple[list[Resource], str | None]:
    """Return a page of resources and the next cursor: notes, conversations, stored texts."""
    scope = caller.scope()
    kind, after = decode_cursor(cursor, [str, str]) if cursor else (SESSIONS, "")
    resources: list[Resource] = [] if cursor else _first(scope)
    if kind == SESSIONS:
        sessions = scope.sessions.list(limit=PAGE_SIZE, after=after or None)
        resources += [
            Resource(
                uri=resource_uri(SESSIONS, session.id),
                name=session.id,
                title=_line(session.label) or None,
                mime_type=PLAIN,
            )
            for session in sessions
        ]
        if sessions.next:
            return resources, encode_cursor([SESSIONS, sessions.next])
        after = ""
    refs = scope.refs.list(active=True, limit=PAGE_SIZE, after=after or None)
    resources += [
        Resource(
            uri=resource_uri(REFS, ref.key),
            name=ref.key,
            description=_line(ref.summary),
            mime_type=None
            if ref.type == "image"
            else PLAIN,  # the format of an image is in its bytes
        )
        for ref in refs
    ]
    return resources, encode_cursor([REFS, refs.next]) if refs.next else None


def _first(scope: Scope) -> list[Resource]:
    user = scope.owner.user
    agent = scope.owner.agent
    resources = [
        Resource(
            uri=resource_uri(SESSIONS), name=SESSIONS, title="Recent conversations", mime_type=JSON
        )
    ]
    if user is not None and agent is not None:
        resources.append(
            Resource(
                uri=resource_uri(NOTES, user, agent),
                name=NOTES,
                title="Long-term notes",
                mime_type=MARKDOWN,
            )
        )
    return resources


def read(caller: McpCaller, uri: str) -> TextResourceContents | BlobResourceContents:
    """Return the resource at a URI."""
    if not uri.startswith(SCHEME):
        raise NotFound(what="resource", id=uri[:200])
    match [unquote(part) for part in uri.removeprefix(SCHEME).split("/")]:
        case [kind, user, agent] if kind == NOTES and user and agent:
            text = caller.scope(user=user, agent=agent).notes.read().text
            media = MARKDOWN
        case [kind] if kind == SESSIONS:
            text = _sessions(caller.scope())
            media = JSON
        case [kind, id] if kind == SESSIONS and id:
            text = _session(caller.scope(), id)
            media = PLAIN
        case [kind, key] if kind == REFS and key:
            if (image := _image(caller.scope(), key)) is not None:
                return BlobResourceContents(
                    uri=uri, blob=base64.b64encode(image).decode(), mime_type=media_of(image)
                )
            text = _reference(caller.scope(), key)
            media = PLAIN
        case _:
            raise NotFound(what="resource", id=uri[:200])
    return TextResourceContents(uri=uri, text=text, mime_type=media)


def complete(caller: McpCaller, argument: str, prefix: str) -> list[str]:
    """Return the values of a URI parameter that begin with `prefix`."""
    scope = caller.scope()
    values: Sequence[str]
    match argument:
        case "id":
            values = [session.id for session in scope.sessions.list(limit=LIST_LIMIT)]
        case "key":
            values = [ref.key for ref in scope.refs.list(active=True, limit=LIST_LIMIT)]
        case "agent":
            if scope.owner.agent:
                values = [scope.owner.agent]
            else:
                values = [agent.name for agent in scope.agents.list(limit=LIST_LIMIT)]
        case "user":
            values = [scope.owner.user] if scope.owner.user else []
        case _:
            values = []
    return [name for name in values if name.startswith(prefix)][:MAX_COMPLETIONS]


def _sessions(scope: Scope) -> str:
    sessions = [
        {
            "uri": resource_uri(SESSIONS, session.id),
            "id": session.id,
            "label": session.label,
            "agent": session.agent,
            "messages": session.count,
            "updated_at": session.updated_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
        }
        for session in scope.sessions.list(limit=LIST_LIMIT)
    ]
    return json.dumps(sessions, ensure_ascii=False, indent=1)


def _session(scope: Scope, id: str) -> str:
    """Render a conversation; lines inside a message are indented, unlike the start of a message."""
    session = scope.sessions.get(id)
    messages = scope.messages.window(id, tokens=MAX_SESSION_TOKENS)
    title = _line(session.label or id)
    lines = [
        f"Conversation {title}: {session.count} messages; these are the newest {len(messages)}."
    ]
    if session.summary:
        covered = f" of the first {session.summarized_count}" if session.summarized_count else ""
        lines.append(f"Summary{covered}: {indent_continuation(session.summary)}")
    for message in messages:
        speaker = f"{message.role} ({_line(message.author)})" if message.author else message.role
        text = indent_continuation(message.text) if message.text else "(no text)"
        lines.append(f"#{message.seq} {speaker}: {text}")
    return "\n\n".join(lines)


def _image(scope: Scope, key: str) -> bytes | None:
    """Return the bytes of a stored image; None if it is not an image or too large to show."""
    ref = scope.refs.info(key)
    if ref.type != "image" or ref.bytes > MAX_IMAGE_BYTES:
        return None
    data = scope.refs.content(key)
    return data if media_of(data) else None


def _reference(scope: Scope, key: str) -> str:
    view = scope.refs.get(key)
    return f"{view.text}\n\n({view.more})" if view.more else view.text


def _line(text: str) -> str:
    return placeholder.one_line(placeholder.neutralize(text))
