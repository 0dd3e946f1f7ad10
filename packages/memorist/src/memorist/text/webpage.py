"""HTML to Markdown: headings, paragraphs, lists, tables and code, without invisible elements.

selectolax parses the page as a browser would. Images and other resources are not fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from memorist.base.errors import Invalid, install_hint
from memorist.base.lazy_pattern import LazyPattern

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_LIST_DEPTH = 8
MAX_DEPTH = 500
"""Elements nested deeper are read as if they were not nested, as in browsers. The parser's time
grows with the square of the depth."""
MAX_FORMATTING_DEPTH = 16
"""The same for formatting elements, which the parser repeats in every following paragraph."""


def _names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_INVISIBLE = _names(
    "head script style template noscript svg math iframe object canvas select datalist"
)
_BLOCKS = _names(
    "address article aside blockquote body button caption center dd details dialog div dl dt "
    "fieldset figcaption figure footer form header hr html legend li main menu nav ol p pre section "
    "summary table tbody td tfoot th thead tr ul h1 h2 h3 h4 h5 h6"
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = ("ul", "ol", "menu")
# A tag, or an element or comment in which "<" does not begin a tag.
_TAG = LazyPattern(
    r"<(?:script|style|textarea|title)\b.*?(?:</(?:script|style|textarea|title)\b|\Z)|"
    r"<!--.*?(?:-->|\Z)|"
    r"<(/?)([a-z][a-z0-9]*+)[^<>]*+>",
    re.IGNORECASE | re.DOTALL,
)
_FORMATTING = _names("a b big code em font i nobr s small strike strong tt u")
# Elements without content, and elements that the next element of the same name ends.
_NEVER_NESTED = _names(
    "area base br col embed hr img input link meta source track wbr "
    "dd dt li option optgroup p rp rt tbody td tfoot th thead tr"
)
_HIDDEN_STYLE = LazyPattern(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_LOOKS_LIKE_MARKDOWN = LazyPattern(
    r"(?m)^(?=[#`~<>|]|[-+*][ \t]|\d{1,9}[.)][ \t]|[-=_*]{3,}+[ \t]*+$)"
)
_WHITESPACE = LazyPattern(r"[ \t\r\n\f]++")
_BACKTICKS = LazyPattern(r"`{3,}+")


class WebPage(NamedTuple):
    """The title of a web page and its text as Markdown."""

    title: str
    text: str


def read(html: str) -> WebPage:
    """Convert HTML to Markdown; any text is accepted."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError:
        raise Invalid(
            field="file",
            problem=f"is HTML; to read it, {install_hint('documents')}",
        ) from None
    tree = LexborHTMLParser(_limit_depth(html))
    title = tree.css_first("title")
    writer = _MarkdownWriter()
    if tree.body is not None:
        for node, is_start in _walk(tree.body):
            if node.tag == "-text":
                writer.add_text(node.text_content or "")
            elif is_start:
                writer.start(node.tag or "", node)
            else:
                writer.end(node.tag or "")
    writer.flush()
    text = "".join(writer.output)
    return WebPage(_collapse(title.text()) if title is not None else "", text)


def _limit_depth(html: str) -> str:
    """Remove the tags of elements that are nested too deeply; keep their content."""
    depth = 0
    formatting_depth = 0

    def check(tag: re.Match[str]) -> str:
        nonlocal depth, formatting_depth
        name = (tag[2] or "").lower()
        if not name or name in _NEVER_NESTED:
            return tag[0]
        step = -1 if tag[1] else 1
        if name in _FORMATTING:
            is_too_deep = max(formatting_depth, formatting_depth + step) > MAX_FORMATTING_DEPTH
            formatting_depth = max(formatting_depth + step, 0)
        else:
            is_too_deep = max(depth, depth + step) > MAX_DEPTH
            depth = max(depth + step, 0)
        return "" if is_too_deep else tag[0]

    return _TAG.sub(check, html)


def _walk(root: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """Yield visible elements when they start and when they end, and text nodes once."""
    node: LexborNode | None = root
    depth = 0
    while node is not None:
        child = None
        if node.tag == "-text":
            yield node, True
        elif node.tag not in _INVISIBLE and not _is_hidden(node):
            yield node, True
            child = node.child
            if child is None:
                yield node, False
        if child is not None:
            node = child
            depth += 1
            continue
        while depth and node is not None and node.next is None:
            node = node.parent
            depth -= 1
            if node is not None:
                yield node, False
        node = node.next if depth and node is not None else None


def _is_hidden(node: LexborNode) -> bool:
    if not (node.tag or "-").isalnum():  # a comment, for example
        return True
    attributes = node.attributes
    return "hidden" in attributes or bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))


