"""Read the transcripts of coding agents: the texts of the user and of the agent, with their ids.

Tool calls and their outputs, thoughts, side conversations and text that the host adds by itself are
left out. Each line stands alone: a broken line, or half a line at the end, is skipped.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MAX_LINE_BYTES = 16_000_000
MAX_FILE_BYTES = 64_000_000  # of a transcript that is one JSON document
MAX_TEXT_CHARACTERS = 100_000
_ADDED_TAG = re.compile(
    r"<(system-reminder|hook_context|session_context|environment_context|user_instructions"
    r"|local-command-stdout|local-command-stderr|command-name|command-message|command-args"
    r"|turn_aborted|ide_selection|ide_opened_file|skill|INSTRUCTIONS)\b[^<>]*>"
)
"""The start of a block that a host adds to the words of the user."""
_ADDED_START = ("# AGENTS.md instructions", "Caveat: The messages below were generated")


@dataclass(frozen=True)
class TranscriptMessage:
    """One message of a transcript."""

    key: str  # unique in the session, and the same each time the transcript is read
    role: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True)
class Line:
    """One line of a transcript, with the place after it."""

    value: Mapping[str, Any]
    end: int


def read_lines(file: Path, start: int) -> Iterator[Line]:
    """Yield the objects of a JSON Lines file from a place on, as far as they are complete.

    A place that is not in the file, because the file was written again, means its beginning.
    """
    size = file.stat().st_size
    if start > size:
        start = 0
    with file.open("rb") as opened:
        opened.seek(start)
        end = start
        while line := opened.readline(MAX_LINE_BYTES):
            is_complete = line.endswith(b"\n")
            position = opened.tell()
            if is_complete:
                end = position
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                yield Line(value, end)


def read_document(file: Path) -> list[Line]:
    """Return the messages of a transcript that is one JSON document, as older hosts write it."""
    if file.stat().st_size > MAX_FILE_BYTES:
        return []
    try:
        document = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return []
    messages = document.get("messages", ()) if isinstance(document, dict) else document
    return numbered_lines(messages) if isinstance(messages, list) else []


def numbered_lines(messages: Sequence[Any]) -> list[Line]:
    """Return the messages of a list as lines; the place after one is its number."""
    return [
        Line(message if isinstance(message, dict) else {}, number)
        for number, message in enumerate(messages, 1)
    ]


def messages_of(host: str, line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    """Yield the messages in one line of a host's transcript."""
    for message in FORMATS[host](line):
        text = without_added_text(message.text) if message.role == "user" else message.text
        text = text.strip()[:MAX_TEXT_CHARACTERS]
        if text and not text.startswith(_ADDED_START):
            yield TranscriptMessage(message.key, message.role, text, message.at)


def without_added_text(text: str) -> str:
    """Return the words of the user, without the blocks that the host or a hook added.

    The time grows with the length of the text, whatever is in it.
    """
    parts = []
    position = 0
    without_end = set()  # tags that are not closed in the rest of the text
    for match in _ADDED_TAG.finditer(text):
        tag = match[1]
        if match.start() < position or tag in without_end:
            continue
        closing = f"</{tag}>"
        end = text.find(closing, match.end())
        if end < 0:
            without_end.add(tag)
            continue
        parts.append(text[position : match.start()])
        position = end + len(closing)
    return "".join([*parts, text[position:]])


def _claude_code(line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    role = line.get("type")
    message = line.get("message")
    if role not in ("user", "assistant") or not isinstance(message, dict):
        return
    if any(line.get(flag) for flag in ("isSidechain", "isMeta", "isCompactSummary")):
        return
    if line.get("isApiErrorMessage") or message.get("model") == "<synthetic>":
        return
    text = _text(message.get("content"))
    yield TranscriptMessage(_key(line.get("uuid"), line), role, text, _time(line.get("timestamp")))


def _codex(line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    payload = line.get("payload")
    if line.get("type") != "response_item" or not isinstance(payload, dict):
        return
    role = payload.get("role")
    if payload.get("type") == "message" and role in ("user", "assistant"):
        # The service chooses the ids of answers, so the place in the transcript is added.
        place = line.get("ordinal", line.get("timestamp"))
        key = _key(f"{payload.get('id') or ''}:{place}" if place is not None else None, line)
        text = _text(payload.get("content"))
        yield TranscriptMessage(key, role, text, _time(line.get("timestamp")))


def _gemini(line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    added = line.get("$set")
    if isinstance(added, dict) and isinstance(added.get("messages"), list):
        for message in added["messages"]:
            if isinstance(message, dict):
                yield from _gemini(message)
        return
    role = {"user": "user", "gemini": "assistant"}.get(str(line.get("type")))
    if role:
        text = _text(line.get("content"))
        key = _key(line.get("id"), line)
        yield TranscriptMessage(key, role, text, _time(line.get("timestamp")))


def _vscode(line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    kind = str(line.get("type"))
    data = line.get("data")
    if kind in ("user.message", "assistant.message") and isinstance(data, dict):
        role = kind.partition(".")[0]
        text = _text(data.get("content"))
        key = _key(line.get("id"), line)
        yield TranscriptMessage(key, role, text, _time(line.get("timestamp")))


def _plain(line: Mapping[str, Any]) -> Iterator[TranscriptMessage]:
    """Read a message as OpenCode's plugin sends it."""
    if line.get("role") in ("user", "assistant"):
        key = _key(line.get("id"), line)
        text = _text(line.get("text"))
        yield TranscriptMessage(key, line["role"], text, _time(line.get("time")))


FORMATS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[TranscriptMessage]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "cursor": _plain,
    "vscode": _vscode,
    "gemini": _gemini,
    "opencode": _plain,
}


def _text(content: Any) -> str:
    """Return the text of a message: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    parts = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, dict) and part.get("type", "text") in _TEXT_TYPES:
            parts.append(str(part.get("text") or ""))
    return "\n".join(part for part in parts if part)


_TEXT_TYPES = ("text", "input_text", "output_text")


def _key(id: Any, line: Mapping[str, Any]) -> str:
    """Return the key of a message: its id, or a hash of the line if the id is odd."""
    if isinstance(id, str) and 0 < len(id) <= 100 and id.isprintable() and not id.isspace():
        return id
    return hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest()[:32]


def _time(value: Any) -> datetime | None:
    """Return a time that is written as ISO text or in milliseconds."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
        elif isinstance(value, int | float):
            moment = datetime.fromtimestamp(value / 1000, UTC)
        else:
            return None
    except (ValueError, OverflowError, OSError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(moment, datetime.now(UTC))
