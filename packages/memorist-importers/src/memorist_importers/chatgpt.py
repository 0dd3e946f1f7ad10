"""ChatGPT's export: `conversations.json`, or the archive that contains it.

A conversation is a tree: editing a message or asking again opens a branch. The branch that ChatGPT
shows becomes the session; every other one becomes a session with what only it contains. A message
has its text, and under `original` everything else, from which the export can be rebuilt except for
the order of branches. Images and audio are listed only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid
from memorist.content.message import NewMessage
from memorist.importing import foreign_files
from memorist.importing.importer import Importer, ImportSource
from memorist.importing.records import (
    ImportedConversation,
    ImportedItem,
    Record,
    Unplaced,
    parse_time,
)
from memorist_importers import json_files
from memorist_importers.archives import open_archive
from memorist_importers.fields import NOT_AN_OBJECT, as_text, drop_fields, only_objects

CONVERSATIONS = re.compile(r"(.*/)?conversations(-\d+)?\.json")
_EXTRA_FILES = {
    "message_feedback": "feedback",
    "shared_conversations": "shared",
    "model_comparisons": "comparisons",
}
_ROLES = ("system", "user", "assistant", "tool")
_TEXT_FIELDS = ("text", "result", "content")
Nodes = Mapping[str, Mapping[str, Any]]


def read(source: ImportSource) -> Iterator[Record]:
    """Yield everything in the export."""
    with open_archive(Path(source.location)) as archive:
        names = list(archive)
        for name in names:
            stem = name.rsplit("/", 1)[-1].removesuffix(".json")
            with archive.open(name) as file:
                if len(names) == 1 or CONVERSATIONS.fullmatch(name):
                    for where, value in json_files.read_elements(file, name):
                        yield from _read_conversation(value, where)
                elif stem in _EXTRA_FILES:
                    value = foreign_files.read_json(file, name)
                    yield from _read_extra(value, name, _EXTRA_FILES[stem])
                elif stem in ("user", "user_settings") and name.endswith(".json"):
                    value = foreign_files.read_json(file, name)
                    if not isinstance(value, dict):
                        raise Invalid(field=name, problem="must be a JSON object")
                    yield ImportedItem(("chatgpt", "account"), stem, value)
                elif stem == "chat.html":
                    yield Unplaced("file", name, "repeats conversations.json")
                else:
                    reason = "is an attachment; only the message that shows it is imported"
                    yield Unplaced("file", name, reason)


IMPORTER = Importer(
    read,
    is_personal=True,
    archive_member=r"(.*/)?(chat\.html|user\.json|message_feedback\.json)",
    beginning=r'"mapping"\s*:\s*\{',
)


def _read_extra(value: Any, where: str, what: str) -> Iterator[Record]:
    for number, record in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(record, dict) and record:
            yield ImportedItem(("chatgpt", what), as_text(record.get("id")) or str(number), record)
        elif record:
            yield Unplaced(what, f"{where}[{number}]", NOT_AN_OBJECT)


def _read_conversation(value: Any, where: str) -> Iterator[Record]:
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        raise Invalid(field=where, problem="is not a ChatGPT conversation: it has no `mapping`")
    id = as_text(value.get("conversation_id")) or as_text(value.get("id"))
    if not id:
        raise Invalid(field=where, problem="has no id")
    nodes = {}
    for key, node in value["mapping"].items():
        is_object = isinstance(node, dict)
        if is_object:
            nodes[key] = node
        if not is_object or (node.get("message") and _message_of(node) is None):
            yield Unplaced("message", f"{where} node {key}", NOT_AN_OBJECT)
    label = as_text(value.get("title"))
    imported = (
        "mapping",
        "title" if label else "",
        "conversation_id" if id == value.get("conversation_id") else "",
    )
    attributes = {
        "import": "chatgpt",
        **drop_fields(value, *imported),
        **_silent_nodes(nodes),
    }
    created = parse_time(value.get("create_time"))
    updated = parse_time(value.get("update_time"))
    shown, others = _branches(nodes, as_text(value.get("current_node")))
    yield ImportedConversation(
        id,
        list(_messages(nodes, shown)),
        label,
        attributes,
        created_at=created,
        updated_at=updated,
    )
    for branch in others:
        after = nodes[branch[0]].get("parent")
        yield ImportedConversation(
            f"{id}/{branch[-1]}",
            list(_messages(nodes, branch)),
            f"{label} (another branch)",
            {"import": "chatgpt", "branch_of": id, "after": after},
            created_at=created,
            updated_at=updated,
        )


def _silent_nodes(nodes: Nodes) -> dict[str, Any]:
    """Return the fields of nodes without a message; usually only the root is one."""
    silent = {
        key: drop_fields({"parent": node.get("parent"), **_other_fields(nodes, key)})
        for key, node in nodes.items()
        if _message_of(node) is None
    }
    return drop_fields({"silent_nodes": drop_fields(silent)})


def _other_fields(nodes: Nodes, key: str) -> dict[str, Any]:
    """Return the fields of a node that neither its message nor other nodes contain."""
    node = nodes[key]
    children = node.get("children")
    are_known = isinstance(children, list) and all(
        isinstance(child, str) and child in nodes for child in children
    )
    return drop_fields(
        node,
        "message",
        "parent",
        "id" if node.get("id") == key else "",
        "children" if are_known else "",
    )


def _branches(nodes: Nodes, current: str) -> tuple[list[str], list[list[str]]]:
    """Return the branch from the root to the current node, and what only other leaves have."""
    taken: set[str] = set()

    def path_to(leaf: str) -> list[str]:
        path = []
        key: Any = leaf
        while isinstance(key, str) and key in nodes and key not in taken:
            taken.add(key)
            path.append(key)
            key = nodes[key].get("parent")
        return path[::-1]

    parents = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
    leaves = [key for key in nodes if key not in parents]
    last_leaf = leaves[-1] if leaves else ""
    shown = path_to(current if current in nodes else last_leaf)
    others = []
    for leaf in (*leaves, *nodes):
        if leaf not in taken:
            branch = path_to(leaf)
            if any(_message_of(nodes[key]) is not None for key in branch):
                others.append(branch)
    return shown, others


def _as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _message_of(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    message = node.get("message")
    return message if isinstance(message, dict) else None


def _messages(nodes: Nodes, branch: Sequence[str]) -> Iterator[NewMessage]:
    call_id = ""
    for key in branch:
        message = _message_of(nodes[key])
        if message is None:
            continue
        author = _as_dict(message.get("author"))
        content = _as_dict(message.get("content"))
        role = _role(author, content, message)
        text = _text(content)
        original = {
            **message,
            "node": key,
            "parent": nodes[key].get("parent"),
            "node_fields": _other_fields(nodes, key),
        }
        if content.get("parts") == [text]:
            original["content"] = {name: item for name, item in content.items() if name != "parts"}
        stored: dict[str, Any] = {"text": text, "original": drop_fields(original)}
        if role == "assistant" and message.get("recipient") not in (None, "all"):
            # The text is the argument of a tool call.
            call_id = key
            function = {"name": as_text(message["recipient"]) or "tool", "arguments": text}
            stored["text"] = ""
            stored["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
            stored["original"]["content"] = message.get("content")
        elif role == "tool" and call_id:
            stored["tool_call_id"] = call_id
        yield NewMessage(role, stored, created_at=parse_time(message.get("create_time")))


def _role(author: Mapping[str, Any], content: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    """Return the role; what the user never typed is a system message."""
    role = as_text(author.get("role"))
    is_hidden = (
        _as_dict(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
    )
    is_typed = not is_hidden and content.get("content_type") != "user_editable_context"
    if role not in _ROLES or (role == "user" and not is_typed):
        return "system"
    return role


def _text(content: Mapping[str, Any]) -> str:
    """Return the text of a message's content."""
    parts = content.get("parts")
    if isinstance(parts, list):
        texts = [as_text(_as_dict(part).get("text")) or as_text(part) for part in parts]
        return "\n".join(text for text in texts if text)
    thoughts = only_objects(content.get("thoughts"))
    if thoughts:
        return "\n".join(
            as_text(thought.get("content")) or as_text(thought.get("summary"))
            for thought in thoughts
        )
    return next((content[name] for name in _TEXT_FIELDS if isinstance(content.get(name), str)), "")
