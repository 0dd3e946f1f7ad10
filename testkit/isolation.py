"""Strangers repeat every call of the story: nothing shows them that the owner's records exist."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from memorist import Memory
from memorist.base.verbs import Endpoint
from memorist.kinds import KINDS
from testkit.databases import SETTINGS
from testkit.examples import exported
from testkit.interfaces import INTERFACES, Setting, library, outcome
from testkit.story import run_story, same

Stranger = Literal["tenant", "user", "agent"]
PRIVATE_KINDS = {
    kind.name
    for kind in KINDS
    if kind.sharing != "always" and all(table.owned for table in kind.tables)
}
"""Kinds whose records belong to one user each."""
STORY_SETTINGS = replace(SETTINGS, summary_model="extractive")


def check_isolation(interface: str, stranger: Stranger, memory: Memory | None = None) -> int:
    """Let a stranger make each call of the owner first; return the number of calls.

    Each stranger is another tenant, another user of the tenant, or a key of another tenant for an
    agent of the owner's name. It has no records. It gets the same response as in a database without
    the owner's records, and changes nothing of the owner.
    """
    count = 0
    with contextlib.ExitStack() as stack:
        if memory is None:
            memory = stack.enter_context(Memory.open("memory:", settings=STORY_SETTINGS))
        empty = stack.enter_context(Memory.open("memory:", settings=STORY_SETTINGS))
        owner = Setting(memory, Path(), stack)
        owner.scope.agents.add("host")
        whose: dict[str, Any] = {"tenants": [owner.tenant]}
        if stranger == "user":
            whose["user"] = owner.user

        def try_first(endpoint: Endpoint, arguments: dict[str, Any]) -> None:
            nonlocal count
            bound_to_agent = stranger == "agent"
            setting = replace(owner, tenant=f"other {count}", is_bound_to_agent=bound_to_agent)
            if stranger == "user":
                takes_id = endpoint.creates and "{" not in endpoint.request
                is_shared = endpoint.kind not in PRIVATE_KINDS or arguments.get("area") == "tenant"
                if takes_id or is_shared:
                    return
                setting = replace(owner, user=f"other {count}", is_bound=True)
            count += 1
            writes = endpoint.effect != "read"
            before = exported(owner.memory, **whose) if writes else b""
            result, expected = (
                outcome(INTERFACES[interface](at), endpoint, arguments)
                for at in (setting, replace(setting, memory=empty))
            )
            assert same(result) == same(expected), endpoint.name
            if writes:
                assert exported(owner.memory, **whose) == before, endpoint.name

        for _ in run_story(library(owner), try_first):
            pass
    return count
