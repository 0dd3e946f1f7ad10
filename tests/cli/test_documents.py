"""`memorist documents`: files, folders, text from a pipe, and a machine-readable report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memorist.cli.main import main
from testkit import pdfs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text("# Guide\n\nThe penguin lives here.")
    (tmp_path / "docs" / "bad.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "paper.pdf").write_bytes(pdfs.pdf("About whales", title="Paper"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMORIST_DATABASE", f"sqlite:///{tmp_path}/agent.db")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main([*words])
    output = capsys.readouterr()
    return status, output.out, output.err


def test_files_and_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bad file does not stop the rest, and sets the exit status."""
    status, out, err = run(capsys, "documents", "add", "paper.pdf", "docs", "--user", "ada")
    assert status == 1
    assert out.splitlines() == ["added  paper.pdf", "added  docs/guide.md", "2 added, 1 failed."]
    assert "failed  docs/bad.pdf" in err
    status, out, err = run(
        capsys, "documents", "add", "docs", "--pattern", "*.md", "--user", "ada", "--json"
    )
    assert (status, json.loads(out)) == (
        0, {"added": [], "replaced": [], "unchanged": ["docs/guide.md"], "failed": {}}
    )  # fmt: skip
    _, out, _ = run(capsys, "documents", "list", "--user", "ada", "--json")
    listed = json.loads(out)["data"]
    assert sorted((item["title"], item["path"], item["media"]) for item in listed) == [
        ("Guide", "docs/guide.md", "markdown"), ("Paper", "paper.pdf", "pdf")
    ]  # fmt: skip
    _, out, _ = run(capsys, "documents", "passages", listed[0]["id"], "--user", "ada")
    assert "The penguin lives here." in out or "About whales" in out
    assert run(capsys, "documents", "list", "--user", "bob")[1] == "No results.\n"


def test_a_dry_run_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "documents", "add", "paper.pdf")
    status, out, _ = run(
        capsys, "documents", "add", "docs", "paper.pdf", "--dry-run", "--pattern", "*.md"
    )
    assert (status, out.splitlines()) == (
        0, ["would be added  docs/guide.md", "1 added, 1 unchanged; nothing was written."]
    )  # fmt: skip
    assert json.loads(run(capsys, "documents", "counts", "--json")[1])["documents"] == 1


def test_a_dry_run_needs_no_database(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "documents", "add", "docs", "paper.pdf", "--dry-run")
    assert status == 1
    assert out.splitlines() == [
        "would be added  docs/guide.md", "would be added  paper.pdf", "2 added, 1 failed; nothing was written."
    ]  # fmt: skip
    assert "failed  docs/bad.pdf" in err
    assert not list(folder.glob("agent.db*"))


def test_search_in_documents_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "documents", "add", "paper.pdf", "docs/guide.md")
    status, out, _ = run(
        capsys, "documents", "search", "where does the penguin live", "--limit", "1"
    )
    assert status == 0
    assert "Guide" in out
    assert "The penguin lives here." in out
    _, out, _ = run(capsys, "documents", "search", "whales", "--json")
    assert json.loads(out)["data"][0]["title"] == "Paper › p. 1"


def test_a_title_needs_a_single_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "documents", "add", "paper.pdf", "--title", "Whales")[0] == 0
    assert "Whales" in run(capsys, "documents", "list")[1]
    status, _, err = run(capsys, "documents", "add", "docs", "paper.pdf", "--title", "Whales")
    assert (status, "applies to a single file" in err) == (2, True)
    status, _, err = run(capsys, "documents", "add", "-")
    assert (status, "--title: is required" in err) == (2, True)
    status, _, err = run(capsys, "documents", "add", "-", "paper.pdf", "--title", "x")
    assert (status, "cannot be combined with files" in err) == (2, True)


def test_an_empty_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    assert run(capsys, "documents", "add", "empty")[:2] == (0, "No documents found.\n")
