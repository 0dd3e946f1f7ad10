"""Documents as text: detect the format of a file, and read its text."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from memorist.base import canonical
from memorist.base.errors import Invalid, TooLarge
from memorist.text import markdown, pdf, webpage

Media = Literal["text", "markdown", "html", "pdf"]
MEDIA: tuple[Media, ...] = ("text", "markdown", "html", "pdf")

SUFFIXES: dict[str, Media] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".txt": "text",
    ".text": "text",
    ".rst": "text",
    ".adoc": "text",
    ".org": "text",
    ".tex": "text",
    ".log": "text",
    ".csv": "text",
    ".tsv": "text",
    ".json": "text",
    ".jsonl": "text",
    ".yaml": "text",
    ".yml": "text",
}
"""Files with other suffixes are recognised by their content."""

# A document is written in one transaction, which other writers wait for.
MAX_TEXT_BYTES = 16 << 20
PAGE_SEPARATOR = "\n\n"

_SNIFFED_BYTES = 1 << 12
_HTML_START = re.compile(
    r"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!(?=--)(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_MARKDOWN_HEADING = re.compile(
    r"^(?:#{1,6}[ \t]++\S|[^\s#>|-][^\n]*+\n(?:={3,}+|-{3,}+)[ \t]*+\r?$)", re.MULTILINE
)
_CHARSET = re.compile(
    rb"""<meta[^<>]{0,200}?charset\s*+=\s*+["']?\s*+([\w.:-]{2,40})""", re.IGNORECASE
)
# The encodings of web pages. Python has others, some of which take hours for a megabyte.
_CHARSETS = {
    "utf-8",
    "koi8-r",
    "koi8-u",
    "mac-roman",
    "mac-cyrillic",
    "cp866",
    "cp874",
    "tis-620",
    "cp932",
    "cp949",
    "gbk",
    "gb2312",
    "gb18030",
    "big5",
    "big5hkscs",
    "shift_jis",
    "euc_jp",
    "euc_kr",
    "iso2022_jp",
    *(f"iso8859-{number}" for number in range(2, 17)),
    *(f"cp{number}" for number in range(1250, 1259)),
}
_NOT_WESTERN = re.compile(rb"[\x80-\xff]{6}")
_CONTROL_BYTES = bytes(byte for byte in range(32) if byte not in b"\a\b\t\n\v\f\r\x1b") + b"\x7f"
_FRONT_TITLE = re.compile(r"^title:(.*)$", re.MULTILINE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HYPHENATED = re.compile(r"(?<=[^\W\d_])(?:-|\u00ad)\n(?=[^\W\d_])")
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
)


@dataclass(frozen=True)
class Read:
    """The text of a document."""

    media: Media
    text: str  # Markdown if the document has a structure
    title: str = ""
    pages: tuple[int, ...] = ()  # start of each page of a PDF
    original: str = ""  # the original document, if it was text


def read_file(data: bytes, name: str, limit: int) -> Read:
    """Read a file of any supported format; raise Invalid with the reason if that fails."""
    media = by_name(name)
    is_binary = _is_binary(data)
    start = data[:1024]
    # A PDF may begin with a few other bytes; a text file may mention the marker.
    if start.lstrip().startswith(b"%PDF-"):
        return _read_pdf(data, limit)
    if b"%PDF-" in start and (media == "pdf" or is_binary):
        return _read_pdf(data, limit)
    if media == "pdf" or is_binary:
        raise Invalid(field="file", problem="is not text, Markdown, HTML or PDF")
    is_html = media == "html" or _looks_like_html(data)
    if media is None and PurePath(name).suffix:
        media = "html" if is_html else "text"  # `#` in a program is a comment, not a heading
    return read_text(_decode(data, is_html=is_html), media, limit)


def by_name(name: str) -> Media | None:
    """Return the format of a file by its name, or None."""
    return SUFFIXES.get(PurePath(name).suffix.lower())


