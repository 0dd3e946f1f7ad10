"""Every command takes hostile input without a traceback, and prints no control characters (P16).

The commands are the examples of the verbs' declarations; each of their words is replaced in turn.
"""

from __future__ import annotations

import random
import shlex
import unicodedata
from collections.abc import Iterator

import pytest

from memorist import Memory
from memorist.api.endpoints import ENDPOINTS
from memorist.base.verbs import Endpoint
from testkit.commands import Run
from testkit.databases import SETTINGS
from testkit.hostile_inputs import FULL, TEXTS

STATUSES = (0, 2, 3, 4)
"""Success, invalid input, not found and conflict; 1 would be an unexpected error."""
INPUTS_PER_VERB = 3
ARGUMENTS = [text for text in TEXTS if "\0" not in text]
"""What another process can pass as an argument."""


def hostile_commands(endpoint: Endpoint) -> Iterator[str]:
    """Yield the example with hostile words in place of its own."""
    command = endpoint.example.rpartition("|")[2].partition(">")[0]
    words = shlex.split(command)
    if "--wait" in words:  # nobody writes meanwhile
        words[words.index("--wait") + 1] = "0.1"
    places = [place for place in range(3, len(words)) if not words[place].startswith("--")]
    chance = random.Random(endpoint.name)
    texts = ARGUMENTS if FULL else chance.sample(ARGUMENTS, INPUTS_PER_VERB)
    for text in texts:
        place = chance.choice(places) if places else len(words)
        yield shlex.join([*words[:place], text, *words[place + 1 :]])


@pytest.mark.parametrize(
    "endpoint", [endpoint for endpoint in ENDPOINTS if endpoint.example], ids=lambda e: e.name
)
def test_a_command_fails_or_works_in_plain_words(endpoint: Endpoint, run: Run, url: str) -> None:
    for command in hostile_commands(endpoint):
        done = run(command, stdin="x" * 100)
        could_read = "cannot be read" not in done.stderr  # status 1: some of the files failed
        assert done.returncode in STATUSES or not could_read, (command, done.stderr)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        printed = done.stderr + ("" if endpoint.raw_output else done.stdout)
        control = {letter for letter in printed if unicodedata.category(letter) == "Cc"}
        assert control <= {"\n", "\t"}, (command, control)
    with Memory.open(url, settings=SETTINGS) as memory:
        assert [finding for finding in memory.verify() if not finding.ok] == []


def test_bytes_that_are_no_text(process: Run, run: Run) -> None:
    """In a real process, where such bytes arrive as lone surrogates; others of them in this one."""
    for start, command in (
        (process, "search"),
        (run, "messages append s user"),
        (run, "state set"),
        (run, "notes overwrite"),
    ):
        done = start(f"memorist {command} \udcff\udc80")
        assert done.returncode in STATUSES
        assert "Traceback" not in done.stderr
