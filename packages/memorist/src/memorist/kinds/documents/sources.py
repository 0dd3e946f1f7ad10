"""Sources of documents: texts, bytes, files and folders."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from memorist.base import canonical, masking
from memorist.base.errors import Invalid, MemoristError, TooLarge
from memorist.base.masking import OFF, Policy
from memorist.kinds.documents.document import Document, Loaded, Outcome
from memorist.text import file_text
from memorist.text.file_text import Media, Read

Progress = Callable[[int, int], None]
_MAX_TITLE_CHARACTERS = 200


@dataclass(frozen=True)
class Source:
    """The source of a document."""

    title: str  # empty if none was given
    path: str
    digest: str
    bytes: int
    read: Callable[[], Read]  # called only if the document is new or changed
    media: str = ""

    @property
    def place(self) -> str:
        """The key of the document among the documents of its user."""
        return f"path {self.path}" if self.path else f"title {self.title}"

    def title_of(self, content: Read) -> str:
        """Return the title: as passed by the caller, or from the document, or its file name."""
        return self.title or one_line(content.title) or one_line(Path(self.path).name)

    def is_same(self, existing: Document) -> bool:
        """Return whether a stored document already has the content of this source."""
        return (
            existing.digest == self.digest
            and self.title in ("", existing.title)
            and self.media in ("", existing.media)
        )


def from_text(title: str, text: str, path: str, media: Media | None, limit: int) -> Source:
    """Return the source of a text; the default title is its first heading."""
    _check_media(media)
    path = canonical.key(path, "path") if path else ""
    content = file_text.read_text(text, media or file_text.by_name(path), limit)
    title = one_line(canonical.text(title, "title", limit)) or one_line(content.title)
    if not title and not path:
        raise Invalid(field="title", problem="must not be blank")
    data = content.original.encode()
    return Source(title, path, _digest(data), len(data), lambda: content, content.media)


def from_file(file: str | Path, title: str, limit: int) -> Source:
    """Return the source of a file."""
    path = canonical.key(Path(os.path.normpath(file)).as_posix(), "file")
    data = _read_bytes(Path(file), limit)
    title = one_line(canonical.text(title, "title", limit))
    return Source(
        title, path, _digest(data), len(data), lambda: file_text.read_file(data, path, limit)
    )


def from_data(data: bytes, title: str, path: str, media: Media | None, limit: int) -> Source:
    """Return the source of the bytes of an uploaded file."""
    _check_media(media)
    path = canonical.key(path, "path") if path else ""
    if len(data) > limit:
        raise TooLarge(field="file", size=len(data), unit="bytes", limit=limit)
    suffix = next((suffix for suffix, kind in file_text.SUFFIXES.items() if kind == media), "")
    title = one_line(canonical.text(title, "title", limit))
    name = f"file{suffix}" if suffix else path
    read = functools.cache(lambda: file_text.read_file(data, name, limit))
    if not title and not path:
        title = one_line(read().title)
    if not title and not path:
        raise Invalid(field="title", problem="must not be blank")
    return Source(title, path, _digest(data), len(data), read, media or "")


def _check_media(media: Any) -> None:
    if media is not None:
        canonical.one_of(media, "media", file_text.MEDIA)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def one_line(title: str) -> str:
    """Return a title as one line of visible characters, short enough for a key."""
    start = title[: 4 * _MAX_TITLE_CHARACTERS]
    visible = "".join([letter if letter.isprintable() else " " for letter in start])
    line = " ".join(visible.split())
    if len(line) > _MAX_TITLE_CHARACTERS:
        line = line[: _MAX_TITLE_CHARACTERS - 1].rstrip() + "…"
    while len(line.encode()) > canonical.MAX_KEY_BYTES - len("title "):
        line = line[:-1]
    return line


# -- masking -----------------------------------------------------------------------------------


def mask(source: Source, policy: Policy) -> Source:
    """Return a source with secrets and personal data masked or rejected, as set by the policy."""
    if policy is OFF:
        return source
    if source.path:
        canonical.key(source.path, "path", policy)
    title = masking.guard(source.title, "title", policy)
    return replace(source, title=title, read=lambda: _mask_content(source.read(), policy))


def _mask_content(content: Read, policy: Policy) -> Read:
    """Mask the text of a document page by page, so that the positions of pages stay correct."""
    starts = content.pages or (0,)
    ends = (*content.pages[1:], len(content.text))
    texts = [
        masking.guard(content.text[start:end], "text", policy)
        for start, end in zip(starts, ends, strict=True)
    ]
    pages: tuple[int, ...] = ()
    if content.pages:
        pages = tuple(accumulate([len(text) for text in texts[:-1]], initial=0))
    title = masking.guard(content.title, "title", policy)
    return replace(content, text="".join(texts), title=title, pages=pages)


# -- files and folders -------------------------------------------------------------------------


def load(
    paths: Sequence[str | Path],
    title: str,
    pattern: str | None,
    limit: int,
    add: Callable[[Source], Outcome],
    progress: Progress | None,
) -> Loaded:
    """Add each file and return the outcomes; an unreadable file does not stop the others."""
    files = list(find_files(paths, pattern))
    if title and len(files) > 1:
        raise Invalid(
            field="title", problem=f"applies to a single file, but there are {len(files)}"
        )
    loaded = Loaded()
    for number, file in enumerate(files):
        if progress:
            progress(number, len(files))
        try:
            outcome = add(from_file(file, title, limit))
        except Invalid as error:  # other errors, such as those of the database, stop the run
            loaded.failed[file] = failure_reason(error)
        except MemoryError:
            loaded.failed[file] = "takes too much memory"
        else:
            getattr(loaded, outcome).append(file)
    if progress:
        progress(len(files), len(files))
    return loaded


def check_readable(source: Source) -> Outcome:
    """Read a source without storing it, as if it were new."""
    source.read()
    return "added"


def find_files(paths: Sequence[str | Path], pattern: str | None) -> Iterator[str]:
    """Yield the named files, and the documents in named folders, or files that match a pattern.

    Skips hidden files and folders, and does not follow links to folders.
    """
    seen = set()
    for path in paths:
        files = _files_in(Path(path), pattern) if Path(path).is_dir() else [Path(path)]
        for file in files:
            if str(file) not in seen:
                seen.add(str(file))
                yield str(file)


def _files_in(folder: Path, pattern: str | None) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith("."):
                continue
            file = Path(parent, name)
            if pattern is None:
                is_wanted = file_text.by_name(name) is not None
            else:
                relative = file.relative_to(folder).as_posix()
                is_wanted = fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(relative, pattern)
            if is_wanted:
                yield file


def failure_reason(error: MemoristError) -> str:
    """Return a short reason why a file could not be added."""
    return str(error.details.get("problem") or str(error).partition(": ")[2] or error)


def _read_bytes(file: Path, limit: int) -> bytes:
    """Return the bytes of a regular file; raise if there are more than the limit."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise Invalid(field="file", problem="is not a file")
        with file.open("rb") as opened:
            data = opened.read(limit + 1)
    except OSError as error:
        raise Invalid(field="file", problem=f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise Invalid(field="file", problem="is not a valid file name") from None
    if len(data) > limit:
        raise TooLarge(field="file", size=file.stat().st_size, unit="bytes", limit=limit)
    return data
