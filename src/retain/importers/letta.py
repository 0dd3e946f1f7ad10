"""Letta's agent files (`.af`): an agent with its memory blocks, its messages, and what it keeps in its archive.

A memory block becomes a core entry of the agent, which is always in its prompt, as a block is. A passage of the archive
becomes a journal entry with its own time, found when it is asked for. Messages become one session. The agent itself, whole
blocks and files are kept as items at `letta/…`. Tools are code of somebody else's, and only listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retain.errors import Invalid
from retain.importers import files
from retain.importers.record import Conversation, Fact, Record, Thing, Unplaced, moment, objects, text, without
from retain.talk.message import NewMessage

_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}
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
        raise Invalid(field=path.name, problem="is no agent file: it has neither `agents` nor `core_memory` and `messages`")


def _agents(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    blocks = {text(block.get("id")): block for block in objects(value.get("blocks"))}
    used: set[str] = set()
    for number, agent in enumerate(value["agents"]):
        here = f"{where} agents[{number}]"
        if not isinstance(agent, dict):
            raise Invalid(field=here, problem="must be a JSON object")
        name = text(agent.get("name")).strip() or text(agent.get("id")) or f"letta {number}"
        listed = [id for id in agent.get("block_ids") or () if isinstance(id, str)]
        used |= {*listed}
        for id in listed:
            if id in blocks:
                yield from _block(blocks[id], name, f"{name}/{id}")
            else:
                yield Unplaced("block", f"{here} {id}", "is named by the agent, and is not in the file")
        for place, block in enumerate(objects(agent.get("memory_blocks"))):
            yield from _block(block, name, f"{name}/{text(block.get('label')) or place}")
        yield from _said_and_kept(agent, name, here)
    for id in blocks.keys() - used:
        yield from _block(blocks[id], None, id)
    for tool in objects(value.get("tools")):
        yield Unplaced("tool", text(tool.get("name")) or text(tool.get("id")), _TOOL)
    for what in _KEPT:
        for place, one in enumerate(objects(value.get(what))):
            yield Thing(("letta", what), text(one.get("id")) or text(one.get("name")) or str(place), one)
    for passage in (one for name in _PASSAGES for one in objects(value.get(name))):
        yield from _passage(passage, None, where)
    if rest := without(value, "agents", "blocks", "tools", *_KEPT, *_PASSAGES):
        yield Thing(("letta", "files"), where, rest)


def _old(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    """A file of the first version: one agent, its blocks and its tools with it."""
    name = text(value.get("name")).strip() or "letta"
    for place, block in enumerate(objects(value["core_memory"])):
        yield from _block(block, name, f"{name}/{text(block.get('label')) or place}")
    for tool in objects(value.get("tools")):
        yield Unplaced("tool", text(tool.get("name")), _TOOL)
    yield from _said_and_kept(without(value, "core_memory", "tools"), name, where)


def _said_and_kept(agent: Mapping[str, Any], name: str, where: str) -> Iterator[Record]:
    """The agent's messages as a session, its archive as entries, and the agent itself as an item."""
    said = agent.get("messages")
    for number, message in enumerate(said if isinstance(said, list) else ()):
        if not isinstance(message, dict):
            yield Unplaced("message", f"{where} messages[{number}]", "is no object")
    messages = [_message(message) for message in objects(said)]
    if messages:
        times: dict[str, Any] = {"created_at": messages[0].created_at, "updated_at": messages[-1].created_at}
        about = {"import": "letta", "agent": agent.get("id")}
        yield Conversation(f"letta {name}", messages, name, without(about), agent=name, **times)
    for passage in (one for kind in _PASSAGES for one in objects(agent.get(kind))):
        yield from _passage(passage, name, where)
    yield Thing(("letta", "agents"), name, without(agent, "messages", "memory_blocks", *_PASSAGES))


def _block(block: Mapping[str, Any], agent: str | None, key: str) -> Iterator[Record]:
    label, value = text(block.get("label")) or "block", text(block.get("value")).strip()
    if value:
        yield Fact(key, f"{label}: {value}", core=True, agent=agent)
    yield Thing(("letta", "blocks"), key, block)


def _passage(passage: Mapping[str, Any], agent: str | None, where: str) -> Iterator[Record]:
    said = text(passage.get("text")).strip() or text(passage.get("content")).strip()
    if not said:
        yield Unplaced("passage", f"{where} {text(passage.get('id'))}".strip(), "has no text")
        return
    id = text(passage.get("id")) or said
    if "embedding" in passage:
        yield Unplaced("vector", f"{where} {id[:80]}", "belongs to another embedder; this database makes its own")
    yield Fact(id, said, agent=agent, created_at=moment(passage.get("created_at")))
    if rest := without(passage, "text", "content", "embedding"):
        yield Thing(("letta", "passages"), id[:200], rest)


def _message(message: Mapping[str, Any]) -> NewMessage:
    said = message.get("content", message.get("text"))
    role = _ROLES.get(text(message.get("role")), "system")
    content: dict[str, Any] = {}
    for name in ("tool_calls", "tool_call_id", "name"):
        if message.get(name):
            content[name] = message[name]
    parts = said if isinstance(said, list) else None
    only = parts[0] if parts and len(parts) == 1 and isinstance(parts[0], dict) else None
    if only is not None and only.get("type") == "text" and isinstance(only.get("text"), str):
        content["text"], rest = only["text"], without(only, "text", "type")
        original = without(message, "content", *content) | ({"content": [rest]} if rest else {})
    elif parts is not None:
        content["parts"] = [part if isinstance(part, dict) else {"type": "text", "text": str(part)} for part in parts]
        original = without(message, "content", *content)
    else:
        content["text"], original = text(said), without(message, "content", "text", *content)
    return NewMessage(role, {**content, "original": original}, created_at=moment(message.get("created_at")))
