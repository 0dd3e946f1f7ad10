"""What a document is, wherever one is spoken of: its record, its passages, and the files that documents are read from."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

from retain.base import canonical, clock, masking
from retain.base.errors import Invalid, RetainError, TooLarge
from retain.base.masking import Mode
from retain.search import chunk
from retain.text import documents
from retain.text.documents import Media, Read

Outcome = Literal["added", "replaced", "unchanged"]
Progress = Callable[[int, int], None]

_LONGEST_TITLE = 200


@dataclass(frozen=True)
class Document:
    """A document: `digest` and `bytes` are of what it was read from; `user` is None for one of the whole tenant."""

    id: str
    title: str
    path: str
    media: str
    digest: str
    bytes: int
    chunks: int
    user: str | None
    source: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Passage:
    """A chunk of a document: `title` are the headings over it, `start` is its place in the document's text."""

    document: str
    seq: int
    title: str
    text: str
    start: int
    page: int | None


@dataclass(frozen=True)
class Loaded:
    """What became of files, by their paths: those that could not be read have the reason."""

    added: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """What a document is made from: what it is to be called if that is said, and how it is read if that is needed."""

    title: str
    path: str
    digest: str
    bytes: int
    read: Callable[[], Read]
    media: str = ""

    @property
    def place(self) -> str:
        """What it is known by among the documents of its user."""
        return f"path {self.path}" if self.path else f"title {self.title}"

    def called(self, read: Read) -> str:
        """Its title: the one that was given, the one that it has, or its name."""
        return self.title or one_line(read.title) or one_line(Path(self.path).name)

    def same(self, there: Document) -> bool:
        """Whether a document is there as it would be written."""
        return (
            there.digest == self.digest
            and self.title in ("", there.title)
            and self.media in ("", there.media)
        )


def document(row: Sequence[Any]) -> Document:
    """The record of a row."""
    id, title, path, media, digest, size, chunks, user, source, created, updated = row
    times = clock.to_datetime(created), clock.to_datetime(updated)
    return Document(id, title, path, media, digest, size, chunks, user or None, source, *times)


def from_text(title: str, text: str, path: str, media: Media | None, limit: int) -> Source:
    """A document out of a text; one without a title is called as it calls itself."""
    _known(media)
    path = canonical.key(path, "path") if path else ""
    made = documents.read_text(text, media or documents.by_name(path), limit)
    called = one_line(canonical.text(title, "title", limit)) or one_line(made.title)
    if not (called or path):
        raise Invalid(field="title", problem="must not be blank")
    data = made.given.encode()
    return Source(called, path, _digest(data), len(data), lambda: made, made.media)


def _known(media: Any) -> None:
    if media is not None and media not in documents.MEDIA:
        raise Invalid(
            field="media",
            problem=f"must be one of {', '.join(documents.MEDIA)}, not {str(media)[:50]!r}",
        )


def guarded(made: Source, secrets: Mode) -> Source:
    """A document as it may be written."""
    if secrets == "off":
        return made
    if made.path:
        canonical.key(made.path, "path", secrets)
    title = masking.guard(made.title, "title", secrets)
    return replace(made, title=title, read=lambda: _guarded(made.read(), secrets))


def _guarded(read: Read, secrets: Mode) -> Read:
    """What a document says, page by page, where it has pages."""
    ends = (*read.pages[1:], len(read.text))
    said = [
        masking.guard(read.text[a:b], "text", secrets)
        for a, b in zip(read.pages or (0,), ends, strict=True)
    ]
    starts = tuple(accumulate((len(page) for page in said[:-1]), initial=0)) if read.pages else ()
    return replace(
        read, text="".join(said), title=masking.guard(read.title, "title", secrets), pages=starts
    )


def from_file(file: str | Path, title: str, limit: int) -> Source:
    """A document out of a file."""
    path = canonical.key(Path(os.path.normpath(file)).as_posix(), "file")
    data = _content(Path(file), limit)
    called = one_line(canonical.text(title, "title", limit))
    return Source(
        called, path, _digest(data), len(data), lambda: documents.read_file(data, path, limit)
    )


def from_data(data: bytes, title: str, path: str, media: Media | None, limit: int) -> Source:
    """A document out of the bytes of a file that is elsewhere."""
    _known(media)
    path = canonical.key(path, "path") if path else ""
    if len(data) > limit:
        raise TooLarge(field="file", size=len(data), unit="bytes", limit=limit)
    suffix = next((suffix for suffix, kind in documents.SUFFIXES.items() if kind == media), "")
    called = one_line(canonical.text(title, "title", limit))
    read = functools.cache(
        lambda: documents.read_file(data, f"file{suffix}" if suffix else path, limit)
    )
    if not (called or path):
        called = one_line(read().title)
    if not (called or path):
        raise Invalid(field="title", problem="must not be blank")
    return Source(called, path, _digest(data), len(data), read, media or "")


