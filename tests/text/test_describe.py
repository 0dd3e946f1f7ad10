"""One-line descriptions of output, tried on the output of real tools."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.text.describe import Media, Sample, describe, media_of

PYTEST = """============================= test session starts ==============================
collected 3 items

test_bad.py FF.                                                          [100%]

=========================== short test summary info ============================
FAILED test_bad.py::test_a - assert 1 == 2
FAILED test_bad.py::test_b - ValueError: boom
========================= 2 failed, 1 passed in 3.59s ==========================
"""
GCC = """bad.c: In function 'main':
bad.c:1:12: warning: unused variable 'x' [-Wunused-variable]
bad.c:1:32: error: 'retrun' undeclared
bad.c:1:38: error: expected ';' before numeric constant
"""
MAKE = "cc -c a.c\nmake: *** [Makefile:3: a.o] Error 1\n"
PIP = """Collecting requests
  Downloading requests-2.32.5-py3-none-any.whl (64 kB)
Successfully installed requests-2.32.5 urllib3-2.5.0
"""
TRACE = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
    json.loads("{")
json.decoder.JSONDecodeError: Expecting property name
"""
PROGRESS = "\x1b[32mDownloading\x1b[0m 1%\rDownloading 50%\rDownloading 100%\nAll is there.\n"

OUTPUTS: list[tuple[str, str]] = [
    (
        PYTEST,
        "2 error lines, first: FAILED test_bad.py::test_a - assert 1 == 2; "
        "last: ========================= 2 failed, 1 passed in 3.59s…; 9 lines",
    ),
    (
        GCC,
        "2 error lines, first: bad.c:1:32: error: 'retrun' undeclared; "
        "last: bad.c:1:38: error: expected ';' before numeric constant; 4 lines",
    ),
    (MAKE, "1 error line, first: make: *** (Makefile:3: a.o) Error 1; 2 lines"),
    (PIP, "Collecting requests … Successfully installed requests-2.32.5 urllib3-2.5.0; 3 lines"),
    (TRACE, "1 error line, first: json.decoder.JSONDecodeError: Expecting property name; 4 lines"),
    ("0 errors, no error at all\nBuilt.\n", "0 errors, no error at all … Built.; 2 lines"),
    (PROGRESS, "Downloading 100% … All is there.; 2 lines"),
    ("", "empty"),
    ("\n\n\n", "only blank lines; 3 lines"),
]


def described(text: str, **more: str) -> str:
    """As a stored content is described."""
    sample = Sample(text, size=len(text.encode()), lines=text.count("\n"))
    return describe(sample, media=media_of(text.encode()), **more)


@pytest.mark.parametrize(("text", "says"), OUTPUTS, ids=[str(n) for n in range(len(OUTPUTS))])
def test_outputs_of_tools(text: str, says: str) -> None:
    """Described without a model."""
    assert described(text, source="tool") == says


def test_a_document_is_described_by_its_first_sentence() -> None:
    text = "The quick brown fox jumps over the lazy dog. Then it sleeps.\n"
    assert described(text) == "The quick brown fox jumps over the lazy dog.; 61 bytes"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            {"name": "x", "items": [1, 2, 3], "meta": {"a": 1, "b": 2}},
            "JSON object with the keys name, items (3), meta (2 keys)",
        ),
        (
            [{"id": n, "name": "x"} for n in range(1204)],
            "JSON array of 1,204 objects with the keys id, name",
        ),
        ([1, 2], "JSON array of 2"),
        ([], "JSON array, empty"),
        ({}, "JSON object, empty"),
        ({"one": None}, "JSON object with the key one"),
    ],
)
def test_the_shape_of_json(value: object, says: str) -> None:
    """Keys and lengths."""
    text = json.dumps(value)
    assert describe(Sample(text), media="json") == says


