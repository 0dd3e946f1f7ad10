"""PDFs page by page, and malicious PDFs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from memorist.base.errors import Invalid
from memorist.text import pdf
from testkit import pdfs

LIMIT = 1 << 20


def problem(data: bytes, limit: int = LIMIT, **options: float) -> str:
    with pytest.raises(Invalid) as error:
        pdf.read(data, limit, **options)
    return str(error.value)


def test_pages_and_title() -> None:
    result = pdf.read(
        pdfs.pdf("First page\nwith two lines", "Second (page)", title="A  Title"), LIMIT
    )
    assert result.title == "A Title"
    assert [page.split() for page in result.pages] == [
        ["First", "page", "with", "two", "lines"],
        ["Second", "(page)"],
    ]


def test_an_empty_page_keeps_its_number() -> None:
    assert [page.strip() for page in pdf.read(pdfs.pdf("one", "", "three"), LIMIT).pages] == [
        "one",
        "",
        "three",
    ]


def test_a_pdf_without_text_gives_advice() -> None:
    assert "text recognition" in problem(pdfs.pdf("", ""))


def test_an_encrypted_pdf_is_rejected() -> None:
    assert "is encrypted" in problem(pdfs.pdf("secret", encrypted=True))


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.4",
        b"%PDF-1.4\n%%EOF",
        b"%PDF-" + b"\xff" * 10_000,
        pdfs.pdf("some text")[:300],
        pdfs.pdf("some text").replace(b"/Type /Pages", b"/Type /Pagez").replace(b"/Kids", b"/Kidz"),
    ],
)
def test_a_damaged_pdf_is_rejected(data: bytes) -> None:
    answer = problem(data)
    assert "cannot be read" in answer or "has no text" in answer


def test_a_decompression_bomb_is_stopped() -> None:
    """Kilobytes that expand to half a gigabyte are rejected or stopped, in bounded memory and time."""
    data = pdfs.bomb(400 << 20)
    assert len(data) < 2 << 20
    assert problem(data, seconds=20.0)


def test_a_pdf_that_takes_too_long_is_stopped() -> None:
    assert "longer than 0.01 seconds" in problem(pdfs.pdf("text"), seconds=0.01)


def test_too_much_text_is_rejected() -> None:
    assert "more than 100 bytes" in problem(pdfs.pdf("word " * 50), 100)
    assert "more than 100 bytes" in problem(pdfs.pdf("é" * 90), 100), "90 characters of two bytes"


def test_without_the_extra_the_error_names_it() -> None:
    script = (
        "import sys; sys.modules['pypdf'] = None\n"
        "from memorist.text import pdf; pdf.main(sys.stdin.buffer, sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=pdfs.pdf("one"), capture_output=True, check=True
    )
    assert "pip install 'memorist[pdf]'" in json.loads(done.stdout)["problem"]
