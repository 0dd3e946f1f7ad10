"""The endpoint table has every verb and explains every parameter."""

from __future__ import annotations

import inspect

from retain.api.endpoints import ENDPOINTS, PARAMETER_HELP, SCOPE_ENDPOINTS
from retain.kinds import KINDS
from retain.kinds.kind import Kind
from retain.memory import Scope

FOR_ADAPTERS = {"checkpoints", "graph", "items.apply", "items.read", "items.write"}
"""Kinds and verbs without an endpoint: only an adapter of a framework calls them."""


def verbs(kind: type) -> set[str]:
    """Return the public methods of a kind that need no open transaction."""
    return {
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        and not hasattr(Kind, name)
        and "tx" not in inspect.signature(method).parameters
    }


def test_every_verb_of_every_kind_has_an_endpoint() -> None:
    assert {(endpoint.kind, endpoint.verb) for endpoint in ENDPOINTS} == {
        (kind.name, verb)
        for kind in KINDS
        for verb in verbs(kind)
        if not {kind.name, f"{kind.name}.{verb}"} & FOR_ADAPTERS
    }
    assert len(ENDPOINTS) == len({endpoint.command for endpoint in ENDPOINTS})


def test_every_parameter_is_explained_and_no_other() -> None:
    used = {
        (kind.name, parameter)
        for kind in KINDS
        for verb in verbs(kind)
        if not {kind.name, f"{kind.name}.{verb}"} & FOR_ADAPTERS
        for parameter in list(inspect.signature(getattr(kind, verb)).parameters)[1:]
    } | {
        ("", parameter)
        for endpoint in SCOPE_ENDPOINTS
        for parameter in list(inspect.signature(getattr(Scope, endpoint.verb)).parameters)[1:]
    }
    here = {word for word in PARAMETER_HELP if "." in word}
    assert {parameter for _, parameter in used} == set(PARAMETER_HELP) - here
    assert here <= {f"{kind}.{parameter}" for kind, parameter in used}
