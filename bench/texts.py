"""Sample texts from this machine: manuals, source code, logs, translations. None is stored."""

from __future__ import annotations

import base64
import gettext
import gzip
import html
import os
import random
import re
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

DEFAULT_FOLDERS = tuple(
    Path(place)
    for place in (
        "/usr/share",
        "/usr/include",
        "/usr/lib",
        "/var/log",
        os.__file__.rpartition("/")[0],
    )
)
"""Folders that have such texts on most systems."""

LANGUAGES = {
    "ar": "Arabic",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "en_us": "English",
    "es": "Spanish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pl": "Polish",
    "ru": "Russian",
    "th": "Thai",
    "vi": "Vietnamese",
    "zh": "Chinese",
    "zh_cn": "Chinese",
    "zh_hans": "Chinese",
    "zh_tw": "Chinese",
}
SCRIPTS = {"Arabic", "Chinese", "Greek", "Hebrew", "Hindi", "Japanese", "Korean", "Russian", "Thai"}
SUFFIXES = {
    ".c": "C",
    ".css": "CSS",
    ".csv": "CSV",
    ".go": "Go",
    ".h": "C",
    ".html": "HTML",
    ".js": "JavaScript",
    ".json": "JSON",
    ".log": "logs",
    ".md": "Markdown",
    ".po": "",
    ".py": "Python",
    ".rs": "Rust",
    ".sh": "shell",
    ".sql": "SQL",
    ".ts": "JavaScript",
    ".xml": "XML",
    ".yaml": "YAML",
    ".yml": "YAML",
}
MAX_CHARACTERS = 400_000
SAMPLE_CHARACTERS = (200, 6000)
_LANGUAGE = re.compile(
    r"/(?:man|help|fortunes|locale|resource|htmlhelp)/([a-z]{2}(?:[_-][A-Za-z]{2,4})?)/"
)


