"""Letta's agent files (`.af`): an agent with its memory blocks, messages and archive.

A memory block becomes a core entry of the agent, which is always in its prompt, as a block is. A
passage of the archive becomes a journal entry with its own time. The messages become one session.
The agent, whole blocks and files become items at `letta/…`. Tools are code and only listed.
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
    ImportedEntry,
    ImportedItem,
    Record,
    Unplaced,
    parse_time,
)
from memorist_importers.fields import FOREIGN_VECTOR, as_text, drop_fields, split_objects

_ROLES = {
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_PASSAGE_FIELDS = ("archival_passages", "passages", "archival_memory")
_ITEM_FIELDS = ("groups", "files", "sources", "mcp_servers", "skills")
NOT_RUN = "is code, which an import never runs: register it with your agent again"


def read(source: ImportSource) -> Iterator[Record]:
    """Yield everything in the file."""
    path = Path(source.location)
    with foreign_files.open_file(path) as file:
        value = foreign_files.read_json(file, path.name)
    if not isinstance(value, dict):
        raise Invalid(field=path.name, problem="is not an agent file: it must be a JSON object")
    if isinstance(value.get("agents"), list):
        yield from _read_agents(value, path.name)
    elif isinstance(value.get("messages"), list) and isinstance(value.get("core_memory"), list):
        yield from _read_first_version(value, path.name)
    else:
        problem = "is not an agent file: it has neither `agents` nor `core_memory` and `messages`"
        raise Invalid(field=path.name, problem=problem)


IMPORTER = Importer(read, is_personal=True, beginning=r'"(agents|core_memory)"\s*:\s*\[')


def _read_agents(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    objects, unplaced = split_objects(value.get("blocks"), "block", f"{where} blocks")
    yield from unplaced
    blocks: dict[str, dict[str, Any]] = {}
    for number, block in enumerate(objects):
        location = f"{where} blocks[{number}]"
        id = as_text(block.get("id")) or location
        if blocks.setdefault(id, block) != block:
            yield Unplaced("block", location, f"has the id of another block, {id[:100]}")
    used: set[str] = set()
    for number, agent in enumerate(value["agents"]):
        location = f"{where} agents[{number}]"
        if not isinstance(agent, dict):
            raise Invalid(field=location, problem="must be a JSON object")
        name = as_text(agent.get("name")).strip() or as_text(agent.get("id")) or f"letta {number}"
        ids = agent.get("block_ids")
        for id in ids if isinstance(ids, list) else ():
            if not isinstance(id, str):
                continue
            used.add(id)
            if id in blocks:
                yield from _read_block(blocks[id], name, f"{name}/{id}")
            else:
                reason = "is a block of the agent that is missing in the file"
                yield Unplaced("block", f"{location} {id}", reason)
        yield from _read_own_blocks(agent, "memory_blocks", name, location)
        yield from _read_agent(drop_fields(agent, "memory_blocks"), name, location)
    for id in blocks.keys() - used:
        yield from _read_block(blocks[id], None, id)
    yield from _list_tools(value, where)
    for field in _ITEM_FIELDS:
        objects, unplaced = split_objects(value.get(field), field, f"{where} {field}")
        yield from unplaced
        for number, item in enumerate(objects):
            key = as_text(item.get("id")) or as_text(item.get("name")) or str(number)
            yield ImportedItem(("letta", field), key, item)
    yield from _read_archive(value, None, where)
    rest = drop_fields(value, "agents", "blocks", "tools", *_ITEM_FIELDS, *_PASSAGE_FIELDS)
    if rest:
        yield ImportedItem(("letta", "files"), where, rest)


def _read_first_version(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    """Read a file of the first version: one agent with its blocks and tools."""
    name = as_text(value.get("name")).strip() or "letta"
    yield from _read_own_blocks(value, "core_memory", name, where)
    yield from _list_tools(value, where)
    yield from _read_agent(drop_fields(value, "core_memory", "tools"), name, where)


def _read_agent(agent: Mapping[str, Any], name: str, where: str) -> Iterator[Record]:
    """Yield the messages as a session, the archive as entries, and the agent as an item."""
    objects, unplaced = split_objects(agent.get("messages"), "message", f"{where} messages")
    yield from unplaced
    messages = [_read_message(message) for message in objects]
    if messages:
        yield ImportedConversation(
            f"letta {name}",
            messages,
            name,
            drop_fields({"import": "letta", "agent": agent.get("id")}),
            agent=name,
            created_at=messages[0].created_at,
            updated_at=messages[-1].created_at,
        )
    yield from _read_archive(agent, name, where)
    yield ImportedItem(("letta", "agents"), name, drop_fields(agent, "messages", *_PASSAGE_FIELDS))


def _read_own_blocks(
    agent: Mapping[str, Any], field: str, name: str, where: str
) -> Iterator[Record]:
    blocks, unplaced = split_objects(agent.get(field), "block", f"{where} {field}")
    yield from unplaced
    for number, block in enumerate(blocks):
        yield from _read_block(block, name, f"{name}/{as_text(block.get('label')) or number}")


def _list_tools(value: Mapping[str, Any], where: str) -> Iterator[Record]:
    tools, unplaced = split_objects(value.get("tools"), "tool", f"{where} tools")
    yield from unplaced
    for tool in tools:
        yield Unplaced("tool", as_text(tool.get("name")) or as_text(tool.get("id")), NOT_RUN)


def _read_archive(value: Mapping[str, Any], agent: str | None, where: str) -> Iterator[Record]:
    for field in _PASSAGE_FIELDS:
        passages, unplaced = split_objects(value.get(field), "passage", f"{where} {field}")
        yield from unplaced
        for passage in passages:
            yield from _read_passage(passage, agent, where)


def _read_block(block: Mapping[str, Any], agent: str | None, key: str) -> Iterator[Record]:
    label = as_text(block.get("label")) or "block"
    value = as_text(block.get("value")).strip()
    if value:
        yield ImportedEntry(key, f"{label}: {value}", core=True, agent=agent)
    yield ImportedItem(("letta", "blocks"), key, block)


def _read_passage(passage: Mapping[str, Any], agent: str | None, where: str) -> Iterator[Record]:
    text_field = "text" if as_text(passage.get("text")).strip() else "content"
    text = as_text(passage.get(text_field)).strip()
    if not text:
        location = f"{where} {as_text(passage.get('id'))}".strip()
        yield Unplaced("passage", location, "has no text")
        return
    id = as_text(passage.get("id")) or text
    if "embedding" in passage:
        yield Unplaced("vector", f"{where} {id[:80]}", FOREIGN_VECTOR)
    yield ImportedEntry(id, text, agent=agent, created_at=parse_time(passage.get("created_at")))
    rest = drop_fields(passage, text_field, "embedding")
    if rest:
        yield ImportedItem(("letta", "passages"), id[:200], rest)


def _read_message(message: Mapping[str, Any]) -> NewMessage:
    field = "text" if message.get("content") is None else "content"
    value = message.get(field)
    role = _ROLES.get(as_text(message.get("role")), "system")
    content: dict[str, Any] = {}
    for name in ("tool_calls", "tool_call_id", "name"):
        if message.get(name):
            content[name] = message[name]
    parts = value if isinstance(value, list) else None
    if parts is not None and len(parts) == 1 and _is_text(parts[0]):
        original = drop_fields(message, field, *content)
        rest = drop_fields(parts[0], "text", "type")
        if rest:
            original[field] = [rest]
        content["text"] = parts[0]["text"]
    elif parts is not None and all(isinstance(part, dict) for part in parts):
        original = drop_fields(message, field, *content)
        content["parts"] = parts
    else:  # neither text nor parts: keep the value as it is
        original = drop_fields(message, field if isinstance(value, str) else "", *content)
        content["text"] = "\n".join(map(as_text, parts)) if parts else as_text(value)
    return NewMessage(
        role, {**content, "original": original}, created_at=parse_time(message.get("created_at"))
    )


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )
