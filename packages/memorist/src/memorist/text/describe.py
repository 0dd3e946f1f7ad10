"""A one-line description of an output, written without a model.

It is part of the placeholder in a prompt and helps a model decide whether to open the content. It
says how the command ended, and describes its errors, the structure of its JSON, its first and last
line or its first sentence.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any, Literal, NamedTuple

from memorist.base.lazy_pattern import LazyPattern
from memorist.base.tokens import cut, estimate

Media = Literal["text", "json", "binary"]

MAX_CHARACTERS = 159
SAMPLE_CHARACTERS = 32 << 10  # read from the beginning, and from the end
MAX_LINE_CHARACTERS = 300
MAX_EXCERPT_CHARACTERS = 60
MAX_LISTED_KEYS = 6
MIN_SENTENCE_CHARACTERS = 20

_SUCCESS = ("", "0", "ok", "success", "exit 0", "done")
_ERROR = LazyPattern(
    r"\b\w{0,80}(?:Error|Exception|ERROR|FATAL|FAILED|PANIC)\b"
    r"|\b(?:error|fatal|panic)(?:\[\w{1,20}\])?:|^make(?:\[\d+\])?: \*\*\* "
)
_SENTENCE_END = LazyPattern(r"[.!?。！？](?=\s|$|[\u3000-\u9fff])")
_TERMINAL_CODES = LazyPattern(r"\x1b\[[0-9;?]{0,30}[a-zA-Z]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_NOT_ONE_LINE = LazyPattern("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\\s]+")
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\a\b\t\n\v\f\r\x1b") + b"\x7f"


class Sample(NamedTuple):
    """The beginning and the end of a content, and its extent."""

    head: str
    tail: str = ""
    """Empty if `head` is the whole content."""
    size: int = 0
    lines: int = 0


def describe(sample: Sample, *, source: str = "", status: str = "", media: Media = "text") -> str:
    """Return a description of fewer than 160 characters."""
    head, tail, size, lines = sample
    body = ""
    if media == "binary":
        body = "binary data"
    elif media == "json":
        body = _describe_json(head, is_complete=not tail)
    if not body:
        body = _describe_text(head, tail, is_output=bool(source))
    ending = "" if status.strip().lower() in _SUCCESS else _excerpt(_one_line(status))
    if lines > 1 and media == "text":
        extent = f"{lines:,} lines"
    else:
        extent = _format_size(size) if size else ""
    return _join(ending, _one_line(body), extent)


def media_of(head: bytes) -> Media:
    """Return the media type of a content, judged by its first bytes."""
    sample = head[: 8 << 10]
    if b"\0" in sample:
        return "binary"
    unreadable = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
    if not sample.isascii():
        # The last character may be cut off.
        unreadable += sample.decode("utf-8", "replace")[:-1].count("\ufffd")
    if unreadable > 0.15 * len(sample):
        return "binary"
    return "json" if _begins_json(head) else "text"


def _begins_json(head: bytes) -> bool:
    """Return whether bytes are an object or an array, or the beginning of one."""
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    text = head.decode("utf-8", "ignore").rstrip()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # For JSON that was cut off, parsing fails at the end; for other text, earlier.
        is_cut_off = error.pos >= len(text) - 5 or error.msg.startswith("Unterminated string")
        return len(head) >= 256 and is_cut_off
    except (ValueError, RecursionError):
        return False
    return True


def _describe_json(head: str, *, is_complete: bool) -> str:
    """Describe the structure of a JSON value; return '' if it cannot be parsed."""
    if not is_complete:
        return "JSON array" if head.lstrip().startswith("[") else "JSON object"
    try:
        value = json.loads(head)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        if not value:
            return "JSON object, empty"
        names = [f"{name}{_length(inner)}" for name, inner in value.items()]
        return f"JSON object with the {'keys' if len(names) > 1 else 'key'} {_join_names(names)}"
    if isinstance(value, list):
        if not value:
            return "JSON array, empty"
        if all(isinstance(item, dict) for item in value[:20]):
            return (
                f"JSON array of {len(value):,} objects with the keys {_join_names(list(value[0]))}"
            )
        return f"JSON array of {len(value):,}"
    return f"JSON {type(value).__name__}"


def _length(value: Any) -> str:
    if isinstance(value, list):
        return f" ({len(value):,})"
    return f" ({len(value):,} keys)" if isinstance(value, dict) and len(value) > 1 else ""


def _join_names(names: list[str]) -> str:
    names_text = ", ".join(name.strip()[:30] for name in names[:MAX_LISTED_KEYS])
    more = len(names) - MAX_LISTED_KEYS
    return f"{names_text} and {more:,} more" if more > 0 else names_text


def _describe_text(head: str, tail: str, *, is_output: bool) -> str:
    """Describe a text by its errors, its first and last line, or its first sentence."""
    is_complete = not tail and len(head) <= 2 * SAMPLE_CHARACTERS
    end = tail or head[SAMPLE_CHARACTERS:]
    lines = _clean_lines(head[:SAMPLE_CHARACTERS]) + _clean_lines(end[-SAMPLE_CHARACTERS:])
    if not lines:
        return "only blank lines" if "\n" in head else "empty"
    first = lines[0]
    last = lines[-1]
    errors = [line for line in lines if _ERROR.search(line)]
    if errors:
        count = f"{len(errors):,}{'' if is_complete else '+'}"
        body = f"{count} error {'line' if count == '1' else 'lines'}, first: {_excerpt(errors[0])}"
        return body if errors[0] == last else f"{body}; last: {_excerpt(last)}"
    if is_output and first != last:
        return f"{_excerpt(first)} … {_excerpt(last)}"
    text = " ".join(lines[:3])
    sentence = _SENTENCE_END.search(text)
    if sentence and sentence.end() >= MIN_SENTENCE_CHARACTERS:
        return text[: sentence.end()]
    return first


def _clean_lines(text: str) -> list[str]:
    """Return the lines that are not blank, without terminal codes and overwritten progress bars."""
    lines = []
    for line in text.split("\n"):
        visible = line[: 4 * MAX_LINE_CHARACTERS].rstrip("\r").rpartition("\r")[2]
        if not visible.isprintable():
            visible = _TERMINAL_CODES.sub("", visible)
        visible = visible[:MAX_LINE_CHARACTERS].strip()
        if visible:
            lines.append(visible)
    return lines


def _excerpt(line: str) -> str:
    if len(line) <= MAX_EXCERPT_CHARACTERS:
        return line
    return textwrap.shorten(line, MAX_EXCERPT_CHARACTERS, placeholder="…")


def _one_line(text: str) -> str:
    """Return text on one line, without brackets that could close a placeholder."""
    return _NOT_ONE_LINE.sub(" ", text).replace("[", "(").replace("]", ")").strip(" ;")


def _format_size(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size:,} {'byte' if size == 1 else 'bytes'}"


def _join(ending: str, body: str, extent: str) -> str:
    """Join the three parts; shorten the middle part if they are too long together."""
    room = MAX_CHARACTERS - len(ending) - len(extent) - 4
    if len(body) > room:
        shorter = body[:room]
        while len(shorter) > room - 1:
            shorter = cut(shorter, estimate(shorter) - 1)
        space = shorter.rfind(" ", len(shorter) - 25)
        body = (shorter[:space].rstrip(" ,;:") if space > 0 else shorter) + "…"
    return "; ".join(part for part in (ending, body, extent) if part)
