"""Tables and wrapped text for people."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.cli.output import display_width, print_table, wrap

ID = "01a1de0a-decd-717a-8ae0-a7b80cc07cd5"
HEAD = ("id", "agent", "created_at", "content")
ROWS = [
    (ID, "scout", "2026-11-15 07:10:16Z", "Ada prefers trains to planes."),
    (ID, "–", "2026-11-15 07:10:17Z", "日本語 and more"),
]


def test_piped_records_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEAD, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == list(HEAD)
    assert set(lines[1]) == {"─"}
    assert [re.split(" {2,}", line) for line in lines[2:]] == [list(row) for row in ROWS]
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("columns", [30, 60, 80])
def test_a_terminal_table_loses_nothing(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_table(HEAD, ROWS)
    printed = capsys.readouterr().out
    assert all(display_width(line) <= columns for line in printed.splitlines())
    cells = "".join("".join(row) for row in (HEAD, *ROWS))
    assert sorted(re.sub(r"[\s─]", "", printed)) == sorted(re.sub(r"\s", "", cells))


def test_a_single_record_has_no_header(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("", ""), [("id", ID), ("text", "two\nlines")])
    assert capsys.readouterr().out.splitlines() == [f"id    {ID}", "text  two", "      lines"]


def test_markup_in_a_cell_is_printed_verbatim(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("",), [("[bold]x[/bold] :smile: \x1b[31m",)])
    assert capsys.readouterr().out == "[bold]x[/bold] :smile: �[31m\n"


@given(st.text("ab 日é", max_size=80), st.integers(4, 40))
def test_wrapping_keeps_every_character(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(display_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
