"""Placeholders: in a prompt, `[MemoryRef: key - description]` replaces content stored elsewhere.

This module writes and finds placeholders. These replace content that is too large:

| What | Where |
|---|---|
| the result of a command or tool, on request | `Refs.capture`, and `capture.py` for functions |
| a tool output of a turn that is saved | `context/save_turn.py` |
| a long message or tool result in a prompt | `context/window.py` |

A key consists of letters, digits, hyphens, underscores and dots. Text that imitates a placeholder
is neutralized.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Container, Mapping

from memorist.base import tokens
from memorist.base.lazy_pattern import LazyPattern

MARK = "[MemoryRef: "
MAX_DESCRIPTION = 200
MAX_KEY_CHARACTERS = 255
KEY_PROBLEM = (
    f"must consist of at most {MAX_KEY_CHARACTERS} letters, digits, '-', '_' and '.', "
    "and begin with a letter or digit"
)
MESSAGE_BEGINNING = 80  # characters
_PLACEHOLDER = LazyPattern(
    r"\[MemoryRef: (?P<key>[A-Za-z0-9][A-Za-z0-9._-]{0,254})"
    r"(?: - (?P<description>[^\[\]\n]*))?\]"
)
_UNSEEN = r"[\s_\u00ad\u034f\u115f\u1160\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff-]*"
"""Invisible characters and separators between two letters, which readers and models overlook."""
_WIDE = 0xFEE0  # offset from a letter to its full-width form
_LETTERS = "".join(
    f"[{letter}{chr(ord(letter) + _WIDE)}{chr(ord(letter.upper()) + _WIDE)}]{_UNSEEN}"
    for letter in "memoryref"
)
_LIKE = LazyPattern(rf"[\[\uff3b\u3010](?={_UNSEEN}{_LETTERS}[:\uff1a])", re.IGNORECASE)
_FAKE = "[quoted "
_KEY = LazyPattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_MESSAGE_KEY = LazyPattern(r"message-([1-9][0-9]{0,15})-(.+)")
_WORD = LazyPattern(r"[a-z0-9]+")
_FOLDERS = LazyPattern(r"(?<!\S)\S*/(?=[^\s/])")
_LOOK = 200
_MAX_KEY_WORDS = 4
_MAX_SLUG_CHARACTERS = 40
_BREAKS = LazyPattern(r"[\s\[\]]+")


def new_key(words: str) -> str:
    """Return a new readable key that cannot be guessed, from words or the last part of a path."""
    name = _FOLDERS.sub("", words[:_LOOK]).lower()
    joined = "-".join(_WORD.findall(name)[:_MAX_KEY_WORDS])
    start = joined[:_MAX_SLUG_CHARACTERS].strip("-")
    return f"{start or 'ref'}-{secrets.token_hex(4)}"


def is_key(text: str) -> bool:
    """Return whether a text has the form of a key."""
    return _KEY.fullmatch(text) is not None


def message_key(session: str, seq: int) -> str:
    """Return the key that opens a stored message; "" if the session id is not valid in a key.

    The key refers to the message itself, so the text is not stored twice, and removing the message
    also removes the text.
    """
    key = f"message-{seq}-{session}"
    return key if is_key(key) else ""


def message_of_key(key: str) -> tuple[str, int] | None:
    """Return the session and the number of the message that a key names; None for other keys."""
    match = _MESSAGE_KEY.fullmatch(key)
    return (match[2], int(match[1])) if match and is_key(key) else None


def render_message(session: str, seq: int, size: int, text: str = "") -> str:
    """Return the placeholder of a message of `size` tokens; "" if it has no key."""
    key = message_key(session, seq)
    return render(key, message_description(seq, size, text)) if key else ""


def message_description(seq: int, size: int, text: str = "") -> str:
    """Return the description of a long message: its number, its size and its beginning."""
    beginning = one_line(text[:MESSAGE_BEGINNING])
    return f"message {seq}, {size:,} tokens" + (f": {beginning}" if beginning else "")


def render(key: str, description: str) -> str:
    """Return the placeholder of a key; the description becomes one line without brackets."""
    line = one_line(description) if description else ""
    return f"{MARK}{key} - {line}]" if line else f"{MARK}{key}]"


def one_line(description: str) -> str:
    """Return a description as one line without brackets, shortened if it is long."""
    if description.isprintable() and not (
        "[" in description or "]" in description or "  " in description
    ):
        line = description.strip()  # the common case; this runs for every reference of a prompt
    else:
        line = _BREAKS.sub(" ", description).strip()
    if len(line) <= MAX_DESCRIPTION:
        return line
    return line[: tokens.boundary(line, MAX_DESCRIPTION - 1) or MAX_DESCRIPTION - 1].rstrip() + "…"


def find_keys(text: str) -> list[str]:
    """Return the distinct keys of the placeholders in a text, in order."""
    return list(dict.fromkeys(match["key"] for match in _PLACEHOLDER.finditer(text)))


def neutralize(text: str, known: Container[str] = ()) -> str:
    """Return text in which only the placeholders in `known` look like placeholders."""
    if not ("[" in text or "\uff3b" in text or "\u3010" in text) or not _LIKE.search(text):
        return text
    known_starts = {
        match.start() for match in _PLACEHOLDER.finditer(text) if match.group() in known
    }
    return _LIKE.sub(lambda match: "[" if match.start() in known_starts else _FAKE, text)


def verify(text: str, known: Mapping[str, str]) -> str:
    """Return text with the placeholders of known keys restored and all others neutralized."""
    if not ("[" in text or "\uff3b" in text or "\u3010" in text) or not _LIKE.search(text):
        return text
    parts = []
    position = 0
    for match in _PLACEHOLDER.finditer(text):
        known_placeholder = known.get(match["key"])
        if known_placeholder is not None:
            parts += [neutralize(text[position : match.start()]), known_placeholder]
            position = match.end()
    return "".join([*parts, neutralize(text[position:])])
