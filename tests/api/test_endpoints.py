"""Every public method of a kind is declared as a verb, and every parameter is explained."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import memorist
from memorist.api.endpoints import ADMIN_ENDPOINTS, ENDPOINTS, SCOPE_ENDPOINTS
from memorist.api.parameter_help import PARAMETER_HELP
from memorist.base.verbs import declared_verb, find_verb
from memorist.kinds import KINDS
from memorist.kinds.facts import Facts
from memorist.kinds.kind import Kind
from memorist.kinds.sessions import Sessions
from memorist.kinds.state import State
from memorist.memory import ADMIN_KINDS, Scope

FILES_OF_THE_CALLER = {"refs": {"opening"}, "documents": {"add_file", "add_files", "add_data"}}
"""Public methods that read or return an open file of the calling process: only the library has them."""


def public_methods(kind: type) -> set[str]:
    """Return the public methods of a kind that need no open transaction."""
    return {
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and not hasattr(Kind, name)
        and "tx" not in inspect.signature(method).parameters
    }


@pytest.mark.parametrize("kind", [*KINDS, *ADMIN_KINDS], ids=lambda kind: kind.name)
def test_every_public_method_is_declared_as_a_verb(kind: type[Kind]) -> None:
    of_files = FILES_OF_THE_CALLER.get(kind.name, set())
    assert set(kind.verbs) | of_files == public_methods(kind)
    assert kind.verbs or kind.name == "checkpoints"  # memorist-frameworks has its methods
    for name, endpoint in kind.verbs.items():
        assert (endpoint.kind, endpoint.verb) == (kind.name, name)
        assert bool(endpoint.request) == bool(endpoint.example)


def test_requests_and_commands_are_unique() -> None:
    endpoints = (*ENDPOINTS, *SCOPE_ENDPOINTS, *ADMIN_ENDPOINTS)
    assert len(endpoints) == len({endpoint.request for endpoint in endpoints})
    assert len(ENDPOINTS) == len({endpoint.command for endpoint in ENDPOINTS})


def test_every_parameter_is_explained_and_no_other() -> None:
    used = {
        (endpoint.kind, parameter)
        for kind in (*KINDS, *ADMIN_KINDS)
        for endpoint in kind.verbs.values()
        if endpoint.request
        for parameter in list(inspect.signature(getattr(kind, endpoint.verb)).parameters)[1:]
    } | {
        ("", parameter)
        for endpoint in SCOPE_ENDPOINTS
        for parameter in list(inspect.signature(getattr(Scope, endpoint.verb)).parameters)[1:]
    }
    here = {(kind.name, name) for kind in (*KINDS, *ADMIN_KINDS) for name in kind.parameter_help}
    here |= {("", name) for name in Scope.parameter_help}
    assert {parameter for _, parameter in used - here} <= set(PARAMETER_HELP)
    assert {parameter for _, parameter in used} >= set(PARAMETER_HELP)
    assert here <= used


def test_what_follows_from_the_effect() -> None:
    forget = declared_verb(Facts.forget)
    assert (forget.needs, forget.event, forget.trace) == ("delete", "removed", "delete_memory")
    assert declared_verb(Sessions.add).trace == "create_memory_store"
    assert declared_verb(State.set).trace == "upsert_memory"
    assert find_verb("messages.append") is find_verb("messages_append")
    assert find_verb("save_turn") is declared_verb(Scope.save_turn)


def test_agents_are_offered_no_verb_that_decides_for_people() -> None:
    """MCP offers administrators what reads, and what only does again what is configured."""
    offered = {
        endpoint.name
        for endpoint in ADMIN_ENDPOINTS
        if endpoint.for_agents and endpoint.effect != "read"
    }
    assert offered == {"jobs_run", "webhooks_replay"}
    for endpoint in ADMIN_ENDPOINTS:
        assert endpoint.for_agents or endpoint.people_only, endpoint.name


CORE = Path(memorist.__file__).parent
MAY_NAME_VERBS = {
    "api/examples.py": "names parameters of kinds, such as `refs.content`",
    "cli/verb_table.py": "generated from the declarations",
}


def test_nothing_but_the_declarations_names_verbs() -> None:
    names = {
        name
        for endpoint in (
            *(verb for kind in KINDS for verb in kind.verbs.values()),
            *SCOPE_ENDPOINTS,
            *ADMIN_ENDPOINTS,
        )
        for name in (endpoint.name, endpoint.operation)
        if "_" in name or "." in name
    }
    assert {"messages_append", "messages.append", "save_turn"} <= names
    named = [
        f"{path.relative_to(CORE)}:{number}: {text}"
        for path in CORE.rglob("*.py")
        if not str(path.relative_to(CORE)).startswith(tuple(MAY_NAME_VERBS))
        for number, text in texts_of(path.read_text(encoding="utf-8"))
        if text in names
    ]
    assert named == []
    assert texts_of('TABLE = {"messages_append"}') == [(1, "messages_append")]


def texts_of(source: str) -> list[tuple[int, str]]:
    """Return the text constants of a module with their line numbers."""
    return [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
