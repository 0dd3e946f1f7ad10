"""The same calls through every interface return the same results as through the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.interfaces import INTERFACES, compare_with_library
from testkit.story import ENDING, STORY, VERBS, complete_story, step_of_example


def test_the_story_calls_every_verb() -> None:
    assert {step.verb for step in complete_story()} == VERBS.keys()
    assert {step.verb for step in (*STORY, *ENDING)} <= VERBS.keys()


def test_an_example_is_a_step() -> None:
    step = step_of_example(VERBS["facts_correct"])
    assert step.arguments == {
        "id": "$facts",
        "statement": "Clara lives in Porto.",
        "since": "2026-05-01T00:00:00+00:00",
    }


@pytest.mark.parametrize("interface", [name for name in INTERFACES if name != "library"])
def test_the_same_call_gives_the_same_answer(tmp_path: Path, interface: str) -> None:
    compare_with_library(interface, tmp_path)