def files(paths: Sequence[str | Path], pattern: str | None) -> Iterator[str]:
    """The files that are meant: those that are named, and of folders all that can be documents, or that fit a pattern.

    Hidden files and folders are left out, and links to folders are not followed.
    """
    seen = set()
    for given in paths:
        found = _inside(Path(given), pattern) if Path(given).is_dir() else [Path(given)]
        for file in found:
            if str(file) not in seen:
                seen.add(str(file))
                yield str(file)


def load(
    paths: Sequence[str | Path],
    title: str,
    pattern: str | None,
    limit: int,
    keep: Callable[[Source], Outcome],
    progress: Progress | None,
) -> Loaded:
    """What becomes of files with each of which something is done; one that cannot be read does not stop the others."""
    found = list(files(paths, pattern))
    if title and len(found) > 1:
        raise Invalid(field="title", problem=f"is for one file, and there are {len(found)}")
    done = Loaded()
    for number, file in enumerate(found):
        if progress:
            progress(number, len(found))
        try:
            outcome = keep(from_file(file, title, limit))
            getattr(done, outcome).append(file)
        except (
            Invalid,
            MemoryError,
        ) as error:  # what is wrong with a file; the database's troubles stop everything
            done.failed[file] = (
                why(error) if isinstance(error, RetainError) else "takes too much memory"
            )
    if progress:
        progress(len(found), len(found))
    return done


def as_new(made: Source) -> Outcome:
    """What becomes of a document where there is none yet, if it can be read."""
    made.read()
    return "added"


def _inside(folder: Path, pattern: str | None) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(here, name)
            within = file.relative_to(folder).as_posix()
            if pattern is None:
                wanted = documents.by_name(name) is not None
            else:
                wanted = fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(within, pattern)
            if wanted and not name.startswith("."):
                yield file


def why(error: RetainError) -> str:
    """Why a file could not be added, in a few words."""
    return str(error.details.get("problem") or str(error).partition(": ")[2] or error)


def _content(file: Path, limit: int) -> bytes:
    """The bytes of a file; only of a real one, and no more than allowed."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise Invalid(field="file", problem="is no file")
        with file.open("rb") as opened:
            data = opened.read(limit + 1)
    except OSError as error:
        raise Invalid(field="file", problem=f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise Invalid(field="file", problem="has a name that no file can have") from None
    if len(data) > limit:
        raise TooLarge(field="file", size=file.stat().st_size, unit="bytes", limit=limit)
    return data


def one_line(said: str) -> str:
    """A title as one line, without what cannot be seen."""
    line = " ".join(
        "".join(
            letter if letter.isprintable() else " " for letter in said[: 4 * _LONGEST_TITLE]
        ).split()
    )
    line = line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1].rstrip() + "…"
    while len(line.encode()) > canonical.MAX_KEY_BYTES - len("title "):
        line = line[:-1]
    return line


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def chunks(read: Read) -> list[dict[str, Any]]:
    """A document as rows: its chunks, each with the blanks behind it, so that all together are its text."""
    found: list[tuple[chunk.Chunk, int | None]] = []
    if read.pages:
        ends = [*read.pages[1:], len(read.text)]
        for number, (start, end) in enumerate(zip(read.pages, ends, strict=True), 1):
            for part in chunk.split(read.text[start:end]):
                shifted = chunk.Chunk(
                    f"p. {number}", part.text, start + part.start, start + part.end
                )
                found.append((shifted, number))
    else:
        markup: chunk.Markup = "text" if read.media == "text" else "markdown"
        found = [(part, None) for part in chunk.split(read.text, markup)]
    starts = [0, *(part.start for part, _ in found[1:]), len(read.text)]
    return [
        {
            "seq": n + 1,
            "title": part.title,
            "text": read.text[starts[n] : starts[n + 1]],
            "start": starts[n],
            "page": page,
        }
        for n, (part, page) in enumerate(found)
    ]


def headed(title: str, headings: str) -> str:
    """How a chunk is cited: its document, then the headings over it, without saying the title twice."""
    if headings == title or headings.startswith(title + chunk.ARROW):
        return headings
    return chunk.titled(title, *headings.split(chunk.ARROW)) if headings else title
