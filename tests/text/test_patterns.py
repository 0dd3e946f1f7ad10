"""Adversarial texts: our patterns read untrusted text in linear time."""

from __future__ import annotations

import itertools
import re
from types import ModuleType

import pytest

from memorist.base.lazy_pattern import LazyPattern
from memorist.search import chunk
from memorist.text import file_text, markdown, webpage
from memorist.text.file_text import read_file, read_text

SIZE = 60_000
"""Characters: enough that a quadratic pattern takes minutes or hours."""
UNITS = (
    ".", ".)", "。", "_", "a_", "`", "*", "|", "-", "=", "#", " ", "\n", "\r\n", "a\r\n", " \n", "a\n", "---\n", "---\r\n",
    "--- x\n", "title: a  ", "[", "[a](", "![a](b ", "<", "<!--", "<!---->", "<!-- -->\n", "<a ", '<a b="', "<a '\"",
    "<meta ", "<meta charset", "</", "&#1", "display:", "a='", "1. ", "- ", ",;", "ab",
)  # fmt: skip
MATCHED = (markdown._FRONT_MATTER, markdown._TABLE, markdown._LIST_ITEM, file_text._HTML_START)
"""Patterns that are only tried at one position."""


def patterns(module: ModuleType) -> list[re.Pattern[str] | re.Pattern[bytes]]:
    items = [
        item.compiled if isinstance(item, LazyPattern) else item for item in vars(module).values()
    ]
    return [item for item in items if isinstance(item, re.Pattern)]


@pytest.mark.parametrize(
    "module", [chunk, file_text, markdown, webpage], ids=lambda module: module.__name__
)
def test_every_pattern_is_linear(module: ModuleType) -> None:
    result = patterns(module)
    assert result
    for pattern, before, unit in itertools.product(result, ("", "a"), UNITS):
        text = before + unit * (SIZE // len(unit)) + "a"
        some = text.encode() if isinstance(pattern.pattern, bytes) else text
        pattern.match(some)  # type: ignore[arg-type]
        if pattern not in MATCHED:
            for _ in pattern.finditer(some):  # type: ignore[arg-type]
                pass


@pytest.mark.parametrize("unit", UNITS)
def test_every_text_is_read_in_linear_time(unit: str) -> None:
    for before in ("---\r\n", "# a"):
        text = before + unit * (SIZE // 4 // len(unit)) + "a"
        for media in ("text", "markdown"):
            chunk.split(text, media)
        read_text(text, None, 1 << 20)
        read_text(text, "html", 1 << 20)


def test_character_sets_are_limited() -> None:
    """The charset of a page is looked up among those of the web: Python has others, some of them
    slow.
    """
    for name in (
        "punycode",
        "idna",
        "utf-7",
        "unicode_escape",
        "raw_unicode_escape",
        "zip",
        "rot13",
    ):
        page = f'<html><meta charset="{name}"><p>'.encode() + b"a-" * (SIZE // 2)
        assert read_file(page, "a.html", 1 << 20).text == "a-" * (SIZE // 2)