def read_text(text: str, media: Media | None, limit: int) -> Read:
    """Read a text; without `media`, its format is detected."""
    if media == "pdf":
        raise Invalid(field="media", problem="cannot be pdf for a text; add the PDF as a file")
    text = canonical.text(text, "text", limit)
    if media is None:
        if _HTML_START.match(text[:_SNIFFED_BYTES]):
            media = "html"
        else:
            media = "markdown" if _MARKDOWN_HEADING.search(text) else "text"
    if media == "html":
        page = webpage.read(text)
        title = page.title or _first_heading(page.text)
        return Read("html", _check_size(page.text), title, original=text)
    title = _first_heading(text) if media == "markdown" else ""
    return Read(media, _check_size(text), title, original=text)


def _read_pdf(data: bytes, limit: int) -> Read:
    document = pdf.read(data, min(limit, MAX_TEXT_BYTES))
    pages = []
    starts = []
    position = 0
    for page in document.pages:
        text = _join_words(canonical.text(page, "file", MAX_TEXT_BYTES))
        pages.append(text)
        starts.append(position)
        position += len(text) + len(PAGE_SEPARATOR)
    text = _check_size(PAGE_SEPARATOR.join(pages))
    return Read("pdf", text, document.title, tuple(starts))


def _join_words(page: str) -> str:
    """Return a typeset page without hyphenation and ligatures."""

    def join(hyphen: re.Match[str]) -> str:
        return "" if page[hyphen.end()].islower() else hyphen.group()

    return _HYPHENATED.sub(join, page).translate(_LIGATURES)


def _check_size(text: str) -> str:
    try:
        return canonical.within(text, "text", MAX_TEXT_BYTES)
    except TooLarge as error:
        hint = "Split it into several documents."
        raise TooLarge(**error.details, hint=hint) from None


def _looks_like_html(data: bytes) -> bool:
    return _HTML_START.match(data[:_SNIFFED_BYTES].decode("latin-1")) is not None


def _is_binary(data: bytes) -> bool:
    """Return whether bytes are not text in any supported encoding."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    sample = data[: 8 << 10]
    controls = len(sample) - len(sample.translate(None, _CONTROL_BYTES))
    return b"\0" in sample or controls > 0.05 * len(sample)


def _decode(data: bytes, *, is_html: bool) -> str:
    """Decode by byte order mark, by the charset of a web page, as UTF-8, or as Western text."""
    declared = ""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            declared = encoding
            break
    if not declared and is_html:
        declared = _charset(data)
    for encoding in filter(None, (declared, "utf-8")):
        try:
            return data.decode(encoding, "replace" if encoding == "utf-16" else "strict")
        except ValueError:
            continue
    text = data.decode("utf-8", "replace")
    non_ascii = len(text) - len(text.encode("ascii", "ignore"))
    if 20 * text.count("\ufffd") < non_ascii:
        return text  # UTF-8 with a few broken bytes
    if declared not in ("", "utf-8", "utf-8-sig"):
        return data.decode(declared, "replace")
    if _NOT_WESTERN.search(data):
        raise Invalid(
            field="file", problem="is text in an unknown encoding; save it as UTF-8 first"
        )
    return data.decode("cp1252", "replace")


def _charset(data: bytes) -> str:
    """Return the encoding that a web page declares, as browsers interpret it; '' if unknown."""
    declared = _CHARSET.search(data[:_SNIFFED_BYTES])
    if not declared:
        return ""
    try:
        name = codecs.lookup(declared[1].decode("ascii")).name
    except (LookupError, ValueError):
        return ""
    if name in ("ascii", "iso8859-1"):
        return "cp1252"
    return name if name in _CHARSETS else ""


def _first_heading(text: str) -> str:
    """Return the title of a Markdown document: from its front matter, or its first heading."""
    for block in markdown.blocks(text[: 64 << 10]):
        if block.kind == "heading":
            return block.path[-1]
        if not block.start and text.startswith("---"):
            title = _FRONT_TITLE.search(text[: block.end])
            if title:
                return title[1].strip().strip("\"'")
    return ""
