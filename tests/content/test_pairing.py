"""Pairing of calls and results in every common shape, and where a conversation may be cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.content.pairing import ToolCall, safe_cuts, shrink_outputs, tool_calls, tool_results


@dataclass
class Spoken:
    role: str
    content: dict[str, Any] = field(default_factory=dict)


ASKING: dict[str, dict[str, Any]] = {
    "ours": {"parts": [{"type": "tool_call", "id": "c1", "name": "run", "arguments": {"a": 1}}]},
    "openai": {
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"a": 1}'}}
        ]
    },
    "anthropic": {"parts": [{"type": "tool_use", "id": "c1", "name": "run", "input": {"a": 1}}]},
    "pydantic": {
        "parts": [{"type": "tool-call", "tool_call_id": "c1", "tool_name": "run", "args": {"a": 1}}]
    },
    "responses": {
        "parts": [
            {"type": "function_call", "call_id": "c1", "name": "run", "arguments": '{"a": 1}'}
        ]
    },
    "old openai": {"function_call": {"id": "c1", "name": "run", "arguments": '{"a": 1}'}},
}
ANSWERING: dict[str, tuple[str, dict[str, Any]]] = {
    "ours": ("tool", {"tool_call_id": "c1", "text": "done"}),
    "part": ("tool", {"parts": [{"type": "tool_result", "id": "c1", "text": "done"}]}),
    "anthropic": (
        "user",
        {"parts": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]},
    ),
    "pydantic": (
        "tool",
        {"parts": [{"type": "tool-return", "tool_call_id": "c1", "content": "done"}]},
    ),
    "responses": (
        "tool",
        {"parts": [{"type": "function_call_output", "call_id": "c1", "output": "done"}]},
    ),
}


@pytest.mark.parametrize("shape", ASKING)
def test_a_call_is_recognised_in_every_shape(shape: str) -> None:
    (call,) = tool_calls(ASKING[shape])
    assert (call.id, call.name) == ("c1", "run")
    assert call.arguments in ({"a": 1}, '{"a": 1}')


@pytest.mark.parametrize("shape", ANSWERING)
def test_a_result_is_recognised_in_every_shape(shape: str) -> None:
    (result,) = tool_results(*ANSWERING[shape])
    assert (result.id, result.output) == ("c1", "done")


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("answering", ANSWERING)
def test_no_cut_between_a_call_and_its_result(asking: str, answering: str) -> None:
    """In any mixture of shapes."""
    talk = [
        Spoken("user"),
        Spoken("assistant", ASKING[asking]),
        Spoken(*ANSWERING[answering]),
        Spoken("assistant"),
    ]
    assert safe_cuts(talk) == [True, True, False, True, True]


def test_a_result_without_an_id_belongs_to_the_calls_before_it() -> None:
    call = {"parts": [{"type": "tool_call", "name": "run"}]}
    talk = [
        Spoken("assistant", call),
        Spoken("tool", {"text": "1"}),
        Spoken("tool", {"text": "2"}),
        Spoken("user"),
    ]
    assert safe_cuts(talk) == [True, False, False, True, True]
    assert tool_calls(call) == [ToolCall("", "run", {})]


def test_parallel_calls_and_late_results_stay_together() -> None:
    both = {
        "tool_calls": [
            {"id": "a", "function": {"name": "x"}},
            {"id": "b", "function": {"name": "y"}},
        ]
    }
    talk = [
        Spoken("assistant", both),
        Spoken("tool", {"tool_call_id": "b", "text": "2"}),
        Spoken("user", {"text": "hurry"}),
        Spoken("tool", {"tool_call_id": "a", "text": "1"}),
        Spoken("user", {"text": "thanks"}),
    ]
    assert safe_cuts(talk) == [True, False, False, False, True, True]


def test_an_unrelated_result_blocks_no_cut() -> None:
    assert (
        safe_cuts(
            [Spoken("user"), Spoken("tool", {"tool_call_id": "gone", "text": "x"}), Spoken("user")]
        )
        == [True] * 4
    )


@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "ask", "answer"]), st.integers(0, 5)),
        max_size=30,
    )
)
def test_a_safe_cut_separates_no_pair(moves: list[tuple[str, int]]) -> None:
    """Over random graphs of calls and results."""
    talk: list[Spoken] = []
    for kind, number in moves:
        if kind == "ask":
            talk.append(
                Spoken(
                    "assistant", {"tool_calls": [{"id": str(number), "function": {"name": "f"}}]}
                )
            )
        elif kind == "answer":
            talk.append(Spoken("tool", {"tool_call_id": str(number), "text": "x"}))
        else:
            talk.append(Spoken(kind, {"text": "hi"}))
    free = safe_cuts(talk)
    assert free[0]
    assert free[-1]
    for place in [p for p, ok in enumerate(free) if ok]:
        before = [call.id for message in talk[:place] for call in tool_calls(message.content)]
        last_asked = {
            id: max(p for p, m in enumerate(talk) if any(c.id == id for c in tool_calls(m.content)))
            for id in before
        }
        for after, message in enumerate(talk[place:], place):
            for result in tool_results(message.role, message.content):
                asked_again = any(
                    c.id == result.id for m in talk[place:after] for c in tool_calls(m.content)
                )
                assert result.id not in last_asked or asked_again


def test_shrinking_changes_only_tool_output() -> None:
    def shorter(output: Any, id: str) -> str:
        return f"{len(output)} of {id}"

    assert shrink_outputs("tool", {"tool_call_id": "c1", "text": "xxxx", "n": 1}, shorter) == {
        "tool_call_id": "c1", "text": "4 of c1", "n": 1,
    }  # fmt: skip
    parts = {
        "text": "y",
        "parts": [
            {"type": "tool_result", "id": "c2", "content": "zzz"},
            {"type": "text", "text": "keep"},
        ],
    }
    assert shrink_outputs("user", parts, shorter) == {
        "text": "y",
        "parts": [
            {"type": "tool_result", "id": "c2", "content": "3 of c2"},
            {"type": "text", "text": "keep"},
        ],
    }
    assert shrink_outputs("user", {"text": "long"}, shorter) == {"text": "long"}
