"""Strangers repeat every call of the story: nothing shows them that the owner's records exist."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
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


def check_isolation(
    interface: str, strangers: Sequence[Stranger], memory: Memory | None = None
) -> int:
    """Let strangers make each call of the owner first; return the number of calls of each.

    A stranger is another tenant, another user of the tenant, or a key of another tenant for an
    agent of the owner's name. It has no records. It gets the same response as in a database without
    the owner's records, and changes nothing of the owner.
    """
    tried: list[str] = []
    with contextlib.ExitStack() as stack:
        if memory is None:
            memory = stack.enter_context(Memory.open("memory:", settings=STORY_SETTINGS))
        empty = stack.enter_context(Memory.open("memory:", settings=STORY_SETTINGS))
        owner = Setting(memory, Path(), stack)
        owner.scope.agents.add("host")

        def compare(stranger: str, endpoint: Endpoint, arguments: dict[str, Any]) -> None:
            name = f"other {len(tried)}"
            tried.append(stranger)
            setting = replace(owner, tenant=name, is_bound_to_agent=stranger == "agent")
            if stranger == "user":
                setting = replace(owner, user=name, is_bound=True)
            result, expected = (
                outcome(INTERFACES[interface](at), endpoint, arguments)
                for at in (setting, replace(setting, memory=empty))
            )
            assert same(result) == same(expected), (stranger, endpoint.name)

        def try_first(endpoint: Endpoint, arguments: dict[str, Any]) -> None:
            takes_id = endpoint.creates and "{" not in endpoint.request
            is_shared = endpoint.kind not in PRIVATE_KINDS or arguments.get("area") == "tenant"
            for group in (["tenant", "agent"], [] if takes_id or is_shared else ["user"]):
                whose: dict[str, Any] = {"tenants": [owner.tenant]}
                if group == ["user"]:
                    whose["user"] = owner.user
                writes = endpoint.effect != "read"
                before = exported(owner.memory, **whose) if writes else b""
                for stranger in (stranger for stranger in strangers if stranger in group):
                    compare(stranger, endpoint, arguments)
                if writes:
                    assert exported(owner.memory, **whose) == before, endpoint.name

        for _ in run_story(library(owner), try_first):
            pass
    return min(tried.count(stranger) for stranger in strangers)
