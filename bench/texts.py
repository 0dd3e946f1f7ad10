"""Sample texts from this machine: manuals, sources, logs, translations. Nothing is copied."""

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
"""The default folders."""

LANGUAGES = {
    "ar": "Arabic", "de": "German", "el": "Greek", "es": "Spanish", "fr": "French", "he": "Hebrew", "hi": "Hindi",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "pl": "Polish", "ru": "Russian", "th": "Thai", "vi": "Vietnamese",
    "zh_cn": "Chinese", "zh_tw": "Chinese", "zh": "Chinese", "zh_hans": "Chinese", "en_us": "English", "en": "English",
}  # fmt: skip
SCRIPTS = {"Arabic", "Chinese", "Greek", "Hebrew", "Hindi", "Japanese", "Korean", "Russian", "Thai"}
SUFFIXES = {
    ".c": "C", ".css": "CSS", ".go": "Go", ".h": "C", ".html": "HTML", ".js": "JavaScript", ".json": "JSON", ".log": "logs",
    ".md": "Markdown", ".po": "", ".py": "Python", ".rs": "Rust", ".sh": "shell", ".sql": "SQL", ".ts": "JavaScript",
    ".xml": "XML", ".yaml": "YAML", ".yml": "YAML", ".csv": "CSV",
}  # fmt: skip
LARGEST = 400_000
SAMPLE = (200, 6000)
_LANGUAGE = re.compile(
    r"/(?:man|help|fortunes|locale|resource|htmlhelp)/([a-z]{2}(?:[_-][A-Za-z]{2,4})?)/"
)


def samples(
    roots: Sequence[Path], per_class: int, seed: int = 1
) -> dict[str, list[tuple[str, str]]]:
    """Up to so many pieces of each class, each with the file that it is from; lengths are spread as messages' are.

    No package or folder gives more than a quarter of a class.
    """
    files: dict[str, list[tuple[Path, str, Callable[[Path], str]]]] = {}
    for name, path, owner, reader in _files(roots):
        files.setdefault(name, []).append((path, owner, reader))
    results = {}
    for name in sorted(files):
        rng = random.Random(f"{seed} {name}")
        paths = sorted(files[name], key=lambda file: str(file[0]))
        rng.shuffle(paths)
        most = max(3, 2 * per_class // len(paths))
        pieces: list[tuple[str, str]] = []
        timings: dict[str, int] = {}
        for path, owner, reader in paths:
            if len(pieces) >= per_class:
                break
            if timings.setdefault(owner, 0) >= per_class // 4:
                continue
            try:
                text = reader(path)
            except (OSError, UnicodeError, EOFError, ValueError, KeyError):
                continue
            found_here = [
                (str(path), piece) for piece in _pieces(text, rng, most) if _native(name, piece)
            ]
            timings[owner] += len(found_here)
            pieces += found_here
        if len(pieces) >= per_class // 10:
            results[name] = pieces[:per_class]
    results.update(_machine_made(per_class, seed))
    return results


def held_out(file: str) -> bool:
    """Return whether a file is held out: a fixed third of them."""
    return zlib.crc32(file.encode()) % 3 == 0


def _pieces(text: str, rng: random.Random, most: int) -> Iterator[str]:
    """Return a few distinct pieces of a text, cut at spaces or lines."""
    place = 0
    for _ in range(most):
        length = int(SAMPLE[0] * (SAMPLE[1] / SAMPLE[0]) ** rng.random())
        piece = text[place : place + length].strip()
        if len(piece) >= SAMPLE[0] // 2:
            yield piece
        place += length + rng.randrange(5000)


def _native(name: str, piece: str) -> bool:
    """Return whether at least half of the letters are of the language's own script."""
    if name not in SCRIPTS:
        return True
    letters = [letter for letter in piece if letter.isalpha()]
    return 2 * sum(1 for letter in letters if letter > "\u036f") > len(letters)


def _files(roots: Sequence[Path]) -> Iterator[tuple[str, Path, str, Callable[[Path], str]]]:
    """Yield text files with their class and their two top folders."""
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
            return file.read(LARGEST).decode()
    if path.stat().st_size > 8 * LARGEST or path.is_symlink():
        raise ValueError(path)
    return path.read_bytes().decode()[:LARGEST]


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
        :LARGEST
    ]


def _reaction(rng: random.Random) -> str:
    """Return short chat messages of words and emoji."""
    words = rng.sample(
        ["thanks", "so good", "Yes!", "haha", "see you", "no way", "on my way", "love it", "ok"],
        rng.randrange(3),
    )
    faces = [chr(rng.randrange(0x1F300, 0x1F650)) for _ in range(rng.randrange(1, 4))]
    joined = rng.choice(["", "", "\u200d", "\ufe0f", "\U0001f3fd"])
    return " ".join([*words, joined.join(faces)])


def _machine_made(per_class: int, seed: int) -> dict[str, list[tuple[str, str]]]:
    """Return machine-made strings: encoded bytes, digests, identifiers."""
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
            (f"{name} {n}", maker(int(SAMPLE[0] * (SAMPLE[1] / SAMPLE[0]) ** rng.random())))
            for n in range(per_class)
        ]
        for name, maker in makers.items()
    }
