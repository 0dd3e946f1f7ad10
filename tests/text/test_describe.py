"""What an output is, in one line: tried on what real tools print."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.text.describe import Media, describe, media_of

PYTEST = """============================= test session starts ==============================
collected 3 items

test_bad.py FF.                                                          [100%]

=================================== FAILURES ===================================
E       assert 1 == 2
=========================== short test summary info ============================
FAILED test_bad.py::test_a - assert 1 == 2
FAILED test_bad.py::test_b - ValueError: boom
========================= 2 failed, 1 passed in 3.59s ==========================
"""
GCC = """bad.c: In function 'main':
bad.c:1:12: warning: unused variable 'x' [-Wunused-variable]
bad.c:1:32: error: 'retrun' undeclared (first use in this function)
    1 | int main(){int x; retrun 0;}
      |                   ^~~~~~
bad.c:1:38: error: expected ';' before numeric constant
"""
MAKE = "cc -c a.c\nmake: *** [Makefile:3: a.o] Error 1\n"
NPM = """npm warn deprecated inflight@1.0.6: This module is not supported
npm warn deprecated glob@7.2.3: Glob versions prior to v9 are no longer supported

added 312 packages, and audited 313 packages in 12s

41 packages are looking for funding
"""
PIP = """Collecting requests
  Downloading requests-2.32.5-py3-none-any.whl (64 kB)
Installing collected packages: urllib3, requests
Successfully installed requests-2.32.5 urllib3-2.5.0
"""
PIP_FAILS = """ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none)
ERROR: No matching distribution found for nosuch
"""
MYPY = """a.py:1: error: Function is missing a return type annotation  [no-untyped-def]
a.py:2: error: Name "x" is not defined  [name-defined]
Found 2 errors in 1 file (checked 1 source file)
"""
TRACE = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
    json.loads("{")
json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
"""
NODE = """x.js:1
x.y.z
^

ReferenceError: x is not defined
    at Object.<anonymous> (x.js:1:1)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
"""
DIFF = """diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,2 +1,3 @@
-old
+new
+newer
diff --git a/b.py b/b.py
--- a/b.py
+++ b/b.py
@@ -1 +1 @@
-x
+y
"""
GIT_LOG = """commit 8316f12c0ffee0ffee0ffee0ffee0ffee0ffee00
Author: Ada <ada@example.org>
Date:   Sun Nov 15 05:00:00 2026 +0000

    Room for what makes it a memory

commit 2184cd9c0ffee0ffee0ffee0ffee0ffee0ffee00
Author: Ada <ada@example.org>

    The long programme
"""
ONELINE = "8316f12 Room for more\n2184cd9 The long programme\nd89f8af A test erases\n"
LS = """total 48
drwxr-xr-x 2 ada ada 4096 Nov 15 05:28 docs
-rw-r--r-- 1 ada ada 1234 Nov 15 05:28 README.md
-rw-r--r-- 1 ada ada 1234 Nov 15 05:28 setup.py
"""
CURL = "HTTP/1.1 301 Moved Permanently\r\nLocation: https://x/\r\n\r\n"
CURL += "HTTP/2 200 \r\ncontent-type: text/html; charset=utf-8\r\n\r\n"
DOCKER = "".join(f"web-1  | 2026-11-15T05:28:{n}.123Z INFO request {n}\n" for n in range(10, 40))
DOCKER += "web-1  | 2026-11-15T06:01:00.123Z ERROR database gone\n"
WEB = "".join(
    f'10.0.0.{n} - - [15/Nov/2026:05:28:{n} +0000] "GET / HTTP/1.1" 200 12\n' for n in range(10, 20)
)
PS = "CONTAINER ID   IMAGE    STATUS\n1a2b3c4d5e6f   nginx    Up 2 hours\n2a2b3c4d5e6f   redis    Up 2 hours\n"
PSQL = " id | name\n----+------\n  1 | a\n  2 | b\n(2 rows)\n"
CARGO = "running 2 tests\ntest a ... ok\ntest b ... FAILED\n\n"
CARGO += "test result: FAILED. 1 passed; 1 failed; 0 ignored; finished in 0.01s\n"
UNITTEST = "..F\n======\nFAIL: test_a (t.T)\n------\nRan 3 tests in 0.001s\n\nFAILED (failures=1)\n"
GREP = "".join(f"src/{name}.py:{n}:import os\n" for name in "abc" for n in (1, 2))
FIND = "".join(f"/usr/lib/{n}\n" for n in range(1000))
PROGRESS = "\x1b[32mDownloading\x1b[0m 1%\rDownloading 50%\rDownloading 100%\nAll is there.\n"

