"""Archives that unpack to hundreds of megabytes, given to `memorist import`."""

from __future__ import annotations

import zipfile
from pathlib import Path

import psutil
import pytest

from memorist.cli import main

UNPACKED = 400 << 20
PIECE = b"[" + b" " * ((1 << 20) - 2) + b"]"


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an archive with one file of spaces."""
    path = tmp_path_factory.mktemp("bombs") / "bomb.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("conversations.json", "w", force_zip64=True) as file,
    ):
        for _ in range(UNPACKED // len(PIECE)):
            file.write(PIECE)
    return path


def lying(bomb: Path, claimed: int) -> bytes:
    """Return the archive with another size of its file in the directory at its end."""
    data = bytearray(bomb.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    data[entry + 24 : entry + 28] = claimed.to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize("claimed", [None, 100, 32 << 20], ids=["true size", "tiny", "small"])
@pytest.mark.parametrize("format", ["chatgpt", "claude"])
def test_an_archive_bomb_is_rejected(
    bomb: Path, tmp_path: Path, format: str, claimed: int | None
) -> None:
    """Also one whose directory gives a smaller size: nothing is imported, and memory stays flat."""
    path = tmp_path / "bomb.zip"
    path.write_bytes(bomb.read_bytes() if claimed is None else lying(bomb, claimed))
    with zipfile.ZipFile(path) as archive:
        (member,) = archive.infolist()
        assert member.file_size == (UNPACKED if claimed is None else claimed)
    before = psutil.Process().memory_info().rss
    database = f"sqlite:///{tmp_path}/a.db"
    words = ["import", str(path), "--from", format, "--user", "ada", "--database", database]
    assert main.main(words) == 2
    assert psutil.Process().memory_info().rss - before < 200 << 20
    assert not (tmp_path / "a.db").exists() or main.main(["verify", "--database", database]) == 0
