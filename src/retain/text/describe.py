"""One line that says what an output is, without a model: how it ended, its errors, its shape, its first sentence.

It stands in a placeholder in a prompt, so it says what helps to decide whether to open the whole: numbers and names
before prose.
"""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any, Literal

from retain.base.tokens import cut, estimate
from retain.text.outputs import RECOGNISERS, Sample, listed, many

Media = Literal["text", "json", "binary"]

MOST = 159
SAMPLE = 32 << 10
"""Characters of the beginning, and of the end, that are looked at."""
_LEAST_REST = 40
_HALF = 60
_PLAIN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\\s]+")
_SENTENCE = re.compile(r"[.!?。！？](?=\s|$|[\u3000-\u9fff])")
_WELL = ("", "0", "ok", "success", "exit 0", "done")
_KINDS = (
    ("PNG\r\n", "PNG image"),
    ("JFIF", "JPEG image"),
    ("Exif", "JPEG image"),
    ("GIF8", "GIF image"),
    ("%PDF-", "PDF document"),
    ("PK\x03\x04", "ZIP archive"),
    ("ELF", "program for Linux (ELF)"),
    ("SQLite format 3", "SQLite database"),
    ("ustar", "tar archive"),
    ("RIFF", "RIFF media"),
    ("\x1f", "compressed data"),
)
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\a\b\t\n\v\f\r\x1b") + b"\x7f"


def describe(
    head: str,
    tail: str = "",
    *,
    source: str = "",
    status: str = "",
    size: int = 0,
    lines: int = 0,
    media: Media = "text",
) -> str:
    """A description of under 160 characters, from a content's beginning and its end ('' where the beginning is all)."""
    whole = not tail and len(head) <= 2 * SAMPLE
    sample = Sample(
        head[:SAMPLE], tail[-SAMPLE:] or head[SAMPLE:][-SAMPLE:], whole, lines or head.count("\n")
    )
    if media == "binary":
        says = _binary(head)
    elif media == "json":
        says = _json(head, whole=not tail) or _plain(sample, source)
    else:
        says = next(
            (found for recognise in RECOGNISERS if (found := recognise(sample))), ""
        ) or _plain(sample, source)
    start = "" if status.strip().lower() in _WELL else _short(_line(status))
    end = (
        many(lines, "line")
        if lines > 1 and media == "text" and "row" not in says
        else _bytes(size)
        if size
        else ""
    )
    return _joined(start, _line(says), end)


def media_of(head: bytes) -> Media:
    """What a content is, by its first bytes: JSON if they are, or begin, one JSON value; binary if they are no text."""
    sample = head[: 8 << 10]
    if b"\0" in sample:
        return "binary"
    unreadable = (
        sample.decode("utf-8", "replace")[:-1].count("\ufffd") if not sample.isascii() else 0
    )
    unreadable += len(sample) - len(sample.translate(None, _CONTROLS))
    if unreadable > 0.15 * len(sample):
        return "binary"
    return "json" if _begins_json(head) else "text"


def _begins_json(head: bytes) -> bool:
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    text = head.decode("utf-8", "ignore").rstrip()
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # What is cut off stops at its end, or inside a text that does not end; what is no JSON stops before.
        return len(head) >= 256 and (
            error.pos >= len(text) - 5 or error.msg.startswith("Unterminated string")
        )
    except (ValueError, RecursionError):
        return False
    return True


def _json(head: str, *, whole: bool) -> str:
    """The shape of a JSON value, or of as much as is there of it."""
    try:
        value = json.loads(head) if whole else _beginning(head)
    except (ValueError, RecursionError):
        return ""
    if isinstance(value, dict):
        keys = [f"{name}{_inside(inner)}" for name, inner in value.items()]
        return (
            f"JSON object with the {'keys' if len(keys) != 1 else 'key'} {listed(keys)}"
            if keys
            else "JSON object, empty"
        )
    if isinstance(value, list):
        many_ = f"array of {len(value):,}" if whole else "array"
        if value and all(isinstance(item, dict) for item in value[:20]):
            return (
                f"JSON {many_} objects with the keys {listed(value[0])}"
                if whole
                else f"JSON {many_}, objects with the keys {listed(value[0])}"
            )
        return f"JSON {many_}" if value else "JSON array, empty"
    return f"JSON {type(value).__name__}"


def _inside(value: Any) -> str:
    if isinstance(value, list):
        return f" ({len(value):,})"
    return f" ({len(value):,} keys)" if isinstance(value, dict) and len(value) > 1 else ""


def _beginning(head: str) -> Any:
    """The children of a value that is cut off, as far as they are whole."""
    decoder = json.JSONDecoder()
    text = head.lstrip()
    found: dict[str, Any] | list[Any] = {} if text.startswith("{") else []
    place = 1
    try:
        while True:
            place = _solid(text, place)
            if isinstance(found, dict):
                name, place = decoder.raw_decode(text, place)
                found[str(name)] = None
                value, place = decoder.raw_decode(text, _solid(text, _solid(text, place) + 1))
                found[str(name)] = value
            else:
                value, place = decoder.raw_decode(text, place)
                found.append(value)
            place = _solid(text, place) + 1
    except (ValueError, RecursionError):
        return found


def _solid(text: str, place: int) -> int:
    """The next place that is no space."""
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place


def _binary(head: str) -> str:
    start = head[:300]
    kind = next(
        (name for mark, name in _KINDS if mark in (start if mark == "ustar" else start[:16])), ""
    )
    return f"binary data: {kind}" if kind else "binary data"


def _plain(sample: Sample, source: str) -> str:
    """The first sentence; of a command's output the first line and the last, which often says how it went."""
    if not sample.first:
        return "nothing but blank lines" if sample.count else "nothing"
    first, last = sample.first[0].strip(), (sample.last or sample.first)[-1].strip()
    if source and first != last:
        return f"{_short(first)} … {_short(last)}"
    text = " ".join(sample.first[:3])
    end = _SENTENCE.search(text)
    return text[: end.end()] if end and end.end() >= _LEAST_REST // 2 else first


def _short(line: str) -> str:
    return line if len(line) <= _HALF else textwrap.shorten(line, _HALF, placeholder="…")


def _line(text: str) -> str:
    """Text on one line, without what could close a placeholder."""
    return _PLAIN.sub(" ", text).replace("[", "(").replace("]", ")").strip(" ;")


def _bytes(size: int) -> str:
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return many(size, "byte")


def _joined(start: str, says: str, end: str) -> str:
    """The three parts, of which the middle one gives way."""
    room = MOST - len(start) - len(end) - 4
    if len(says) > room:
        shorter = says[: room + _LEAST_REST]
        while len(shorter) > room - 1:
            shorter = cut(shorter, estimate(shorter) - 1)
        space = shorter.rfind(" ", len(shorter) - 25)
        says = shorter[:space].rstrip(" ,;:") + "…" if space > 0 else shorter + "…"
    return "; ".join(part for part in (start, says, end) if part)