OUTPUTS: list[tuple[str, str]] = [
    (
        PYTEST,
        "2 failed, 1 passed in 3.59s; first: FAILED test_bad.py::test_a - assert 1 == 2; 11 lines",
    ),
    (
        GCC,
        "2 errors, 1 warning; first: bad.c:1:32: error: 'retrun' undeclared (first use in this function); 6 lines",
    ),
    (MAKE, "1 error; first: make: *** (Makefile:3: a.o) Error 1; 2 lines"),
    (NPM, "added 312 packages, and audited 313 packages in 12s; 2 warnings; 6 lines"),
    (PIP, "Successfully installed requests-2.32.5 urllib3-2.5.0; 4 lines"),
    (
        PIP_FAILS,
        "2 errors; first: ERROR: Could not find a version that satisfies the requirement nosuch (from versions: none); "
        "2 lines",
    ),
    (
        MYPY,
        "Found 2 errors in 1 file (checked 1 source file); first: a.py:1: error: Function is missing a return type "
        "annotation (no-untyped-def); 3 lines",
    ),
    (
        TRACE,
        "Python traceback: json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1); 4 lines",
    ),
    (NODE, "stack trace: ReferenceError: x is not defined; 7 lines"),
    (DIFF, "diff of 2 files, +3 −2: src/a.py, b.py; 13 lines"),
    (GIT_LOG, "2 commits, newest: Room for what makes it a memory; 10 lines"),
    (ONELINE, "3 commits, newest: Room for more; 3 lines"),
    (LS, "listing of 2 files and 1 folder; 4 lines"),
    (CURL, "HTTP/2 200, text/html; charset=utf-8; 6 lines"),
    (
        DOCKER,
        "log from 2026-11-15T05:28:10 to 06:01:00; 1 error; first: web-1 | 2026-11-15T06:01:00.123Z ERROR database gone; "
        "31 lines",
    ),
    (WEB, "log from 15/Nov/2026:05:28:10 to 05:28:19; 10 lines"),
    (PS, "table with the columns CONTAINER ID, IMAGE, STATUS; 2 rows; 101 bytes"),
    (PSQL, "table with the columns id, name; 5 lines"),
    (
        CARGO,
        "FAILED. 1 passed; 1 failed; 0 ignored; finished in 0.01s; first: test b ... FAILED; 5 lines",
    ),
    (UNITTEST, "Ran 3 tests in 0.001s, FAILED (failures=1); first: FAIL: test_a (t.T); 7 lines"),
    (GREP, "lines found in 3 files: src/a.py, src/b.py, src/c.py; 6 lines"),
    (FIND, "1,000 paths, from /usr/lib/0 to /usr/lib/999; 1,000 lines"),
    (
        'id,name,price\n1,"a, b",2\n2,c,3\n3,d,4\n',
        "CSV with the columns id, name, price; 3 rows; 37 bytes",
    ),
    ("a\tb\n1\t2\n3\t4\n", "table with the columns a, b; 2 rows; 12 bytes"),
    (
        '{"ts":1,"msg":"a"}\n{"ts":2,"msg":"b"}\n{"ts":3}\n',
        "JSON lines, objects with the keys ts, msg; 3 lines",
    ),
    ("<!DOCTYPE html>\n<html><head><title>A page</title>\n", "HTML page: A page; 2 lines"),
    ('<?xml version="1.0"?>\n<project>\n</project>\n', "XML document: project; 3 lines"),
    ("# retain\n\nMemory for AI agents.\nMore.\n", "retain: Memory for AI agents.; 4 lines"),
    (
        "The quick brown fox jumps over the lazy dog. Then it sleeps.\n",
        "The quick brown fox jumps over the lazy dog.; 61 bytes",
    ),
    (PROGRESS, "Downloading 100% All is there.; 2 lines"),
    ("", "nothing"),
    ("\n\n\n", "nothing but blank lines; 3 lines"),
]


