"""ChatGPT's export: `conversations.json`, or the whole archive in which it comes.

A conversation is a tree: whoever edits a message or asks again opens a branch. The branch that is shown becomes the session;
each other one becomes a session of its own, with what is only there. A message is its text; all else that ChatGPT says of it
is under `original`, from which the export can be made again, but for the order of branches. Images and sound are files of
the archive, and are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import (
    Conversation,
    Record,
    Thing,
    Unplaced,
    moment,
    objects,
    text,
    without,
)
from retain.messages.message import NewMessage

CONVERSATIONS = re.compile(r"(.*/)?conversations(-\d+)?\.json")
_BESIDE = {
    "message_feedback": "feedback",
    "shared_conversations": "shared",
    "model_comparisons": "comparisons",
}
_ROLES = ("system", "user", "assistant", "tool")
_SAID = ("text", "result", "content")
_APART = "is a file, and memory keeps what is said; the message that shows it names it"


def read(source: str) -> Iterator[Record]:
    """Everything that the export has."""
    with files.members(Path(source)) as archive:
        names = list(archive)
        alone = len(names) == 1
        for name in names:
            plain = name.rsplit("/", 1)[-1].removesuffix(".json")
            with archive.open(name) as file:
                if alone or CONVERSATIONS.fullmatch(name):
                    for where, value in files.elements(file, name):
                        yield from _conversation(value, where)
                elif plain in _BESIDE:
                    yield from _beside(files.whole(file, name), name, _BESIDE[plain])
                elif plain in ("user", "user_settings") and name.endswith(".json"):
                    yield Thing(
                        ("chatgpt", "account"), plain, _object(files.whole(file, name), name)
                    )
                else:
                    reason = (
                        "says again what conversations.json says"
                        if plain == "chat.html"
                        else _APART
                    )
                    yield Unplaced("file", name, reason)


def _beside(value: Any, where: str, what: str) -> Iterator[Record]:
    for number, one in enumerate(value if isinstance(value, list) else [value]):
        if isinstance(one, dict) and one:
            yield Thing(("chatgpt", what), text(one.get("id")) or str(number), one)
        elif one:
            yield Unplaced(what, f"{where}[{number}]", "is no object")


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(field=where, problem="must be a JSON object")
    return value


def _conversation(value: Any, where: str) -> Iterator[Record]:
    if not isinstance(value, dict) or not isinstance(value.get("mapping"), dict):
        raise Invalid(field=where, problem="is no conversation of ChatGPT: it has no `mapping`")
    id = text(value.get("conversation_id")) or text(value.get("id"))
    if not id:
        raise Invalid(field=where, problem="has no id")
    nodes = {key: node for key, node in value["mapping"].items() if isinstance(node, dict)}
    for key in value["mapping"].keys() - nodes.keys():
        yield Unplaced("message", f"{where} node {key}", "is no object")
    for key, node in nodes.items():
        if node.get("message") and _said(node) is None:
            yield Unplaced("message", f"{where} node {key}", "is no object")
    label = text(value.get("title"))
    known = (
        "mapping",
        "title" if label else "",
        "conversation_id" if id == value.get("conversation_id") else "",
    )
    about = {"import": "chatgpt", **without(value, *known), **_silent(nodes)}
    shown, others = _branches(nodes, text(value.get("current_node")))
    for branch in [shown, *others]:
        mine = (
            about
            if branch is shown
            else {"import": "chatgpt", "branch_of": id, "after": nodes[branch[0]].get("parent")}
        )
        yield Conversation(
            id if branch is shown else f"{id}/{branch[-1]}",
            list(_messages(nodes, branch)),
            label if branch is shown else f"{label} (another branch)",
            mine,
            created_at=moment(value.get("create_time")),
            updated_at=moment(value.get("update_time")),
        )


def _silent(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is known of nodes that say nothing: of the root only that it is one, as a rule."""
    found = {
        key: {"parent": node.get("parent"), **_fields(nodes, key)}
        for key, node in nodes.items()
        if _said(node) is None
    }
    return without({"silent_nodes": without({key: without(node) for key, node in found.items()})})


def _fields(nodes: Mapping[str, Mapping[str, Any]], key: str) -> dict[str, Any]:
    """What a node says beside its message, its parent, and what others say of it: its id, and who its children are."""
    node, children = nodes[key], nodes[key].get("children")
    plain = isinstance(children, list) and all(
        isinstance(one, str) and one in nodes for one in children
    )
    told = ("message", "parent", "id" if node.get("id") == key else "", "children" if plain else "")
    return without(node, *told)


def _branches(
    nodes: Mapping[str, Mapping[str, Any]], current: str
) -> tuple[list[str], list[list[str]]]:
    """The nodes from the root to the one that is shown; and for each other end, those that lead there and nowhere before."""
    taken: set[str] = set()

    def up(end: str) -> list[str]:
        found = []
        at: Any = end
        while isinstance(at, str) and at in nodes and at not in taken:
            taken.add(at)
            found.append(at)
            at = nodes[at].get("parent")
        return found[::-1]

    parents = {node.get("parent") for node in nodes.values() if isinstance(node.get("parent"), str)}
    ends = [key for key in nodes if key not in parents]
    shown = up(current if current in nodes else next(reversed(ends), ""))
    others = [up(end) for end in [*ends, *nodes] if end not in taken]
    return shown, [
        branch for branch in others if any(_said(nodes[key]) is not None for key in branch)
    ]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(node: Mapping[str, Any]) -> Mapping[str, Any] | None:
    message = node.get("message")
    return message if isinstance(message, dict) else None


def _messages(
    nodes: Mapping[str, Mapping[str, Any]], branch: Sequence[str]
) -> Iterator[NewMessage]:
    call = ""
    for key in branch:
        message = _said(nodes[key])
        if message is None:
            continue  # the root, which says nothing
        author, content = _dict(message.get("author")), _dict(message.get("content"))
        role, said = _role(author, content, message), _text(content)
        node = nodes[key]
        original = {**message, "node": key, "parent": node.get("parent")}
        original["node_fields"] = _fields(nodes, key)
        if content.get("parts") == [said]:
            original["content"] = {name: item for name, item in content.items() if name != "parts"}
        kept: dict[str, Any] = {"text": said, "original": without(original)}
        if role == "assistant" and message.get("recipient") not in (None, "all"):
            call = key  # what it says is what a tool is given
            function = {"name": text(message["recipient"]) or "tool", "arguments": said}
            kept |= {
                "text": "",
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            }
            kept["original"]["content"] = message.get("content")
        elif role == "tool" and call:
            kept["tool_call_id"] = call
        yield NewMessage(role, kept, created_at=moment(message.get("create_time")))


def _role(author: Mapping[str, Any], content: Mapping[str, Any], message: Mapping[str, Any]) -> str:
    """Who speaks; what the user never typed is the system's, not the user's."""
    role = text(author.get("role"))
    hidden = _dict(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
    if role not in _ROLES or (
        role == "user" and (hidden or content.get("content_type") == "user_editable_context")
    ):
        return "system"
    return role


def _text(content: Mapping[str, Any]) -> str:
    """What is said in words."""
    parts = content.get("parts")
    if isinstance(parts, list):
        told = [
            part
            if isinstance(part, str)
            else text(part.get("text"))
            if isinstance(part, dict)
            else ""
            for part in parts
        ]
        return "\n".join(part for part in told if part)
    if thoughts := objects(content.get("thoughts")):
        return "\n".join(text(one.get("content")) or text(one.get("summary")) for one in thoughts)
    return next((content[name] for name in _SAID if isinstance(content.get(name), str)), "")
