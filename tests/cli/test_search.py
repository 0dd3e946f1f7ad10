"""`retain search`: a readable list with commands to open each hit."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from retain import Memory
from retain.cli.main import main
from retain.kinds.graph import Entity
from tests.cli.commands import BOTH, Run, answer
from tests.conftest import SETTINGS

Print = Callable[..., str]
LONG = (
    "Nothing of note happened then. " * 40
    + "The night train to Lisbon leaves at nine. "
    + "And so it went on. " * 40
)


def fill(url: str) -> None:
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="default", user="ada", agent="scout")
        me.sessions.add("a trip", label="A trip")
        me.messages.append("a trip", "user", "How do we get to Lisbon?")
        me.messages.append("a trip", "assistant", LONG)
        me.messages.append("a trip", "user", "Fine, the train then.\x1b[31m\x07 red")
        me.notes.overwrite("# Travel\n\n## Trains\n\nA window seat on every train.")
        me.entries.add("Ada prefers trains.", kind="core")
        me.refs.add("timetable\n" * 30, "The timetable of the train", key="timetable-1")
        me.state.set("train", "the night train")
        me.state.set("train", "the day train", area="session:a trip")
        me.knowledge.add("Railways", "# Night trains\n\nA night train has beds.")
        me.items.put(("travel", "by, rail"), "night train", {"text": "The night train has a bar."})
        me.items.put(("travel", "rail"), "bar", {"text": "The train to Lisbon has a bar."})
        memory.scope(tenant="default").items.put(
            ("travel",), "day", {"text": "The train of the tenant."}
        )
        me.graph.add([Entity("The train", "vehicle", ["It is blue."])])


@pytest.fixture
def shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Print:
    """Return the output of a command run in this process, preceded by a nonzero exit status."""
    url = f"sqlite:///{tmp_path}/agent.db"
    fill(url)
    monkeypatch.chdir(tmp_path)

    def print_it(command: str, *, terminal: bool = False, **env: str) -> str:
        for name, value in {"COLUMNS": "80", "TERM": "xterm", **env}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
        status = main([*shlex.split(command.removeprefix("retain ")), "--database", url])
        printed = capsys.readouterr()
        return printed.out if status == 0 else f"{status} {printed.err}"

    return print_it


def test_a_readable_list(shown: Print) -> None:
    """Number, kind, time, author, excerpt, how to open it, score."""
    lines = shown(
        'retain search "when does the night train to Lisbon leave" --kind messages'
    ).splitlines()
    first = next(place for place, line in enumerate(lines) if "The night train to Lisbon" in line)
    head = next(line for line in reversed(lines[:first]) if not line.startswith("    "))
    assert re.match(
        r" *\d  messages  \d{4}-\d\d-\d\d \d\d:\d\d  scout  in a trip, 2 +0\.\d\d$", head
    )
    text = "\n".join(line for line in lines[first - 2 : first + 3] if line.startswith("    "))
    assert "…" in text
    assert "retain messages get 'a trip' 2" in "\n".join(lines)
    assert all(len(line) <= 100 for line in lines)
    assert "\x1b" not in "\n".join(lines)
    assert "Searched by words and by meaning." in lines[-2]


def test_every_kind_has_a_command_that_opens_it(shown: Print) -> None:
    """Each such command works."""
    printed = shown("retain search train --limit 50") + shown(
        "retain search train --limit 50 --user ada"
    )
    commands = [line.strip() for line in printed.splitlines() if line.strip().startswith("retain ")]
    kinds = {command.split()[1] for command in commands}
    assert kinds == {
        "messages",
        "notes",
        "entries",
        "refs",
        "state",
        "items",
        "knowledge",
        "search",
    }
    words = ("train", "timetable", "lisbon")
    assert all(any(word in shown(command).lower() for word in words) for command in commands)


def test_matches_are_highlighted_on_a_terminal_only(shown: Print) -> None:
    """Stored text cannot move the cursor or change colours."""
    coloured = shown("retain search lisbon --kind messages", terminal=True)
    assert "\x1b[1mLisbon\x1b[0m" in coloured
    assert "\x1b[31m" not in shown("retain search red --kind messages", terminal=True)
    for plain in (
        shown("retain search lisbon --kind messages", terminal=True, NO_COLOR="1"),
        shown("retain search lisbon --kind messages", terminal=True, TERM="dumb", NO_COLOR=""),
        shown("retain search lisbon --kind messages"),
    ):
        assert "\x1b" not in plain
        assert "Lisbon" in plain
    narrow = shown(
        "retain search lisbon --kind messages", terminal=True, COLUMNS="50", NO_COLOR="1"
    )
    assert all(
        len(line) <= 50 for line in narrow.splitlines() if not line.strip().startswith("retain ")
    )


def test_why(shown: Print) -> None:
    """Signals, rankers and neighbours of a hit."""
    printed = shown('retain search "night train" --session "a trip" --kind messages --why')
    assert re.search(r"why: .*\b(words|answer|length)[a-z ]* [+-]\d\.\d\d", printed)
    assert "found by: words" in printed
    assert "before: How do we get to Lisbon?" in printed
    assert "why:" not in shown('retain search "night train"')


def test_an_empty_result_suggests_what_to_try(shown: Print) -> None:
    printed = shown("retain search xyzzy --kind notes --user bob")
    assert "Nothing was found in notes. Try other words, or without --kind and --user." in printed
    assert shown(
        "retain search xyzzy --kind state --session 'a trip' --since 2020-01-01"
    ).startswith("Nothing was found")


def test_the_rankers_that_ran(shown: Print) -> None:
    assert "texts have no vector yet and are found by words only; `retain jobs` computes" in shown(
        "retain search train"
    ).replace("\n", " ")
    shown("retain jobs")
    last = shown("retain search train").splitlines()[-1]
    assert last == "Searched by words and by meaning."
    without = shown("retain search train", RETAIN_EMBEDDER="none").splitlines()[-1]
    assert without == "Searched by words. Not by meaning: no embedder is set."


def test_errors_name_the_cause(shown: Print) -> None:
    assert shown("retain search x --since yesterday").startswith(
        "2 retain: since: must be a time like 2026-01-31T12:00:00Z"
    )
    assert shown("retain search x --session nowhere").startswith("3 ")
    assert shown("retain search x --limit 0").startswith("2 retain: limit")
    with pytest.raises(SystemExit):
        shown("retain search x --kind nonsense")


@BOTH
def test_json_has_everything(run: Run, url: str) -> None:
    """`--json`: hits with all fields, and the rankers; on a server as in a file."""
    fill(url)
    result = answer(run('retain search "night train" --user ada --agent scout --limit 3 --json'))
    hits = result["hits"]
    assert isinstance(hits, list)
    assert len(hits) == 3
    names = {
        "kind",
        "id",
        "seq",
        "text",
        "at",
        "score",
        "author",
        "role",
        "title",
        "session",
        "legs",
        "why",
        "before",
    }
    assert hits[0].keys() >= names
    assert json.dumps(result["legs"]).startswith('{"words": "ran"')
    day = str(hits[0]["at"])[:10]
    assert answer(run(f"retain search train --until {day} --json"))["hits"] == []
