"""One line that says what an output is, without a model: how it ended, its errors, its shape, its first sentence."""

from __future__ import annotations

from typing import Literal

Media = Literal["text", "json", "binary"]


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
    first = next((line.strip() for line in head.splitlines() if line.strip()), "nothing")
    return first[:150].replace("[", "(").replace("]", ")")


def media_of(head: bytes) -> Media:
    """What a content is, by its first bytes."""
    return "binary" if b"\0" in head else "json" if head.lstrip()[:1] in (b"{", b"[") else "text"