def described(text: str, **more: str) -> str:
    """As a stored content is described."""
    return describe(
        text, size=len(text.encode()), lines=text.count("\n"), media=media_of(text.encode()), **more
    )


@pytest.mark.parametrize(("text", "says"), OUTPUTS, ids=[str(n) for n in range(len(OUTPUTS))])
def test_what_real_tools_print(text: str, says: str) -> None:
    """R8: without a model, from what it is."""
    assert described(text) == says


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
    """R8: keys and lengths."""
    text = json.dumps(value)
    assert describe(text, media="json") == says


def test_the_shape_of_json_that_is_only_begun() -> None:
    text = json.dumps([{"id": n, "name": "x"} for n in range(100_000)])
    assert describe(text[:65_536], text[-1000:], size=3_200_000, lines=1, media="json") == (
        "JSON array, objects with the keys id, name; 3.2 MB"
    )
    text = json.dumps({"a": [1, 2], "b": "x" * 100_000})
    assert (
        describe(text[:65_536], text[-1000:], size=100_020, media="json")
        == "JSON object with the keys a (2), b; 100.0 kB"
    )


def test_how_a_command_ended_comes_first() -> None:
    """R8: exit status, then what it said first and last."""
    assert described(
        "starting\nworking\nstopped half way\n", source="job", status="Failed with exit code 2"
    ) == ("Failed with exit code 2; starting … stopped half way; 3 lines")
    assert described("a\nb\n", source="job", status="Success") == "a … b; 2 lines"


def test_counts_of_what_was_not_all_seen_say_so() -> None:
    text = "".join(f"a.c:{n}:1: error: bad\n" for n in range(5000))
    says = describe(text[:32_768], text[-32_768:], size=len(text), lines=5000)
    assert says.endswith("; first: a.c:0:1: error: bad; 5,000 lines")
    assert says.partition(" ")[0].endswith("+")


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


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("\ufffdPNG\r\n\x1a\n", "PNG image"),
        ("\x7fELF\x02", "program for Linux (ELF)"),
        ("PK\x03\x04", "ZIP archive"),
    ],
)
def test_bytes_are_named(head: str, says: str) -> None:
    assert (
        describe(head, size=1_234_567, lines=99, media="binary") == f"binary data: {says}; 1.2 MB"
    )


@given(
    st.text(max_size=400),
    st.text(max_size=100),
    st.text(max_size=60),
    st.sampled_from(["text", "json", "binary"]),
)
def test_always_one_short_line_that_closes_no_placeholder(
    head: str, tail: str, status: str, media: Media
) -> None:
    """R1: under 160 characters, no bracket, no line break, nothing that turns text around."""
    says = describe(head, tail, source="x", status=status, size=10**12, lines=10**9, media=media)
    assert len(says) < 160
    assert not set(says) & set("[]\n\r\t\x1b\u202e\u2028\x00")
    assert says == describe(
        head, tail, source="x", status=status, size=10**12, lines=10**9, media=media
    )
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
def test_no_output_takes_long(text: str) -> None:
    """P16: what is slow for an expression is not slow here; a test that hangs fails."""
    assert len(described(text)) < 160
