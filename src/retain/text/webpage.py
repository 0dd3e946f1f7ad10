"""A web page as Markdown: its headings, paragraphs, lists, tables and code, without what a reader does not see.

Any text is a page: what is no tag is text. Tags are found by one pattern that never looks at a character twice, because the
standard library's parser takes hours for a megabyte of `<a <a <a`. Nothing that a page names is ever fetched.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

_UNSEEN = {
    "script",
    "style",
    "template",
    "noscript",
    "svg",
    "math",
    "iframe",
    "object",
    "canvas",
    "select",
    "datalist",
}
_VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "param",
    "source",
    "track",
    "wbr",
}
_OPEN_ENDED = {"li", "td", "th", "tr", "dt", "dd"}
"""Whose end may be left out: one that is hidden ends where the next begins."""
_HOLDERS = {"ul", "ol", "dl", "table"}
_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "button", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "head", "header", "hr", "html", "legend", "li", "main",
    "menu", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "title", "tr",
    "ul",
}  # fmt: skip
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_TAG = re.compile(
    r"""<(?:(?P<comment>!--)|(?P<end>/?)(?P<name>[a-zA-Z][a-zA-Z0-9:-]*+)"""
    r"""(?P<told>(?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>|[!?][^<>]*+>|/[^<>a-zA-Z][^<>]*+>)"""
)
_TOLD = re.compile(r"""([^\s=/"'<>]++)(?:\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'<>]++))?""")
_TOLD_OF_INTEREST = re.compile(r"\b(?:hidden|style|alt)\b", re.IGNORECASE)
_HIDDEN = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_LIKE_MARKUP = re.compile(r"(?m)^(?=[#`~<>|]|[-+*][ \t]|\d{1,9}[.)][ \t]|[-=_*]{3,}+[ \t]*+$)")
_BLANKS = re.compile(r"[ \t\r\n\f]++")
_TICKS = re.compile(r"`{3,}+")
_CLOSING = re.compile(r"</([a-zA-Z][a-zA-Z0-9:-]*+)")
_NO_CHARACTER = re.compile(r"&#[0-9]{8,}+;?")
_DEEPEST = 8


class Page(NamedTuple):
    """A web page: its title, and its text as Markdown."""

    title: str
    text: str


def read(html: str) -> Page:
    """What a person reads on a web page; any text is one."""
    reader = _Reader()
    ends = {found[1].lower(): found.start() for found in _CLOSING.finditer(html)}
    for name, told, text, at in _tokens(html):
        if not name:
            reader.data(_unescaped(text))
        elif name.startswith("/"):
            reader.close(name[1:])
        else:
            reader.open(name, told, closes=ends.get(name, -1) >= at)
    reader.end()
    return Page(_line("".join(reader.title)), "".join(reader.written))


def _tokens(html: str) -> Iterator[tuple[str, dict[str, str], str, int]]:
    """Tags, closing ones with a slash before their name, and the text between them, which has no name; and where each ends.

    A tag that closes itself is two.
    """
    at = 0
    while found := _TAG.search(html, at):
        if found.start() > at:
            yield "", {}, html[at : found.start()], found.start()
        at = found.end()
        if found["comment"]:
            end = html.find("-->", at - 2)  # `<!-->` is a whole one
            at = len(html) if end < 0 else end + 3
        elif name := (found["name"] or "").lower():
            told = found["told"]
            itself = told.endswith("/") and not found["end"]
            yield (
                found["end"] + name,
                _told(told) if _TOLD_OF_INTEREST.search(told) else {},
                "",
                0 if itself else at,
            )
            if itself:
                yield f"/{name}", {}, "", at
            elif name in ("script", "style") and not found["end"]:
                closing = re.compile(f"</{name}", re.IGNORECASE).search(html, at)
                at = closing.start() if closing else len(html)
    if at < len(html):
        yield "", {}, html[at:], len(html)


def _told(written: str) -> dict[str, str]:
    return {name.lower(): _unescaped(value.strip("\"'")) for name, value in _TOLD.findall(written)}


def _unescaped(text: str) -> str:
    """Text with its characters for what names them; a number that no character has cannot even be read if it is long."""
    return unescape(_NO_CHARACTER.sub("\ufffd", text) if "&#" in text else text)


class _Reader:
    """Writes blocks as they end; `words` is the one that is being read."""

    def __init__(self) -> None:
        self.title: list[str] = []
        self.written: list[str] = []
        self.words: list[str] = []
        self.heading = 0
        self.lists: list[
            int
        ] = []  # of each list that is open the number of its next item, 0 where it has none
        self.item = ""
        self.joins = False
        self.rows: list[list[list[str]]] | None = None
        self.pre = 0
        self.in_title = False
        self.around: Counter[str] = Counter()  # what is open
        self.skipped, self.closes = "", True
        self.inside: Counter[str] = Counter()  # what is open in what is skipped, itself included

    def open(self, tag: str, told: dict[str, str], *, closes: bool = True) -> None:
        """A tag opens, and is closed later or never."""
        if self.skipped and not self._resumes(tag):
            self.inside[tag] += 1
            return
        if tag in _UNSEEN or "hidden" in told or _HIDDEN.search(told.get("style", "")):
            if tag not in _VOID:
                self.skipped, self.closes, self.inside = tag, closes, Counter([tag])
            return
        self.around[tag] += 1
        if tag == "br":
            self.words.append("\n")
        elif tag == "img" and told.get("alt"):
            self.words.append(f" {told['alt']} ")
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._begin(tag)

    def close(self, tag: str) -> None:
        """A tag closes."""
        if self.inside[tag]:
            self.inside[tag] -= 1
            if tag == self.skipped and not self.inside[tag]:
                self.skipped, self.inside = "", Counter()
            return
        if self.skipped and not (self.around[tag] and tag in _BLOCKS):
            return  # nobody opened it
        self.skipped, self.inside = "", Counter()  # what holds it ends, and it with that
        self.around[tag] -= self.around[tag] > 0
        if tag in _HEADINGS or tag in _BLOCKS:
            self._finish(tag)

    def data(self, data: str) -> None:
        """Text between tags."""
        if self.skipped:
            return
        if self.in_title:
            self.title.append(data)
        elif self.pre:
            self.words.append(data)
        else:
            self.words.append(_BLANKS.sub(" ", data))

    def end(self) -> None:
        """Whatever was left open ends with the page."""
        self._flush()
        self._close_table()

    def _resumes(self, tag: str) -> bool:
        """Whether something hidden that nobody closes ends where a tag opens: before a block, an item before the next."""
        if self.skipped in _OPEN_ENDED:
            over = tag == self.skipped and not any(self.inside[holder] for holder in _HOLDERS)
        else:
            over = (self.skipped == "p" or not self.closes) and (tag in _BLOCKS or tag in _HEADINGS)
        if over:
            self.skipped, self.inside = "", Counter()
        return over

    def _begin(self, tag: str) -> None:
        self.in_title = tag == "title" and not self.title
        if tag == "title":
            return
        if self.rows is not None and (tag in _HEADINGS or tag in ("table", "ul", "ol", "pre")):
            self._close_table()  # it only lays out the page
        if self.rows is not None:
            self._cell(tag)
            return
        self._flush()
        if tag in _HEADINGS:
            self.heading = _HEADINGS[tag]
        elif tag == "table":
            self.rows = []
        elif tag == "pre":
            self.pre += 1
        elif tag in ("ul", "ol", "menu"):
            self.joins = bool(self.lists)
            self.lists = [*self.lists, int(tag == "ol")][:_DEEPEST]
        elif tag == "li":
            self.item = f"{self.lists[-1]}. " if self.lists and self.lists[-1] else "- "
            if self.lists and self.lists[-1]:
                self.lists[-1] += 1

    def _finish(self, tag: str) -> None:
        if tag == "title":
            self.in_title = False
            return
        if self.rows is not None and tag != "table":
            return
        self._flush()
        if tag == "table":
            self._close_table()
        elif tag == "pre":
            self.pre = max(0, self.pre - 1)
        elif tag in ("ul", "ol", "menu") and self.lists:
            self.lists.pop()
        if tag in ("li", "ul", "ol", "menu"):
            self.item = ""

    def _flush(self) -> None:
        """Write the block that was being read."""
        words, self.words = "".join(self.words), []
        level, self.heading = self.heading, 0
        self.joins = self.joins and bool(self.lists)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1].append(words)
            return
        if self.pre and words.strip():
            fence = "`" * max([3, *(len(found) + 1 for found in _TICKS.findall(words))])
            self._write(f"{fence}\n{words.strip(chr(10))}\n{fence}")
            return
        text = "\n".join(filter(None, (_line(line) for line in words.split("\n"))))
        if not text:
            return
        if level:
            self._write(f"{'#' * level} {_line(text)}")
            return
        text = _LIKE_MARKUP.sub(r"\\", text)
        if not self.lists:
            self._write(text)
            return
        indent = "   " * (len(self.lists) - 1)
        lines = (indent + (self.item or "   ") + text.replace("\n", f"\n{indent}   ")).rstrip()
        self.item = ""
        self._write(lines, "\n" if self.joins else "\n\n")
        self.joins = True

    def _write(self, block: str, behind: str = "\n\n") -> None:
        self.written += [behind if self.written else "", block]

    def _cell(self, tag: str) -> None:
        """A tag inside a table: it begins a row, a cell, or nothing but a blank."""
        assert self.rows is not None
        words = "".join(self.words)
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += [words, " "]
        elif text := _line(words):
            self._write(_LIKE_MARKUP.sub(r"\\", text))  # a caption
        self.words = []
        if tag == "tr" or (tag in ("td", "th") and not self.rows):
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append([])

    def _close_table(self) -> None:
        """Write a table; one with a single column is but paragraphs."""
        rows, self.rows = self.rows or [], None
        told = [[_line("".join(cell)) for cell in row] for row in rows]
        told = [row for row in told if any(row)]
        columns = max(map(len, told), default=0)
        if columns < 2:
            for row in told:
                self._write(_LIKE_MARKUP.sub(r"\\", row[0]))
            return
        lines = [
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in told
        ]  # rows may be shorter than the head, and filling them up could take any amount of memory
        self._write("\n".join([lines[0], "|" + "---|" * columns, *lines[1:]]))


def _line(text: str) -> str:
    return " ".join(text.split())