def test_truncated_json() -> None:
    text = json.dumps([{"id": n, "name": "x"} for n in range(100_000)])
    description = describe(
        Sample(text[:65_536], text[-1000:], size=3_200_000, lines=1), media="json"
    )
    assert description == "JSON array; 3.2 MB"


def test_the_exit_status_comes_first() -> None:
    """Exit status, then the first and last lines."""
    assert described(
        "starting\nworking\nstopped half way\n", source="job", status="Failed with exit code 2"
    ) == ("Failed with exit code 2; starting … stopped half way; 3 lines")
    assert described("a\nb\n", source="job", status="Success") == "a … b; 2 lines"


def test_counts_of_partial_content_are_marked() -> None:
    text = "".join(f"a.c:{n}:1: error: bad\n" for n in range(5000))
    says = describe(Sample(text[:32_768], text[-32_768:], size=len(text), lines=5000))
    assert says.endswith(
        "+ error lines, first: a.c:0:1: error: bad; last: a.c:4999:1: error: bad; 5,000 lines"
    )


@pytest.mark.parametrize(
    ("head", "media"),
    [
        (b"", "text"),
        (b"plain", "text"),
        ("Grüße 👨‍👩‍👧‍👦 漢字".encode(), "text"),
        ("Gr\xfc\xdfe aus M\xfcnchen und anderswo".encode("latin-1"), "text"),
        ("é".encode()[:1], "text"),
        (b"\x1b[31mred\x1b[0m\r\n\a\b", "text"),
        (b"\x7fELF\x02\x01\x01\x00", "binary"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "binary"),
        (bytes(range(1, 256)), "binary"),
        (b"\xff\xfeh\x00i\x00", "binary"),
        (b'{"a": 1}', "json"),
        (b"  [1, 2]\n", "json"),
        (b"[INFO] started\n", "text"),
        (b"{not json}", "text"),
        (b'{"a": 1}\n{"a": 2}\n', "text"),
        (b"[" + b'{"id": 1, "name": "abc"}, ' * 100, "json"),
        (b'{"text": "' + b"x" * 1000, "json"),
        (b"[" * 100_000, "text"),
        (b"12", "text"),
    ],
)
def test_media(head: bytes, media: Media) -> None:
    assert media_of(head) == media


def test_binary_data() -> None:
    sample = Sample("\x7fELF", size=1_234_567, lines=99)
    assert describe(sample, media="binary") == "binary data; 1.2 MB"


@given(
    st.text(max_size=400),
    st.text(max_size=100),
    st.text(max_size=60),
    st.sampled_from(["text", "json", "binary"]),
)
def test_a_description_is_one_short_line_that_closes_no_placeholder(
    head: str, tail: str, status: str, media: Media
) -> None:
    """Under 160 characters, no bracket, no line break, no bidirectional control characters."""
    sample = Sample(head, tail, size=10**12, lines=10**9)
    says = describe(sample, source="x", status=status, media=media)
    assert len(says) < 160
    assert not set(says) & set("[]\n\r\t\x1b\u202e\u2028\x00")
    assert says == describe(sample, source="x", status=status, media=media)
    says.encode()


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        " " * 200_000,
        "error" * 40_000,
        ("error: " * 40 + "\n") * 1000,
        "{" * 100_000,
        '{"a":' * 50_000,
        "[" * 200_000,
        "\x1b[" * 100_000,
        "\x1b]" + "x" * 200_000,
        "\r" * 200_000,
        "," * 200_000,
        "a,b\n" * 50_000,
        ("x" * 60 + " ") * 3000,
        "= " * 100_000,
        "<" * 100_000,
        "<?xml " + "<!" * 100_000,
        "<html><title" + " " * 100_000,
        "Traceback (most recent call last):\n" + "a." * 100_000,
        "\u0301" * 100_000,
    ],
)
def test_any_output_is_described_in_bounded_time(text: str) -> None:
    """P16: a test that hangs fails."""
    assert len(described(text)) < 160
