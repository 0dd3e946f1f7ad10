"""Letta's agent files (`.af`): an agent with its memory blocks, its messages, and what it keeps in its archive.

A memory block becomes a core entry of the agent, which is always in its prompt, as a block is. A passage of the archive
becomes a journal entry with its own time, found when it is asked for. Messages become one session. The agent itself, whole
blocks and files are kept as items at `letta/…`. Tools are code of somebody else's, and only listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retain.base.errors import Invalid
from retain.integrations.importers import files
from retain.integrations.importers.record import (
    Conversation,
    Fact,
    Record,
    Thing,
    Unplaced,
    moment,
    sifted,
    text,
    without,
)
from retain.messages.message import NewMessage

_ROLES = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_PASSAGES = ("archival_passages", "passages", "archival_memory")
_TOOL = "is code, and memory runs none: register it with your agent again"
_KEPT = ("groups", "files", "sources", "mcp_servers", "skills")


def read(source: str) -> Iterator[Record]:
    """Everything that the file has."""
    path = Path(source)
    with files.opened(path) as file:
        value = files.whole(file, path.name)
    if not isinstance(value, dict):
        raise Invalid(field=path.name, problem="is no agent file: it must be a JSON object")
    if isinstance(value.get("agents"), list):
        yield from _agents(value, path.name)
    elif isinstance(value.get("messages"), list) and isinstance(value.get("core_memory"), list):
        yield from _old(value, path.name)
    else:
        raise Invalid(
            field=path.name,
            problem="is no agent file: it has neither `agents` nor `core_memory` and `messages`",
        )


def _agents(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    found, odd = sifted(value.get("blocks"), "block", f"{where} blocks")
    yield from odd
    blocks: dict[str, dict[str, Any]] = {}
    for number, block in enumerate(found):
        id = text(block.get("id")) or f"{where} blocks[{number}]"
        if blocks.setdefault(id, block) != block:
            yield Unplaced(
                "block", f"{where} blocks[{number}]", f"has the id of another block, {id[:100]}"
            )
    used: set[str] = set()
    for number, agent in enumerate(value["agents"]):
        here = f"{where} agents[{number}]"
        if not isinstance(agent, dict):
            raise Invalid(field=here, problem="must be a JSON object")
        name = text(agent.get("name")).strip() or text(agent.get("id")) or f"letta {number}"
        ids = agent.get("block_ids")
        listed = [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []
        used |= {*listed}
        for id in listed:
            if id in blocks:
                yield from _block(blocks[id], name, f"{name}/{id}")
            else:
                yield Unplaced(
                    "block", f"{here} {id}", "is named by the agent, and is not in the file"
                )
        yield from _own_blocks(agent, "memory_blocks", name, here)
        yield from _said_and_kept(without(agent, "memory_blocks"), name, here)
    for id in blocks.keys() - used:
        yield from _block(blocks[id], None, id)
    yield from _tools(value, where)
    for what in _KEPT:
        found, odd = sifted(value.get(what), what, f"{where} {what}")
        yield from odd
        for place, one in enumerate(found):
            yield Thing(
                ("letta", what), text(one.get("id")) or text(one.get("name")) or str(place), one
            )
    yield from _archive(value, None, where)
    if rest := without(value, "agents", "blocks", "tools", *_KEPT, *_PASSAGES):
        yield Thing(("letta", "files"), where, rest)


def _old(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    """A file of the first version: one agent, its blocks and its tools with it."""
    name = text(value.get("name")).strip() or "letta"
    yield from _own_blocks(value, "core_memory", name, where)
    yield from _tools(value, where)
    yield from _said_and_kept(without(value, "core_memory", "tools"), name, where)


def _said_and_kept(agent: Mapping[str, Any], name: str, where: str) -> Iterator[Record]:
    """The agent's messages as a session, its archive as entries, and the agent itself as an item."""
    said, odd = sifted(agent.get("messages"), "message", f"{where} messages")
    yield from odd
    messages = [_message(message) for message in said]
    if messages:
        times: dict[str, Any] = {
            "created_at": messages[0].created_at,
            "updated_at": messages[-1].created_at,
        }
        about = {"import": "letta", "agent": agent.get("id")}
        yield Conversation(f"letta {name}", messages, name, without(about), agent=name, **times)
    yield from _archive(agent, name, where)
    yield Thing(("letta", "agents"), name, without(agent, "messages", *_PASSAGES))


def _own_blocks(agent: Mapping[str, Any], field: str, name: str, where: str) -> Iterator[Record]:
    blocks, odd = sifted(agent.get(field), "block", f"{where} {field}")
    yield from odd
    for place, block in enumerate(blocks):
        yield from _block(block, name, f"{name}/{text(block.get('label')) or place}")


def _tools(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    tools, odd = sifted(value.get("tools"), "tool", f"{where} tools")
    yield from odd
    for tool in tools:
        yield Unplaced("tool", text(tool.get("name")) or text(tool.get("id")), _TOOL)


def _archive(value: Mapping[str, Any], agent: str | None, where: str) -> Iterator[Record]:
    for field in _PASSAGES:
        passages, odd = sifted(value.get(field), "passage", f"{where} {field}")
        yield from odd
        for passage in passages:
            yield from _passage(passage, agent, where)


def _block(block: Mapping[str, Any], agent: str | None, key: str) -> Iterator[Record]:
    label, value = text(block.get("label")) or "block", text(block.get("value")).strip()
    if value:
        yield Fact(key, f"{label}: {value}", core=True, agent=agent)
    yield Thing(("letta", "blocks"), key, block)


def _passage(passage: Mapping[str, Any], agent: str | None, where: str) -> Iterator[Record]:
    words = "text" if text(passage.get("text")).strip() else "content"
    said = text(passage.get(words)).strip()
    if not said:
        yield Unplaced("passage", f"{where} {text(passage.get('id'))}".strip(), "has no text")
        return
    id = text(passage.get("id")) or said
    if "embedding" in passage:
        yield Unplaced(
            "vector",
            f"{where} {id[:80]}",
            "belongs to another embedder; this database makes its own",
        )
    yield Fact(id, said, agent=agent, created_at=moment(passage.get("created_at")))
    if rest := without(passage, words, "embedding"):
        yield Thing(("letta", "passages"), id[:200], rest)


def _message(message: Mapping[str, Any]) -> NewMessage:
    told = "text" if message.get("content") is None else "content"
    said = message.get(told)
    role = _ROLES.get(text(message.get("role")), "system")
    content: dict[str, Any] = {}
    for name in ("tool_calls", "tool_call_id", "name"):
        if message.get(name):
            content[name] = message[name]
    parts = said if isinstance(said, list) else None
    only = parts[0] if parts and len(parts) == 1 and isinstance(parts[0], dict) else None
    if only is not None and only.get("type") == "text" and isinstance(only.get("text"), str):
        rest = without(only, "text", "type")
        original = without(message, told, *content) | ({told: [rest]} if rest else {})
        content["text"] = only["text"]
    elif parts is not None and all(isinstance(part, dict) for part in parts):
        original = without(message, told, *content)
        content["parts"] = parts
    else:  # what is no text and no parts is kept as it is
        original = without(message, told if isinstance(said, str) else "", *content)
        content["text"] = "\n".join(map(text, parts)) if parts else text(said)
    return NewMessage(
        role, {**content, "original": original}, created_at=moment(message.get("created_at"))
    )
