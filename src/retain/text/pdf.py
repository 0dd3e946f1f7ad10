"""The text of a PDF, page by page, read by a process of its own: a file that was made to hang or to fill the memory ends
that process at its limits, and not the one that reads it.

The reader is pypdf, an extra. The process gets the file on its standard input and writes one JSON line for each page.
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

from retain.base.errors import Invalid

SECONDS = 120.0
"""The longest one PDF may take."""
MEMORY = 1 << 30
"""The most bytes of memory that reading one may take, where the system can limit it."""
MOST_PAGES = 20_000


class Pdf(NamedTuple):
    """The title that a PDF says it has, and the text of each of its pages."""

    title: str
    pages: list[str]


def read(data: bytes, limit: int, *, seconds: float = SECONDS) -> Pdf:
    """The text of a PDF of at most `limit` bytes of text; an error says why there is none."""
    title, pages, size = "", [], 0
    for line in _lines(data, seconds):
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
            field="file",
            problem="has no text: its pages are pictures, and need text recognition first",
        )
    return Pdf(title, pages)


def _lines(data: bytes, seconds: float) -> Iterator[dict[str, Any]]:
    """What the process writes; it ends when all is read, and is ended when its time is up or nobody listens any more."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONIOENCODING": "utf-8",
    }
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "retain.text.pdf"],
            stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(seconds, stop)
    timer.start()
    last: dict[str, Any] = {}
    try:
        for line in process.stdout or ():
            with suppress(ValueError):  # it was ended in the middle of a line
                last = json.loads(line)
                yield last
        if not (last.get("end") or last.get("problem")):
            problem = (
                f"takes longer than {seconds:g} seconds"
                if late.is_set()
                else "takes more memory than allowed, or is broken"
            )
            yield {"problem": f"{problem}, and cannot be read"}
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


# -- in the process ----------------------------------------------------------------------------------------------------


def main(file: IO[bytes], out: IO[str]) -> None:
    """Write what is in a PDF, or why that cannot be read."""
    _limit_memory()

    def say(**told: Any) -> None:
        out.write(json.dumps(told) + "\n")
        out.flush()

    try:
        import pypdf
        from pypdf.errors import PyPdfError
    except ImportError:
        say(
            problem="is a PDF, and reading those needs an extra: install retain[pdf] from where you got retain"
        )
        return
    try:
        reader = pypdf.PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            say(problem="is encrypted: save it without its password first")
            return
        count = len(reader.pages)
        if count > MOST_PAGES:
            say(problem=f"has {count} pages, and at most {MOST_PAGES} are read")
            return
        say(title=_title(reader))
        for number in range(count):
            say(page=number + 1, text=reader.pages[number].extract_text() or "")
        say(end=True)
    except pypdf.errors.DependencyError:
        say(
            problem="is encrypted in a way that cannot be read here: save it without its password first"
        )
    except MemoryError:
        say(problem="takes more memory than allowed, and cannot be read")
    except (
        PyPdfError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
        RecursionError,
        OSError,
    ) as error:
        say(problem=f"is a damaged PDF, and cannot be read ({type(error).__name__})")


def _title(reader: Any) -> str:
    """The title that a PDF says it has; many say none, or one that cannot be read."""
    try:
        return " ".join(str(reader.metadata.title or "").split()) if reader.metadata else ""
    except Exception:  # whatever is wrong with it, the pages may be well
        return ""


def _limit_memory() -> None:
    """Where the system can: what takes more than that ends with an error instead of taking the machine with it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout)
