"""The text of a PDF, page by page, extracted by pypdf in a separate process.

A malicious file that hangs or fills the memory affects only that process. The process reads the
file from standard input and writes one JSON line per page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, NamedTuple

from memorist.base.errors import Invalid, install_hint

MAX_SECONDS = 120.0
MAX_MEMORY_BYTES = 1 << 30  # if the system can limit it
MAX_PAGES = 20_000


class Pdf(NamedTuple):
    """The title of a PDF and the text of each page."""

    title: str
    pages: list[str]


def read(data: bytes, limit: int, *, seconds: float = MAX_SECONDS) -> Pdf:
    """Extract at most `limit` bytes of text; raise Invalid with the reason if that fails."""
    title = ""
    pages = []
    size = 0
    for line in _run_extractor(data, seconds):
        if "problem" in line:
            raise Invalid(field="file", problem=str(line["problem"]))
        title = str(line.get("title", title))
        if "text" in line:
            pages.append(str(line["text"]))
            size += len(pages[-1].encode("utf-8", "surrogatepass"))
        if size > limit:
            raise Invalid(field="file", problem=f"has more than {limit} bytes of text")
    if not any(page.strip() for page in pages):
        raise Invalid(
            field="file", problem="has no text: its pages are images; run text recognition first"
        )
    return Pdf(title, pages)


def _run_extractor(data: bytes, seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the lines of the extracting process; kill it when its time is up."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONIOENCODING": "utf-8",
    }
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "memorist.text.pdf"],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        process.kill()

    timer = threading.Timer(seconds, stop)
    timer.start()
    last: dict[str, Any] = {}
    try:
        for line in process.stdout or ():
            with suppress(ValueError):  # the process was killed in the middle of a line
                last = json.loads(line)
                yield last
        if not (last.get("end") or last.get("problem")):
            reason = "needs more memory than allowed, or is damaged"
            if is_late.is_set():
                reason = f"takes longer than {seconds:g} seconds"
            yield {"problem": f"cannot be read: it {reason}"}
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


# -- in the extracting process ------------------------------------------------


def main(file: IO[bytes], out: IO[str]) -> None:
    """Write the pages of a PDF, or why it cannot be read, as JSON lines."""
    _limit_memory()

    def write(**line: Any) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        import pypdf
        from pypdf.errors import DependencyError, PyPdfError
    except ImportError:
        write(problem=f"is a PDF; to read it, {install_hint('pdf')}")
        return
    damage = (
        PyPdfError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        RecursionError,
        OSError,
    )
    try:
        reader = pypdf.PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            write(problem="is encrypted; save it without a password first")
            return
        count = len(reader.pages)
        if count > MAX_PAGES:
            write(problem=f"has {count} pages; at most {MAX_PAGES} are read")
            return
        write(title=_title(reader))
        for number in range(count):
            write(page=number + 1, text=reader.pages[number].extract_text() or "")
        write(end=True)
    except DependencyError:
        write(problem="uses unsupported encryption; save it without a password first")
    except MemoryError:
        write(problem="cannot be read: it needs more memory than allowed")
    except damage as error:
        write(problem=f"is a damaged PDF and cannot be read ({type(error).__name__})")


def _title(reader: Any) -> str:
    """Return the title in the metadata; '' if there is none or it cannot be read."""
    try:
        return " ".join(str(reader.metadata.title or "").split()) if reader.metadata else ""
    except Exception:  # a damaged file may raise anything, and a title is not essential
        return ""


def _limit_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
