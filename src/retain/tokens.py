"""How many tokens a text costs a model, estimated from its characters without any vocabulary."""

from __future__ import annotations


def estimate(text: str) -> int:
    """About how many tokens `text` is: an ASCII character counts a quarter, any other two thirds."""
    wide = 0 if text.isascii() else sum(1 for character in text if character > "\x7f")
    return (len(text) - wide + 3) // 4 + (2 * wide + 2) // 3
