"""`memorist search`: a readable list with commands to open each hit."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from memorist import Memory
from memorist.cli.main import main
from memorist.kinds.graph import GraphEntity
from testkit.commands import BOTH, Run, answer
from testkit.databases import SETTINGS

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
        me.documents.add("Railways", "# Night trains\n\nA night train has beds.")
        me.items.put(("travel", "by, rail"), "night train", {"text": "The night train has a bar."})
        me.items.put(("travel", "rail"), "bar", {"text": "The train to Lisbon has a bar."})
        memory.scope(tenant="default").items.put(
            ("travel",), "day", {"text": "The train of the tenant."}
        )
        me.graph.add([GraphEntity("The train", "vehicle", ["It is blue."])])


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
        status = main([*shlex.split(command.removeprefix("memorist ")), "--database", url])
        printed = capsys.readouterr()
        return printed.out if status == 0 else f"{status} {printed.err}"

    return print_it


def test_a_readable_list(shown: Print) -> None:
    """Number, kind, time, author, excerpt, how to open it, score."""
    lines = shown(
        'memorist search "when does the night train to Lisbon leave" --kind messages'
    ).splitlines()
    first = next(place for place, line in enumerate(lines) if "The night train to Lisbon" in line)
    head = next(line for line in reversed(lines[:first]) if not line.startswith("    "))
    assert re.match(
        r" *\d  messages  \d{4}-\d\d-\d\d \d\d:\d\d  scout  in a trip, 2 +0\.\d\d$", head
    )
    text = "\n".join(line for line in lines[first - 2 : first + 3] if line.startswith("    "))
    assert "…" in text
    assert "memorist messages get 'a trip' 2" in "\n".join(lines)
    assert all(len(line) <= 100 for line in lines)
    assert "\x1b" not in "\n".join(lines)
    assert "Searched by words and by meaning." in lines[-2]


def test_a_replaced_message_says_what_is_true_instead(shown: Print, tmp_path: Path) -> None:
    with Memory.open(f"sqlite:///{tmp_path}/agent.db", settings=SETTINGS) as memory:
        me = memory.scope(tenant="default", user="ada", agent="scout")
        seat = me.facts.add("The user likes aisle seats.", evidence=["a trip#1"])
        me.facts.correct(seat.id, "The user likes window seats.")
    printed = shown('memorist search "how do we get to Lisbon" --kind messages --user ada')
    assert "    (corrected: The user likes window seats.)" in printed.splitlines()


def test_every_kind_has_a_command_that_opens_it(shown: Print) -> None:
    """Each such command works."""
    printed = shown("memorist search train --limit 50") + shown(
        "memorist search train --limit 50 --user ada"
    )
    commands = [
        line.strip() for line in printed.splitlines() if line.strip().startswith("memorist ")
    ]
    kinds = {"messages", "notes", "entries", "refs", "state", "items", "documents", "search"}
    assert {command.split()[1] for command in commands} == kinds
    words = ("train", "timetable", "lisbon")
    assert all(any(word in shown(command).lower() for word in words) for command in commands)


def test_matches_are_highlighted_on_a_terminal_only(shown: Print) -> None:
    """Stored text cannot move the cursor or change colours."""
    coloured = shown("memorist search lisbon --kind messages", terminal=True)
    assert "\x1b[1mLisbon\x1b[0m" in coloured
    assert "\x1b[31m" not in shown("memorist search red --kind messages", terminal=True)
    for plain in (
        shown("memorist search lisbon --kind messages", terminal=True, NO_COLOR="1"),
        shown("memorist search lisbon --kind messages", terminal=True, TERM="dumb", NO_COLOR=""),
        shown("memorist search lisbon --kind messages"),
    ):
        assert "\x1b" not in plain
        assert "Lisbon" in plain
    narrow = shown(
        "memorist search lisbon --kind messages", terminal=True, COLUMNS="50", NO_COLOR="1"
    )
    assert all(
        len(line) <= 50 for line in narrow.splitlines() if not line.strip().startswith("memorist ")
    )


def test_why(shown: Print) -> None:
    """Signals, rankers and neighbours of a hit."""
    printed = shown('memorist search "night train" --session "a trip" --kind messages --why')
    assert re.search(r"why: .*\b(words|answer|length)[a-z ]* [+-]\d\.\d\d", printed)
    assert "found by: words" in printed
    assert "before: How do we get to Lisbon?" in printed
    assert "why:" not in shown('memorist search "night train"')


def test_an_empty_result_suggests_what_to_try(shown: Print) -> None:
    printed = shown("memorist search xyzzy --kind notes --user bob")
    assert "Nothing was found in notes. Try other words, or without --kind and --user." in printed
    assert shown(
        "memorist search xyzzy --kind state --session 'a trip' --since 2020-01-01"
    ).startswith("Nothing was found")


def test_the_rankers_that_ran(shown: Print) -> None:
    assert (
        "texts have no vector yet and are found by words only; `memorist jobs` computes"
        in shown("memorist search train").replace("\n", " ")
    )
    shown("memorist jobs")
    last = shown("memorist search train").splitlines()[-1]
    assert last == "Searched by words and by meaning."
    without = shown("memorist search train", MEMORIST_EMBEDDER="none").splitlines()[-1]
    assert without == "Searched by words. Not by meaning: no embedder is set."


def test_errors_name_the_cause(shown: Print) -> None:
    assert shown("memorist search x --since yesterday").startswith(
        "2 memorist: since: must be a time like 2026-01-31T12:00:00Z"
    )
    assert shown("memorist search x --session nowhere").startswith("3 ")
    assert shown("memorist search x --limit 0").startswith("2 memorist: limit")
    with pytest.raises(SystemExit):
        shown("memorist search x --kind nonsense")


@BOTH
def test_json_has_everything(run: Run, url: str) -> None:
    """`--json`: hits with all fields, and the rankers; on a server as in a file."""
    fill(url)
    result = answer(run('memorist search "night train" --user ada --agent scout --limit 3 --json'))
    hits = result["data"]
    assert isinstance(hits, list)
    assert len(hits) == 3
    names = {"kind", "id", "seq", "text", "at", "score", "author", "role", "title", "session"}
    names |= {"legs", "why", "before"}
    assert hits[0].keys() >= names
    assert json.dumps(result["legs"]).startswith('{"words": "ran"')
    day = str(hits[0]["at"])[:10]
    assert answer(run(f"memorist search train --until {day} --json"))["data"] == []
