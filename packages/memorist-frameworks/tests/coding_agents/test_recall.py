"""Recall by the hooks: what was said anywhere in the last sessions, whichever host saved it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coding_agents.conftest import Hooks
from coding_agents.conversations import (
    LAST_ANSWER,
    LAST_PROMPT,
    PNPM,
    QUESTIONS,
    conversation,
    transcript_of,
)
from coding_agents.transcripts import SAVE_EVENTS
from memorist.memory import Scope
from memorist_frameworks.coding_agents.hosts import HOSTS

MIN_ANSWERED = 18
"""Of 20 questions. Which memories fit into a recall is a matter of ranking, so a question may miss
its answer; each question here has one answer among 180 messages."""
SESSIONS = ("first", "second", "third")


def event(host: str, task: str) -> str | None:
    """Return the name of a host's hook for a task; None if it has none."""
    return next((name for name, done in HOSTS[host].events.items() if done == task), None)


def save(hooks: Hooks, host: str, session: str, number: int, folder: Path) -> None:
    """Save a conversation as the hooks of a host do it."""
    messages = conversation(number)
    if host == "cursor":
        for turn, (role, text) in enumerate(messages):
            name = "beforeSubmitPrompt" if role == "user" else "afterAgentResponse"
            sent = {"prompt" if role == "user" else "text": text}
            payload: dict[str, Any] = {"generation_id": f"g{turn // 2}", **sent}
            hooks.call(host, name, session_id=None, conversation_id=session, **payload)
    elif host == "opencode":
        rows = [
            {"id": f"m{place}", "role": role, "time": 1794932714000 + place, "text": text}
            for place, (role, text) in enumerate(messages)
        ]
        hooks.call(host, "save", session_id=session, messages=rows)
    else:
        file = folder / f"{session}.jsonl"
        file.write_text(transcript_of(host, number))
        hooks.call(host, SAVE_EVENTS[host], session_id=session, transcript_path=str(file))
    assert len(hooks.texts(f"{host}-{session}")) == len(messages)


def text_of(answer: Any) -> str:
    """Return the text that a hook adds; empty if it adds none."""
    if answer is None:
        return ""
    answer = answer.get("hookSpecificOutput", answer)
    return str(answer.get("additionalContext", answer.get("additional_context")))


@pytest.mark.parametrize("host", HOSTS)
def test_a_prompt_recalls_what_was_said_anywhere_in_the_last_sessions(
    host: str, hooks: Hooks, tmp_path: Path
) -> None:
    for number, session in enumerate(SESSIONS):
        save(hooks, host, session, number, tmp_path)
    # The memory is the project's: where a host has no hook for a prompt, another one is asked.
    asked = host if event(host, "prompt") else "claude-code"
    prompt_event = event(asked, "prompt")
    assert prompt_event

    def recall(session: str, prompt: str) -> str:
        return text_of(hooks.call(asked, prompt_event, session_id=session, prompt=prompt))

    new = {question: recall("fourth", question.asked) for question in QUESTIONS}
    missing = [question.asked for question, text in new.items() if question.expected not in text]
    assert len(QUESTIONS) - len(missing) >= MIN_ANSWERED, missing
    assert PNPM not in missing

    running = {
        question: recall("third", question.asked)
        for question in QUESTIONS
        if question.conversation == 2
    }
    missing = [
        question.asked for question, text in running.items() if question.expected not in text
    ]
    assert len(missing) <= 1, missing
    assert PNPM not in missing

    start = event(host, "start")
    assert start
    text = text_of(hooks.call(host, start, session_id="fourth", source="startup"))
    assert f"user: {LAST_PROMPT}" in text
    assert f"assistant: {LAST_ANSWER}" in text

    # What the host still has in front of it is not repeated.
    assert LAST_PROMPT in recall("fourth", "Which icon set do the admin pages use?")
    repeated = recall("third", "Which icon set do the admin pages use?")
    assert (LAST_PROMPT in repeated) == (asked != host)


def test_a_long_last_answer_is_recalled_at_the_start(hooks: Hooks) -> None:
    """Hosts show only the beginning of a long answer of a hook, so each part has a limit."""
    messages = [
        {"id": f"m{number}", "role": role, "time": 1794932714000 + number, "text": text}
        for number, (role, text) in enumerate(
            [("user", f"Question {number}" + " why" * 400) for number in range(9)]
            + [("assistant", "The cause is the cache." + " It keeps rows." * 4_000)]
        )
    ]

    def fill(scope: Scope) -> None:
        scope.notes.overwrite("Use uv. " * 2_000)
        for number in range(40):
            scope.entries.add(f"Rule {number}" + " x" * 200)

    hooks.call("opencode", "save", session_id="long", messages=messages)
    hooks.read(fill)
    text = text_of(hooks.call("claude-code", "SessionStart", source="startup"))
    assert "assistant: The cause is the cache." in text
    assert "Use uv." in text
    assert "Rule 0" in text
    assert len(text) < 10_000


def test_notes_and_entries_are_recalled_for_a_prompt(hooks: Hooks) -> None:
    """The start may be long ago, and its text may have been compacted."""

    def fill(scope: Scope) -> None:
        scope.notes.overwrite("# Deployment\n\nThe staging password is rotated every Tuesday.")
        scope.entries.add("The load balancer listens on port 8443.")

    hooks.read(fill)
    for session in ("s1", "s2"):
        asked = "When is the staging password rotated?"
        answer = hooks.call("claude-code", "UserPromptSubmit", session_id=session, prompt=asked)
        assert "every Tuesday" in text_of(answer)
        asked = "On which port does the load balancer listen?"
        answer = hooks.call("claude-code", "UserPromptSubmit", session_id=session, prompt=asked)
        assert "port 8443" in text_of(answer)
