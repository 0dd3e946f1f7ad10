"""Documents as text: what a file is, by its content and its name, and what a person would read in it."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from retain.base import canonical
from retain.base.errors import Invalid, TooLarge
from retain.text import markdown, pdf, webpage

Media = Literal["text", "markdown", "html", "pdf"]
MEDIA: tuple[Media, ...] = ("text", "markdown", "html", "pdf")

SUFFIXES: dict[str, Media] = {
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".html": "html", ".htm": "html", ".xhtml": "html",
    ".pdf": "pdf", ".txt": "text", ".text": "text", ".rst": "text", ".adoc": "text", ".org": "text", ".tex": "text",
    ".log": "text", ".csv": "text", ".tsv": "text", ".json": "text", ".jsonl": "text", ".yaml": "text", ".yml": "text",
}  # fmt: skip
"""What a name says; files that it says nothing about are read by their content."""
_LOOK = 1 << 12
_WEB = re.compile(
    r"\s*+(?:<\?xml[^>]*+>\s*+)?+(?:<!(?=--)(?>.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_HEADED = re.compile(
    r"^(?:#{1,6}[ \t]++\S|[^\s#>|-][^\n]*+\n(?:={3,}+|-{3,}+)[ \t]*+\r?$)", re.MULTILINE
)
_CHARSET = re.compile(
    rb"""<meta[^<>]{0,200}?charset\s*+=\s*+["']?\s*+([\w.:-]{2,40})""", re.IGNORECASE
)
_CHARSETS = {
    "utf-8", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp866", "cp874", "tis-620", "cp932", "cp949", "gbk", "gb2312",
    "gb18030", "big5", "big5hkscs", "shift_jis", "euc_jp", "euc_kr", "iso2022_jp",
    *(f"iso8859-{n}" for n in range(2, 17)), *(f"cp{n}" for n in range(1250, 1259)),
}  # fmt: skip
"""What pages are written in; Python can decode others, and some of those take hours for a megabyte."""
_UNLIKE_WESTERN = re.compile(rb"[\x80-\xff]{6}")
_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\a\b\t\n\v\f\r\x1b") + b"\x7f"
_FRONT_TITLE = re.compile(r"^title:(.*)$", re.MULTILINE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DIVIDED = re.compile(r"(?<=[^\W\d_])(?:-|\u00ad)\n(?=[^\W\d_])")
_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
)
MOST_TEXT = 16 << 20
"""The most bytes of text of one document: it is written at once, and others who want to write wait meanwhile."""
BETWEEN_PAGES = "\n\n"


@dataclass(frozen=True)
class Read:
    """What a document says: as text, or as Markdown where it has structure; `pages` is where each page of a PDF starts.

    `given` is what it was read from, if that was text.
    """

    media: Media
    text: str
    title: str = ""
    pages: tuple[int, ...] = ()
    given: str = ""


def read_file(data: bytes, name: str, limit: int) -> Read:
    """What is in a file of any of these kinds; an error says why it cannot be read."""
    media, binary = by_name(name), _is_binary(data)
    if data[:1024].lstrip().startswith(b"%PDF-") or (
        b"%PDF-" in data[:1024] and (media == "pdf" or binary)
    ):
        return _pdf(
            data, limit
        )  # there may be a little before it; a text that only speaks of it is a text
    if media == "pdf" or binary:
        raise Invalid(field="file", problem="is no text, Markdown, HTML or PDF")
    web = media == "html" or _looks_like_web(data)
    if media is None and PurePath(name).suffix:
        media = "html" if web else "text"  # a program's comments are no headings
    return read_text(_decoded(data, web=web), media, limit)


def by_name(name: str) -> Media | None:
    """What a file is by its name, None where that says nothing."""
    return SUFFIXES.get(PurePath(name).suffix.lower())


def read_text(text: str, media: Media | None, limit: int) -> Read:
    """What a text says; what it is, is seen from its beginning where nobody says."""
    if media == "pdf":
        raise Invalid(field="media", problem="is pdf, and a PDF is read from a file")
    text = canonical.text(text, "text", limit)
    media = media or (
        "html" if _WEB.match(text[:_LOOK]) else "markdown" if _HEADED.search(text) else "text"
    )
    if media == "html":
        page = webpage.read(text)
        return Read("html", _within(page.text), page.title or _first_heading(page.text), given=text)
    return Read(
        media, _within(text), _first_heading(text) if media == "markdown" else "", given=text
    )


def _pdf(data: bytes, limit: int) -> Read:
    found = pdf.read(data, min(limit, MOST_TEXT))
    pages = [_as_written(canonical.text(page, "file", MOST_TEXT)) for page in found.pages]
    starts, at = [], 0
    for page in pages:
        starts.append(at)
        at += len(page) + len(BETWEEN_PAGES)
    return Read("pdf", _within(BETWEEN_PAGES.join(pages)), found.title, tuple(starts))


def _as_written(page: str) -> str:
    """A typeset page with its words whole: not divided at the ends of lines before a small letter, and without ligatures."""
    whole = _DIVIDED.sub(lambda found: "" if page[found.end()].islower() else found.group(), page)
    return whole.translate(_LIGATURES)


def _within(text: str) -> str:
    """The text, if it is not more than one document can have."""
    try:
        return canonical.within(text, "text", MOST_TEXT)
    except TooLarge as error:
        raise TooLarge(**error.details, hint="Make several documents of it.") from None


def _looks_like_web(data: bytes) -> bool:
    return _WEB.match(data[:_LOOK].decode("latin-1")) is not None


def _is_binary(data: bytes) -> bool:
    """Whether bytes are no text in any encoding that is read here."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    sample = data[: 8 << 10]
    return b"\0" in sample or len(sample) - len(sample.translate(None, _CONTROLS)) > 0.05 * len(
        sample
    )


def _decoded(data: bytes, *, web: bool) -> str:
    """Bytes as text: by their mark, by what a web page says of itself, as UTF-8, and if they are not, as Western text."""
    named = next((encoding for mark, encoding in _BOMS if data.startswith(mark)), "") or (
        _charset(data) if web else ""
    )
    for encoding in filter(None, (named, "utf-8")):
        try:
            return data.decode(encoding, "replace" if encoding == "utf-16" else "strict")
        except ValueError:
            continue
    text = data.decode("utf-8", "replace")
    if 20 * text.count("\ufffd") < len(text) - len(text.encode("ascii", "ignore")):
        return text  # a few bytes of it are broken
    if named not in ("", "utf-8", "utf-8-sig"):
        return data.decode(named, "replace")
    if _UNLIKE_WESTERN.search(data):
        raise Invalid(
            field="file",
            problem="is text in an encoding that it does not name: save it as UTF-8 first",
        )
    return data.decode("cp1252", "replace")


def _charset(data: bytes) -> str:
    """The encoding that a web page says it has; none where that cannot be, as with UTF-16 that can be read as ASCII."""
    try:
        found = _CHARSET.search(data[:_LOOK])
        named = codecs.lookup(found[1].decode("ascii")).name if found else ""
    except (LookupError, ValueError):
        return ""
    return (
        "cp1252" if named in ("ascii", "iso8859-1") else named if named in _CHARSETS else ""
    )  # as browsers take them


def _first_heading(text: str) -> str:
    """The title of a Markdown document: what its front matter says, or its first heading."""
    for block in markdown.blocks(text[: 64 << 10]):
        if block.kind == "heading":
            return block.path[-1]
        if (
            not block.start
            and text.startswith("---")
            and (found := _FRONT_TITLE.search(text[: block.end]))
        ):
            return found[1].strip().strip("\"'")
    return ""
