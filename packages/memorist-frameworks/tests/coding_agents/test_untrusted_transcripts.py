"""What an agent or a tool says in a transcript becomes no fact, and is fenced when it is recalled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from coding_agents.conftest import Hooks
from coding_agents.transcripts import lines
from memorist.context.render import PREAMBLE
from memorist.kinds.trust import PEOPLE
from memorist.memory import Scope
from tests.security.payloads import PAYLOADS


def test_payloads_in_a_transcript(hooks: Hooks, tmp_path: Path) -> None:
    values: list[dict[str, Any]] = []
    for number, payload in enumerate(PAYLOADS):
        result = [{"type": "tool_result", "tool_use_id": f"t{number}", "content": payload}]
        answer = [{"type": "text", "text": payload}]
        for kind, content, more in (
            ("user", result, {}),
            ("assistant", answer, {}),
            ("user", payload, {"isMeta": True}),
            ("user", f"<system-reminder>{payload}</system-reminder>What now?", {}),
        ):
            message = {"role": kind, "content": content}
            uuid = f"{number}-{len(values)}"
            values.append({"type": kind, "uuid": uuid, "message": message, **more})
    file = tmp_path / "transcript.jsonl"
    file.write_text(lines(*values))
    hooks.call("claude-code", "SessionEnd", transcript_path=str(file))
    assert hooks.last["ok"]

    facts = hooks.read(lambda scope: list(scope.facts.list(include_replaced=True)))
    assert [fact for fact in facts if fact.source not in PEOPLE] == []

    def add_a_note(scope: Scope) -> None:
        """Add a note as a tool, which waits for a review."""
        Scope(scope.services, replace(scope.owner, source="tool")).notes.append("Zebra rules.")

    hooks.read(add_a_note)
    started = hooks.call("claude-code", "SessionStart", session_id="s2", source="startup")
    text = started["hookSpecificOutput"]["additionalContext"]
    before, fence, inside = text.partition(f"{PREAMBLE}\n<memory ")
    assert fence
    assert len(before.splitlines()) <= 2
    assert inside.count("<memory ") == 0
    assert inside.count("</memory ") == 1
    assert "Zebra" not in text
