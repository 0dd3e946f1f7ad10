"""What a credential allows, and on what: a key of one user or one agent changes nothing that the tenant shares."""

from __future__ import annotations

from typing import Any

import pytest

from retain.access.principal import PERMISSIONS, Principal
from retain.errors import Forbidden
from retain.faces.ways import SCOPE_WAYS, WAYS, Way

SHARED = {"agents_add", "agents_edit", "agents_remove"}
"""Always the whole tenant's; and state, where its area is, and items, where they are no user's."""
BOUND: tuple[dict[str, Any], ...] = (
    {"user": "ada"},
    {"agent": "scout"},
    {"user": "ada", "agent": "scout"},
)


@pytest.mark.parametrize("way", [*WAYS, *SCOPE_WAYS], ids=lambda way: way.name)
def test_who_may_do_what_to_what_is_shared(way: Way) -> None:
    """P11: every verb, by somebody who is bound and somebody who is not, on the tenant's own and on anything else."""
    for bound in ({}, *BOUND):
        who = Principal("acme", PERMISSIONS, "x", **bound)
        for named in ({}, {"area": "user"}, {"area": "session:tenant"}, {"area": "tenant"}):
            shared = way.name in SHARED or (
                way.name in ("state_set", "state_remove") and named.get("area") == "tenant"
            )
            assert allowed(who, way, named, "ada") is not (shared and bool(bound)), (bound, named)
            shared = shared or way.name in ("items_put", "items_remove")
            assert allowed(who, way, named, None) is not (shared and bool(bound)), (bound, named)
    assert not allowed(Principal("acme", PERMISSIONS - {way.needs}, "x"), way, {}, "ada")


def test_what_lives_longer_for_being_read_is_written() -> None:
    (way,) = (way for way in WAYS if way.name == "items_get")
    refresh = {"refresh": True}
    for who, user, may in (
        (Principal("acme", PERMISSIONS, "x"), None, True),
        (Principal("acme", PERMISSIONS, "x", agent="scout"), "ada", True),
        (Principal("acme", PERMISSIONS, "x", agent="scout"), None, False),
        (Principal("acme", frozenset({"read"}), "x"), "ada", False),
    ):
        assert allowed(who, way, refresh, user) is may
        assert allowed(who, way, {}, user)


def allowed(who: Principal, way: Way, named: dict[str, Any], user: str | None) -> bool:
    try:
        who.require_for(way.needs, way.kind, named, user)
    except Forbidden:
        return False
    return True


def test_what_is_lacking_is_said_in_words() -> None:
    with pytest.raises(Forbidden, match="this key is no admin's, it may only read"):
        Principal("acme", frozenset({"read"}), "x").require("admin")
    with pytest.raises(Forbidden, match="this key may not write, it may only read"):
        Principal("acme", frozenset({"read"}), "x").require("write")
