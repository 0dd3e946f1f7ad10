"""Formats of other packages: found by their entry points, and how to install what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base.errors import Invalid
from memorist.base.extensions import IMPORTERS
from memorist.cli import main
from memorist.importing import Importer, ImportSource, detect_format, formats, import_from
from memorist.importing.records import ImportedEntry, Record
from testkit.databases import one_engine
from testkit.failures import invalid


def read_diary(source: ImportSource) -> Iterator[Record]:
    """Yield every line of a file as an entry."""
    for number, line in enumerate(Path(source.location).read_text().splitlines()):
        yield ImportedEntry(str(number), line, agent="diary")


DIARY = Importer(read_diary, is_personal=True, beginning="^Dear diary")


def install(monkeypatch: pytest.MonkeyPatch, **importers: str) -> None:
    """Replace the installed importers."""
    points = {name: EntryPoint(name, value, IMPORTERS) for name, value in importers.items()}
    monkeypatch.setattr("memorist.importing.registry.extensions", lambda group: points)


@one_engine
def test_a_package_adds_a_format(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, diary=f"{__name__}:DIARY")
    assert formats() == ["diary", "sql"]
    file = tmp_path / "diary.txt"
    file.write_text("Dear diary, Clara moved to Lisbon.\n")
    assert detect_format(file) == "diary"
    with pytest.raises(Invalid, match="user: is required"):
        import_from(memory, file, "diary")
    invalid("map", import_from, memory, file, "diary", user="ada", map="lines")
    report = import_from(memory, file, "diary", user="ada")
    assert report.written == {"entries": 1}
    assert memory.scope(user="ada", agent="diary").entries.search("where is Clara")


def test_a_format_of_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch)
    file = tmp_path / "mem0.json"
    file.write_text('[{"memory": "likes tea"}]')
    command = ["import", str(file), "--from", "mem0", "--user", "ada", "--database", "memory:"]
    assert main.main(command) == 2
    assert "pip install 'memorist[importers]'" in capsys.readouterr().err
    assert detect_format(file) is None
