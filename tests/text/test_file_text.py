"""The type of a file, and its readable text."""

from __future__ import annotations

import pytest

from memorist.base.errors import TooLarge
from memorist.text.file_text import _join_words, read_file, read_text
from testkit import pdfs
from testkit.failures import invalid, raised

LIMIT = 1 << 20


@pytest.mark.parametrize(
    ("name", "data", "media", "title", "text"),
    [
        ("a.txt", b"# no heading", "text", "", "# no heading"),
        ("a.md", b"# A `heading`\n\nText", "markdown", "A heading", "# A `heading`\n\nText"),
        ("a.md", b'---\ntitle: "Said so"\n---\n# Other', "markdown", "Said so", '---\ntitle: "Said so"\n---\n# Other'),
        ("a.html", b"<title>T</title><p>x", "html", "T", "x"),
        ("a.html", b"<h1>Only</h1><p>x", "html", "Only", "# Only\n\nx"),
        ("page", b" <!doctype HTML><p>x", "html", "", "x"),
        ("README", b"Title\n=====\n\nText", "markdown", "Title", "Title\n=====\n\nText"),
        ("notes", b"plain words", "text", "", "plain words"),
        ("a.py", b"# comment\nx = 1", "text", "", "# comment\nx = 1"),
        ("a.txt", "\ufeffé".encode(), "text", "", "é"),
        ("a.txt", "é".encode("utf-16"), "text", "", "é"),
        ("a.txt", "é’".encode("cp1252"), "text", "", "é’"),
        ("a.html", '<meta charset="iso-8859-2"><p>ł'.encode("iso-8859-2"), "html", "", "ł"),
        ("a.html", '<meta charset="no-such"><p>ł'.encode(), "html", "", "ł"),
        ("a.html", b'<meta charset="base64"><p>x', "html", "", "x"),
        ("a.html", b"<meta charset=utf-16><p>x \xe9", "html", "", "x é"),
        ("a.html", "<meta charset=windows-1251><p>Привет, как дела?".encode("cp1251"), "html", "", "Привет, как дела?"),
        ("a.html", b"<meta charset=latin1><p>\x93x\x94", "html", "", "“x”"),
        ("a.txt", "Привет, мир. ".encode() * 9 + b"\xff", "text", "", "Привет, мир. " * 9 + "\ufffd"),
        ("a.md", b"# PDF\n\nIt begins with %PDF-1.4.", "markdown", "PDF", "# PDF\n\nIt begins with %PDF-1.4."),
        ("a.md", b"---\r\ntitle:  A b  \r\n---\r\nText", "markdown", "A b", "---\r\ntitle:  A b  \r\n---\r\nText"),
        ("README", b"Title\r\n=====\r\n", "markdown", "Title", "Title\r\n=====\r\n"),
        ("a.txt", b"a\x00b", "text", "", "a␀b"),
    ],
)  # fmt: skip
def test_files(name: str, data: bytes, media: str, title: str, text: str) -> None:
    if b"\x00" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        invalid("file", read_file, data, name, LIMIT)
        return
    result = read_file(data, name, LIMIT)
    assert (result.media, result.title, result.text) == (media, title, text)


def test_a_pdf_is_recognised_by_its_content() -> None:
    result = read_file(pdfs.pdf("Page one", "Page two", title="T"), "a.txt", LIMIT)
    assert (result.media, result.title, len(result.pages)) == ("pdf", "T", 2)
    assert result.text[result.pages[1] :].strip() == "Page two"


def test_a_pdf_after_other_bytes() -> None:
    assert read_file(b"junk\n" + pdfs.pdf("Page one"), "a.pdf", LIMIT).media == "pdf"


def test_words_of_a_typeset_page_are_joined() -> None:
    """A hyphenated word or one with ligatures is found by its letters."""
    result = read_file(
        pdfs.pdf("An exam-\nple of Anglo-\nSaxon type - and\n3-\nd."), "a.pdf", LIMIT
    )
    assert result.text.split() == [
        "An",
        "example",
        "of",
        "Anglo-",
        "Saxon",
        "type",
        "-",
        "and",
        "3-",
        "d.",
    ]
    assert _join_words("ef\ufb01cient af\ufb02uent") == "efficient affluent"


def test_unreadable_files_are_rejected() -> None:
    for name, data in (
        ("a.pdf", b"no pdf"),
        ("a.bin", bytes(range(256))),
        ("a.png", b"\x89PNG\r\n\x1a\n\x00\x00"),
    ):
        invalid("file", read_file, data, name, LIMIT)
    invalid("file", read_file, "Привет, как дела?".encode("cp1251"), "a.txt", LIMIT)
    invalid("media", read_text, "x", "pdf", LIMIT)
    raised(TooLarge, read_text, "x" * 100, None, 99)
