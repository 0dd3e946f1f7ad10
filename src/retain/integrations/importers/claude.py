"""Claude's export: conversations, projects with their documents, and what Claude remembers of its user.

A message has its text and, as `parts`, what Claude calls its content: words, thoughts, tool calls and what they answered.
Conversations that were opened again at an earlier message are in the order in which the export has them; each message says
under `original` which one it answers. Projects and their documents become items, found by their words; memories go to the
end of the notes of the user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import (
    Conversation,
    Passage,
    Record,
    Thing,
    Unplaced,
    moment,
    objects,
    sifted,
    text,
    without,
)
from retain.messages.message import NewMessage

_SENDERS = {
    "human": "user",
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
}
_KINDS = ("conversations", "projects", "memories", "users", "design_chats")


def read(source: str) -> Iterator[Record]:
    """Everything that the export has."""
    with files.members(Path(source)) as archive:
        names = list(archive)
        for name in names:
            what = "conversations" if len(names) == 1 and _kind(name) is None else _kind(name)
            if what is None:
                yield Unplaced(
                    "file", name, "is none of the files that an export of Claude is known to have"
                )
                continue
            with archive.open(name) as file:
                folder = len(names) > 1 and "/" in name and not name.endswith(f"{what}.json")
                values = [(name, files.whole(file, name))] if folder else files.elements(file, name)
                for where, value in values:
                    if not isinstance(value, dict):
                        raise Invalid(field=where, problem="must be a JSON object")
                    yield from _READERS[what](value, where)


def _kind(name: str) -> str | None:
    """What a file of the archive has: named so, or in a folder that is."""
    parts = name.removesuffix(".json").split("/")
    found = next(
        (kind for kind in _KINDS if kind in parts or parts[-1].startswith(f"{kind}-")), None
    )
    return found if name.endswith(".json") else None


def _conversation(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    held = "chat_messages" if "chat_messages" in value else "messages"
    id, said = text(value.get("uuid")), value.get(held)
    if not id or not isinstance(said, list):
        raise Invalid(
            field=where,
            problem="is no conversation of Claude: it has no `uuid` or no `chat_messages`",
        )
    messages, odd = sifted(said, "message", f"{where} {held}")
    yield from odd
    named = "name" if text(value.get("name")) else "title"
    yield Conversation(
        id,
        [_message(message) for message in messages],
        text(value.get(named)),
        {
            "import": "claude",
            **without(value, "uuid", held, named if text(value.get(named)) else ""),
        },
        created_at=moment(value.get("created_at")),
        updated_at=moment(value.get("updated_at")),
    )


def _message(message: Mapping[str, Any]) -> NewMessage:
    role = _SENDERS.get(text(message.get("sender")) or text(message.get("role")), "user")
    parts, said = message.get("content"), text(message.get("text"))
    original = without(message)
    if isinstance(parts, list) and any(
        not isinstance(part, dict) or part.get("type") != "text" for part in parts
    ):
        kept: dict[str, Any] = {"parts": parts}
        original.pop("content")
    else:
        kept = {
            "text": said
            or "\n\n".join(text(part.get("text")) for part in objects(parts))
            or text(parts)
        }
        if parts and isinstance(parts, list):
            original["content"] = [_unlike(part, kept["text"]) for part in parts]
        if said:
            original.pop("text")
    attached = objects(message.get("attachments")) + objects(message.get("files"))
    if attached:
        kept["attachments"] = [_attachment(one) for one in attached]
    return NewMessage(
        role, {**kept, "original": original}, created_at=moment(message.get("created_at"))
    )


def _unlike(part: Mapping[str, Any], said: str) -> dict[str, Any]:
    """A part without its text, where the message has the same."""
    return {name: value for name, value in part.items() if name != "text" or value != said}


def _attachment(one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": text(one.get("file_type")) or "file",
        "name": text(one.get("file_name")) or "unnamed",
    }


def _project(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    id = text(value.get("uuid"))
    if not id:
        raise Invalid(field=where, problem="is no project of Claude: it has no `uuid`")
    yield Thing(
        ("claude", "projects"),
        id,
        without(value, "docs"),
        ["name", "description", "prompt_template"],
    )
    documents, odd = sifted(value.get("docs"), "document", f"{where} docs")
    yield from odd
    for number, document in enumerate(documents):
        key = text(document.get("uuid")) or str(number)
        yield Thing(("claude", "projects", id, "docs"), key, document, ["filename", "content"])


def _memory(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    taken = [
        name
        for name, kind in (("conversations_memory", str), ("project_memories", dict))
        if _is(value, name, kind)
    ]
    if told := text(value.get("conversations_memory")).strip():
        yield Passage(where, f"## What Claude remembered\n\n{told}")
    for id, told in (value["project_memories"] if "project_memories" in taken else {}).items():
        if isinstance(told, str) and told.strip():
            yield Passage(
                f"{where} project {id}",
                f"## What Claude remembered of project {id}\n\n{told.strip()}",
            )
        elif told:
            yield Unplaced("memory", f"{where} project {id}", "is no text")
    if rest := without(value, *taken):
        yield Thing(
            ("claude", "account"), f"memories {text(value.get('account_uuid')) or '0'}", rest
        )


def _is(value: Mapping[str, Any], name: str, kind: type) -> bool:
    return isinstance(value.get(name), kind)


def _user(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    yield Thing(("claude", "account"), text(value.get("uuid")) or "user", value)


_READERS = {
    "conversations": _conversation,
    "design_chats": _conversation,
    "projects": _project,
    "memories": _memory,
    "users": _user,
}
