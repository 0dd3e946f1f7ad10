"""Permissions of a principal: a key bound to a user or agent cannot change tenant-wide data."""

from __future__ import annotations

from typing import Any

import pytest

from memorist.admin.principal import PERMISSIONS, Principal
from memorist.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS, Endpoint
from memorist.base.errors import Forbidden

TENANT_WIDE = {"agents_add", "agents_edit", "agents_remove"}
"""Always tenant-wide; so are state in the tenant area and items without a user."""
BOUND: tuple[dict[str, Any], ...] = (
    {"user": "ada"},
    {"agent": "scout"},
    {"user": "ada", "agent": "scout"},
)


@pytest.mark.parametrize(
    "endpoint", [*ENDPOINTS, *SCOPE_ENDPOINTS], ids=lambda endpoint: endpoint.name
)
def test_permissions_on_tenant_wide_data(endpoint: Endpoint) -> None:
    """P11: every action, by bound and unbound principals, on tenant-wide data and on other data."""
    for bound in ({}, *BOUND):
        owner = Principal("acme", PERMISSIONS, "x", **bound)
        for named in ({}, {"area": "user"}, {"area": "session:tenant"}, {"area": "tenant"}):
            shared = endpoint.name in TENANT_WIDE or (
                endpoint.name in ("state_set", "state_remove") and named.get("area") == "tenant"
            )
            assert allowed(owner, endpoint, named, "ada") is not (shared and bool(bound)), (
                bound,
                named,
            )
            shared = shared or endpoint.name in ("items_put", "items_remove")
            assert allowed(owner, endpoint, named, None) is not (shared and bool(bound)), (
                bound,
                named,
            )
    assert not allowed(Principal("acme", PERMISSIONS - {endpoint.needs}, "x"), endpoint, {}, "ada")


def test_reading_that_extends_an_expiry_needs_write() -> None:
    (endpoint,) = (endpoint for endpoint in ENDPOINTS if endpoint.name == "items_get")
    refresh = {"refresh": True}
    for owner, user, may in (
        (Principal("acme", PERMISSIONS, "x"), None, True),
        (Principal("acme", PERMISSIONS, "x", agent="scout"), "ada", True),
        (Principal("acme", PERMISSIONS, "x", agent="scout"), None, False),
        (Principal("acme", frozenset({"read"}), "x"), "ada", False),
    ):
        assert allowed(owner, endpoint, refresh, user) is may
        assert allowed(owner, endpoint, {}, user)


def allowed(owner: Principal, endpoint: Endpoint, named: dict[str, Any], user: str | None) -> bool:
    try:
        owner.require_for(endpoint.needs, endpoint.kind, named, user)
    except Forbidden:
        return False
    return True


def test_errors_name_the_missing_permission() -> None:
    with pytest.raises(
        Forbidden, match="this key lacks the permission admin; its permissions are: read"
    ):
        Principal("acme", frozenset({"read"}), "x").require("admin")
    with pytest.raises(Forbidden, match="this key may not write; its permissions are: read"):
        Principal("acme", frozenset({"read"}), "x").require("write")
