"""Claude's export: conversations, projects with their documents, and memories.

A message has its text and, as `parts`, Claude's content: text, thoughts, tool calls and results.
A conversation that was continued at an earlier message keeps the order of the export; `original`
of each message names the message it answers. Projects and documents become searchable items;
memories are appended to the user's notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid
from memorist.content.message import NewMessage
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import (
    ImportedConversation,
    ImportedItem,
    ImportedNote,
    Record,
    Unplaced,
    parse_time,
)
from memorist_importers import json_files
from memorist_importers.archives import open_archive
from memorist_importers.fields import as_text, drop_fields, only_objects, split_objects

_SENDERS = {
    "human": "user",
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
}
_KINDS = ("conversations", "projects", "memories", "users", "design_chats")


def read(source: ImportSource) -> Iterator[Record]:
    """Yield everything in the export."""
    with open_archive(Path(source.location)) as archive:
        names = list(archive)
        for name in names:
            kind = _file_kind(name)
            if kind is None and len(names) == 1:
                kind = "conversations"
            if kind is None:
                yield Unplaced("file", name, "is not a known file of Claude's export")
                continue
            with archive.open(name) as file:
                # A file in a folder of the archive holds one object, the others hold lists.
                is_single = len(names) > 1 and "/" in name and not name.endswith(f"{kind}.json")
                if is_single:
                    values = iter([(name, foreign_files.read_json(file, name))])
                else:
                    values = json_files.read_elements(file, name)
                for where, value in values:
                    if not isinstance(value, dict):
                        raise Invalid(field=where, problem="must be a JSON object")
                    yield from _READERS[kind](value, where)


IMPORTER = Importer(
    read,
    is_personal=True,
    archive_member=r"(.*/)?(users\.json|projects\.json|memories\.json)",
    beginning=r'"chat_messages"\s*:',
)


def _file_kind(name: str) -> str | None:
    """Return the kind that a file or its folder is named after."""
    if not name.endswith(".json"):
        return None
    parts = name.removesuffix(".json").split("/")
    for kind in _KINDS:
        if kind in parts or parts[-1].startswith(f"{kind}-"):
            return kind
    return None


def _read_conversation(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    field = "chat_messages" if "chat_messages" in value else "messages"
    id = as_text(value.get("uuid"))
    if not id or not isinstance(value.get(field), list):
        problem = "is not a Claude conversation: it has no `uuid` or no `chat_messages`"
        raise Invalid(field=where, problem=problem)
    messages, unplaced = split_objects(value[field], "message", f"{where} {field}")
    yield from unplaced
    label_field = "name" if as_text(value.get("name")) else "title"
    label = as_text(value.get(label_field))
    attributes = drop_fields(value, "uuid", field, label_field if label else "")
    yield ImportedConversation(
        id,
        [_read_message(message) for message in messages],
        label,
        {"import": "claude", **attributes},
        created_at=parse_time(value.get("created_at")),
        updated_at=parse_time(value.get("updated_at")),
    )


def _read_message(message: Mapping[str, Any]) -> NewMessage:
    role = _SENDERS.get(as_text(message.get("sender")) or as_text(message.get("role")), "user")
    parts = message.get("content")
    text = as_text(message.get("text"))
    original = drop_fields(message)
    content: dict[str, Any]
    if isinstance(parts, list) and not all(_is_text(part) for part in parts):
        content = {"parts": parts}
        original.pop("content")
    else:
        joined = "\n\n".join(as_text(part.get("text")) for part in only_objects(parts))
        content = {"text": text or joined or as_text(parts)}
        if parts and isinstance(parts, list):
            original["content"] = [_without_text(part, content["text"]) for part in parts]
        if text:
            original.pop("text")
    attachments = only_objects(message.get("attachments")) + only_objects(message.get("files"))
    if attachments:
        content["attachments"] = [_attachment(attachment) for attachment in attachments]
    return NewMessage(
        role, {**content, "original": original}, created_at=parse_time(message.get("created_at"))
    )


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def _without_text(part: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a part without its text, if the message has the same text."""
    return {name: value for name, value in part.items() if name != "text" or value != text}


def _attachment(attachment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": as_text(attachment.get("file_type")) or "file",
        "name": as_text(attachment.get("file_name")) or "unnamed",
    }


def _read_project(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    id = as_text(value.get("uuid"))
    if not id:
        raise Invalid(field=where, problem="is not a Claude project: it has no `uuid`")
    searchable = ["name", "description", "prompt_template"]
    yield ImportedItem(("claude", "projects"), id, drop_fields(value, "docs"), searchable)
    documents, unplaced = split_objects(value.get("docs"), "document", f"{where} docs")
    yield from unplaced
    for number, document in enumerate(documents):
        key = as_text(document.get("uuid")) or str(number)
        yield ImportedItem(
            ("claude", "projects", id, "docs"), key, document, ["filename", "content"]
        )


def _read_memory(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    imported = []
    if isinstance(value.get("conversations_memory"), str):
        imported.append("conversations_memory")
        text = value["conversations_memory"].strip()
        if text:
            yield ImportedNote(where, f"## What Claude remembered\n\n{text}")
    if isinstance(value.get("project_memories"), dict):
        imported.append("project_memories")
        for id, text in value["project_memories"].items():
            location = f"{where} project {id}"
            if isinstance(text, str) and text.strip():
                heading = f"## What Claude remembered of project {id}"
                yield ImportedNote(location, f"{heading}\n\n{text.strip()}")
            elif text:
                yield Unplaced("memory", location, "is not text")
    rest = drop_fields(value, *imported)
    if rest:
        key = f"memories {as_text(value.get('account_uuid')) or '0'}"
        yield ImportedItem(("claude", "account"), key, rest)


def _read_user(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    yield ImportedItem(("claude", "account"), as_text(value.get("uuid")) or "user", value)


_READERS = {
    "conversations": _read_conversation,
    "design_chats": _read_conversation,
    "projects": _read_project,
    "memories": _read_memory,
    "users": _read_user,
}