class _MarkdownWriter:
    """Write Markdown blocks as their elements end."""

    def __init__(self) -> None:
        self.output: list[str] = []
        self._words: list[str] = []  # of the current block
        self._heading = 0
        self._lists: list[int] = []  # number of the next item of each open list; 0 for bullets
        self._marker = ""
        self._is_tight = False  # the next list item follows without a blank line
        self._is_code = False
        self._rows: list[list[list[str]]] | None = None  # the texts of each cell of a table

    def start(self, tag: str, node: LexborNode) -> None:
        """Start an element."""
        if tag == "br":
            self._words.append("\n")
        elif tag == "img":
            self._words.append(f" {node.attributes.get('alt') or ''} ")
        if tag not in _BLOCKS:
            return
        if self._rows is not None:
            if tag not in _HEADINGS and tag not in ("table", "ul", "ol", "pre"):
                self._start_in_table(tag)
                return
            self._end_table()  # the table is only layout
        self.flush()
        if tag in _HEADINGS:
            self._heading = _HEADINGS[tag]
        elif tag == "table":
            self._rows = []
        elif tag == "pre":
            self._is_code = True
        elif tag in _LISTS:
            self._is_tight = bool(self._lists)
            self._lists.append(int(tag == "ol"))
        elif tag == "li" and self._lists:
            number = self._lists[-1]
            self._marker = f"{number}. " if number else "- "
            self._lists[-1] += bool(number)

    def end(self, tag: str) -> None:
        """End an element."""
        if tag not in _BLOCKS or (self._rows is not None and tag != "table"):
            return
        if tag == "table":
            self._end_table()
        self.flush()
        if tag == "pre":
            self._is_code = False
        elif tag in _LISTS and self._lists:
            self._lists.pop()
        if tag == "li" or tag in _LISTS:
            self._marker = ""

    def add_text(self, text: str) -> None:
        """Add the text between two tags."""
        self._words.append(text if self._is_code else _WHITESPACE.sub(" ", text))

    def flush(self) -> None:
        """Write the current block."""
        text = "".join(self._words)
        self._words = []
        level = self._heading
        self._heading = 0
        self._is_tight = self._is_tight and bool(self._lists)
        if self._is_code:
            self._write_code(text)
            return
        text = "\n".join(filter(None, (_collapse(line) for line in text.split("\n"))))
        if not text:
            return
        if level:
            self._write(f"{'#' * level} {_collapse(text)}")
        elif self._lists:
            self._write_item(_escape(text))
        else:
            self._write(_escape(text))

    def _write(self, block: str, separator: str = "\n\n") -> None:
        self.output += [separator if self.output else "", block]

    def _write_code(self, text: str) -> None:
        if not text.strip():
            return
        fence = "`" * max([3, *(len(ticks) + 1 for ticks in _BACKTICKS.findall(text))])
        code = text.strip("\n")
        self._write(f"{fence}\n{code}\n{fence}")

    def _write_item(self, text: str) -> None:
        indent = "   " * (min(len(self._lists), MAX_LIST_DEPTH) - 1)
        continued = text.replace("\n", f"\n{indent}   ")
        item = f"{indent}{self._marker or '   '}{continued}"
        self._marker = ""
        self._write(item, "\n" if self._is_tight else "\n\n")
        self._is_tight = True

    def _start_in_table(self, tag: str) -> None:
        assert self._rows is not None
        self._end_cell()
        if tag == "tr" or (tag in ("td", "th") and not self._rows):
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append([])

    def _end_cell(self) -> None:
        """Add the current words to the current cell; words before the first cell are a caption."""
        text = _collapse("".join(self._words))
        self._words = []
        if not text:
            return
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(text)
        else:
            self._write(_escape(text))

    def _end_table(self) -> None:
        """Write the table; a table with a single column becomes paragraphs."""
        if self._rows is None:
            return
        self._end_cell()
        rows = [[" ".join(cell) for cell in row] for row in self._rows if any(row)]
        self._rows = None
        columns = max(map(len, rows), default=0)
        if columns < 2:
            for row in rows:
                self._write(_escape(row[0]))
            return
        # Short rows are not padded: one long row would multiply the size of the page.
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        lines.insert(1, "|" + "---|" * columns)
        self._write("\n".join(lines))


def _escape(text: str) -> str:
    """Escape text that Markdown would read as a heading, a list or code."""
    return _LOOKS_LIKE_MARKDOWN.sub(r"\\", text)


def _collapse(text: str) -> str:
    return " ".join(text.split())