def samples(
    roots: Sequence[Path], per_class: int, seed: int = 1
) -> dict[str, list[tuple[str, str]]]:
    """Return up to `per_class` pieces of text per class, each with the name of its file.

    The lengths are distributed like those of messages. No package or folder supplies more than a
    quarter of a class.
    """
    files: dict[str, list[tuple[Path, str, Callable[[Path], str]]]] = {}
    for name, path, owner, reader in _files(roots):
        files.setdefault(name, []).append((path, owner, reader))
    results = {}
    for name in sorted(files):
        rng = random.Random(f"{seed} {name}")
        paths = sorted(files[name], key=lambda file: str(file[0]))
        rng.shuffle(paths)
        max_pieces = max(3, 2 * per_class // len(paths))
        pieces: list[tuple[str, str]] = []
        counts_by_owner: dict[str, int] = {}
        for path, owner, reader in paths:
            if len(pieces) >= per_class:
                break
            if counts_by_owner.setdefault(owner, 0) >= per_class // 4:
                continue
            try:
                text = reader(path)
            except (OSError, UnicodeError, EOFError, ValueError, KeyError):
                continue
            new_pieces = [
                (str(path), piece)
                for piece in _pieces(text, rng, max_pieces)
                if _native(name, piece)
            ]
            counts_by_owner[owner] += len(new_pieces)
            pieces += new_pieces
        if len(pieces) >= per_class // 10:
            results[name] = pieces[:per_class]
    results.update(_generated_strings(per_class, seed))
    return results


def held_out(file: str) -> bool:
    """Return whether a file is held out: a fixed third of them."""
    return zlib.crc32(file.encode()) % 3 == 0


def _pieces(text: str, rng: random.Random, max_pieces: int) -> Iterator[str]:
    """Yield up to `max_pieces` pieces of a text that do not overlap."""
    start = 0
    for _ in range(max_pieces):
        length = int(
            SAMPLE_CHARACTERS[0] * (SAMPLE_CHARACTERS[1] / SAMPLE_CHARACTERS[0]) ** rng.random()
        )
        piece = text[start : start + length].strip()
        if len(piece) >= SAMPLE_CHARACTERS[0] // 2:
            yield piece
        start += length + rng.randrange(5000)


def _native(name: str, piece: str) -> bool:
    """Return whether more than half of the letters are in the language's own script."""
    if name not in SCRIPTS:
        return True
    letters = [letter for letter in piece if letter.isalpha()]
    return 2 * sum(1 for letter in letters if letter > "\u036f") > len(letters)


def _files(roots: Sequence[Path]) -> Iterator[tuple[str, Path, str, Callable[[Path], str]]]:
    """Yield each text file: its class, its path, its two top folders, and a function to read it."""
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
            for name in names:
                path = Path(folder) / name
                kind, reader = _classify(path)
                if kind and "chatterbot" not in folder:
                    yield kind, path, "/".join(path.relative_to(root).parts[:2]), reader


def _classify(path: Path) -> tuple[str, Callable[[Path], str]]:
    plain = Path(path.name.removesuffix(".gz"))
    match = _LANGUAGE.search(f"{path}/")
    language = LANGUAGES.get(match[1].lower().replace("-", "_"), "") if match else ""
    if path.suffix == ".mo":
        return language, _messages
    if language and "/man/" in str(path):
        return language, _manual
    if language and path.suffix == ".html":
        return language, _page
    if language and "/fortunes/" in str(path) and plain.suffix in ("", ".u8", ".fortunes"):
        return language, _read
    if (
        "/common-licenses/" in str(path)
        or plain.suffix == ".txt"
        or plain.name in ("README", "NEWS")
        or "/bible" in str(path)
    ):
        return "English", _read
    if "/man/man" in str(path):
        return "English", _manual
    return SUFFIXES.get(plain.suffix, ""), _read


def _read(path: Path) -> str:
    if path.name.endswith(".gz"):
        with gzip.open(path) as file:
            return file.read(MAX_CHARACTERS).decode()
    if path.stat().st_size > 8 * MAX_CHARACTERS or path.is_symlink():
        raise ValueError(path)
    return path.read_bytes().decode()[:MAX_CHARACTERS]


def _manual(path: Path) -> str:
    """Return a manual page without its macros."""
    lines = [line for line in _read(path).split("\n") if not line.startswith((".", "'"))]
    text = (
        re.sub(r"\\f(?:\[\w*\]|\(..|.)|\\[&|^/]|\\s[-+]?\d", "", "\n".join(lines))
        .replace("\\-", "-")
        .replace("\\(aq", "'")
    )
    return re.sub(r"\\\(?\[?\w*\]?", "", text)


def _page(path: Path) -> str:
    """Return the text of a help page without its markup."""
    text = re.sub(r"(?s)<(script|style|head).*?</\1>|<[^>]+>", " ", _read(path))
    return re.sub(r"[ \t]*\n\s*", "\n", re.sub(r"[ \t]+", " ", html.unescape(text)))


def _messages(path: Path) -> str:
    """Return the sentences of a translation catalogue."""
    with path.open("rb") as file:
        catalogue = gettext.GNUTranslations(file)
    texts: dict[object, str] = getattr(catalogue, "_catalog", {})
    return "\n".join(text for key, text in texts.items() if key and len(text) > 30 and text != key)[
        :MAX_CHARACTERS
    ]


def _reaction(rng: random.Random) -> str:
    """Return short chat messages of words and emoji."""
    words = rng.sample(
        ["thanks", "so good", "Yes!", "haha", "see you", "no way", "on my way", "love it", "ok"],
        rng.randrange(3),
    )
    faces = [chr(rng.randrange(0x1F300, 0x1F650)) for _ in range(rng.randrange(1, 4))]
    joiner = rng.choice(["", "", "\u200d", "\ufe0f", "\U0001f3fd"])
    return " ".join([*words, joiner.join(faces)])


def _generated_strings(per_class: int, seed: int) -> dict[str, list[tuple[str, str]]]:
    """Return generated strings: encoded bytes, digests, identifiers, numbers, emoji."""
    rng = random.Random(seed)
    makers: dict[str, Callable[[int], str]] = {
        "base64": lambda size: base64.b64encode(rng.randbytes(size * 3 // 4)).decode(),
        "hex": lambda size: rng.randbytes(size // 2).hex(),
        "UUIDs": lambda size: "\n".join(
            str(uuid.UUID(bytes=rng.randbytes(16), version=4)) for _ in range(size // 37 + 1)
        ),
        "digits": lambda size: "\n".join(
            str(rng.getrandbits(rng.randrange(30, 130))) for _ in range(size // 22 + 1)
        ),
        "emoji": lambda size: " ".join(_reaction(rng) for _ in range(size // 12 + 1)),
        "numbers": lambda size: " ".join(
            f"{rng.lognormvariate(3, 3):.{rng.randrange(5)}f}" for _ in range(size // 6)
        ),
    }
    return {
        name: [
            (
                f"{name} {n}",
                maker(
                    int(
                        SAMPLE_CHARACTERS[0]
                        * (SAMPLE_CHARACTERS[1] / SAMPLE_CHARACTERS[0]) ** rng.random()
                    )
                ),
            )
            for n in range(per_class)
        ]
        for name, maker in makers.items()
    }
