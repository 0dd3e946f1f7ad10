"""`memorist context`: a table with bars, now and for a stored turn."""

from __future__ import annotations

import json

import pytest

from memorist import Memory
from testkit.commands import Run, answer
from testkit.databases import SETTINGS


@pytest.fixture
def turn(url: str) -> str:
    """A conversation with one saved turn."""
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="default", user="ada", agent="scout")
        session = me.sessions.add("trip").id
        me.entries.add("Ada likes the sea.", kind="core")
        context = me.context(session, "Where do we go?")
        return me.save_turn(
            session, [{"role": "user", "content": "Where do we go?"}], context=context
        ).id


def test_a_table_with_a_bar_per_layer(process: Run, turn: str) -> None:
    """`memorist context --session … --message …` shows it now."""
    done = process('memorist context --session trip --message "And now?" --budget 1000')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].endswith(" of 1,000 tokens")
    assert any(line.split()[:1] == ["private"] and "█" in line for line in lines)
    assert any("messages 1" in line and "recent" in line for line in lines)
    assert any("a core memory" in line and "- Ada likes the sea." in line for line in lines)


def test_explain_a_stored_turn(run: Run, turn: str) -> None:
    """`memorist context explain TURN` shows what the turn was given, not what it would be given
    now.
    """
    run("memorist entries add 'Ada likes trains.' --kind core --agent scout")
    done = run(f"memorist context explain {turn}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("a core memory") == 1
    assert "Ada likes the sea." in done.stdout
    assert "messages 1" not in done.stdout
    report = answer(run(f"memorist context explain {turn} --json"))
    assert {"budget", "tokens", "items", "left_out", "shares"} <= report.keys()


def test_facts_and_an_agent_without_a_record_are_explained(run: Run, url: str) -> None:
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="default", user="ada", agent="scout")
        session = me.sessions.add("trip").id
        me.facts.add("The user likes the sea.")
        context = me.context(session, "Where do we go?")
        message = {"role": "user", "content": "Where do we go?"}
        turn = me.save_turn(session, [message], context=context).id
    done = run(f"memorist context explain {turn}")
    assert done.returncode == 0, done.stderr
    assert "(removed)" not in done.stdout
    assert "The user likes the sea." in done.stdout


def test_recalled_items_are_explained(run: Run, url: str, turn: str) -> None:
    """From another conversation and from a document, now and later."""
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(tenant="default", user="ada", agent="scout")
        me.sessions.add("old talk")
        me.messages.append("old talk", "user", "The zeppelin leaves at noon.")
        me.documents.add("Airships", "A zeppelin leaves when it is filled.")
        context = me.context("trip", "When does the zeppelin leave?")
        saved = me.save_turn("trip", [{"role": "user", "content": "When?"}], context=context).id
    for command in (
        'memorist context --session trip --message "When does the zeppelin leave?"',
        f"memorist context explain {saved}",
    ):
        done = run(command)
        assert done.returncode == 0, done.stderr
        line = next(line for line in done.stdout.splitlines() if "messages old talk 1" in line)
        assert "recalled at 0." in line
        assert "The zeppelin lea" in line
        assert "A zeppelin leaves" in done.stdout


def test_the_context_in_each_format(run: Run, turn: str) -> None:
    payload = json.loads(run("memorist context --session trip --message Now --as openai").stdout)
    assert payload[-1] == {"role": "user", "content": "Now"}
    rendered = json.loads(
        run("memorist context --session trip --message Now --as anthropic").stdout
    )
    assert "Ada likes the sea." in rendered["system"]
    assert run("memorist context --session trip --message Now --as text").stdout.startswith(
        "[system]\nYou are scout."
    )


def test_errors_name_the_cause(run: Run, turn: str) -> None:
    for command, status, words in (
        ("memorist context", 2, "--session: is required"),
        ("memorist context explain", 2, "TURN: is required"),
        ("memorist context explain nothing", 3, "There is no turn 'nothing'"),
        ("memorist context --session nowhere", 3, "There is no session 'nowhere'"),
        ("memorist context --session trip --budget 3", 2, "budget: is 3 tokens"),
    ):
        done = run(command)
        assert (done.returncode, words in done.stderr) == (status, True), (command, done.stderr)
