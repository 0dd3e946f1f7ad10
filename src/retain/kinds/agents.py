"""Agents: a name, a system prompt, a model, allowed tools, a colour and an icon; active or not."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retain.base import canonical, clock, limits
from retain.base.errors import AlreadyExists, Invalid, NotFound, WrongVersion
from retain.kinds.kind import Kind, Table
from retain.kinds.page import Page, decode_cursor, make_page
from retain.storage.database import Transaction

AGENT_COLUMNS = """name, prompt, model, tools, color, icon, version, created_at, updated_at,
                   model_label, active"""
_COLOR = re.compile("#[0-9a-fA-F]{6}")
_MAX_ICON_CHARACTERS = 8
"""One emoji may have several characters."""


@dataclass(frozen=True)
class Agent:
    """The configuration of an agent."""

    name: str
    prompt: str
    model: str
    tools: list[str]
    color: str
    icon: str
    version: int
    created_at: datetime
    updated_at: datetime
    memories_count: int = 0  # its accepted journal and core entries
    model_label: str = ""  # display name of the model
    active: bool = True  # an inactive agent does not answer


def _agent(row: tuple[Any, ...], memories_count: int) -> Agent:
    name, prompt, model, tools, color, icon, version, created, updated, label, active = row
    return Agent(
        name,
        prompt,
        model,
        json.loads(tools),
        color,
        icon,
        version,
        clock.to_datetime(created),
        clock.to_datetime(updated),
        memories_count,
        label,
        bool(active),
    )


def _count_memories(tx: Transaction, name: str) -> int:
    row = tx.one(
        """select count(*) from entries
           where tenant = :tenant and agent = :agent and kind in ('journal', 'core')
           and review = 'accepted'""",
        agent=name,
    )
    return int(row[0]) if row else 0


class Agents(Kind):
    """The configured agents of a tenant. Memory works for any agent name, configured or not."""

    name = "agents"
    tables = (Table("agents", order="name", of_agent="name = :agent"),)

    def add(
        self,
        name: str,
        *,
        prompt: str = "",
        model: str = "",
        tools: Sequence[str] = (),
        color: str = "",
        icon: str = "",
        model_label: str = "",
        active: bool = True,
    ) -> Agent:
        """Add an agent."""
        canonical.name(name, "name")
        values = self._values(
            name=name,
            prompt=prompt,
            model=model,
            tools=tools,
            color=color,
            icon=icon,
            model_label=model_label,
            active=active,
        )
        if missing := [field for field, value in values.items() if value is None]:
            raise Invalid(field=missing[0], problem="must not be None")

        def work(tx: Transaction) -> Agent:
            row = tx.one(
                f"""insert into agents (tenant, {AGENT_COLUMNS})
                    values (:tenant, :name, :prompt, :model, :tools, :color, :icon, 1, :now, :now,
                            :model_label, :active)
                    on conflict do nothing
                    returning {AGENT_COLUMNS}""",
                **values,
            )
            if row is None:
                raise AlreadyExists(what="agent", id=name)
            return _agent(row, _count_memories(tx, name))

        return self._write("add", work, row={"name": name})

    def get(self, name: str) -> Agent:
        """Return one agent by its name."""
        canonical.key(name, "name")
        return self._read(lambda tx: self._get(tx, name))

    def list(self, *, limit: int = 100, after: str | None = None) -> Page[Agent]:
        """Return the tenant's agents, by name."""
        size = self._limit(limit)
        (start,) = decode_cursor(after, [str]) if after else ("",)

        def work(tx: Transaction) -> list[Agent]:
            rows = tx.all(
                f"""select {AGENT_COLUMNS} from agents
                    where tenant = :tenant and name > :start order by name limit :size""",
                start=start,
                size=size + 1,
            )
            return [_agent(row, _count_memories(tx, row[0])) for row in rows]

        return make_page(self._read(work, allow_replica=True), size, lambda agent: [agent.name])

    def edit(
        self,
        name: str,
        *,
        prompt: str | None = None,
        model: str | None = None,
        tools: Sequence[str] | None = None,
        color: str | None = None,
        icon: str | None = None,
        model_label: str | None = None,
        active: bool | None = None,
        if_version: int | None = None,
    ) -> Agent:
        """Change the given fields of an agent; with `if_version`, only if it has that version."""
        if if_version is not None:
            canonical.check_integer(if_version, "if_version")
        changes = self._values(
            name=name,
            prompt=prompt,
            model=model,
            tools=tools,
            color=color,
            icon=icon,
            model_label=model_label,
            active=active,
        )

        def work(tx: Transaction) -> Agent:
            before = self._get(tx, name, lock=True)
            if if_version not in (None, before.version):
                raise WrongVersion(
                    what="agent", id=name, actual=before.version, expected=if_version
                )
            row = tx.one(
                f"""update agents set
                        prompt = coalesce(:prompt, prompt), model = coalesce(:model, model),
                        tools = coalesce(:tools, tools), color = coalesce(:color, color),
                        icon = coalesce(:icon, icon),
                        model_label = coalesce(:model_label, model_label),
                        active = coalesce(:active, active),
                        version = version + 1, updated_at = :now
                    where tenant = :tenant and name = :name
                    returning {AGENT_COLUMNS}""",
                **changes,
            )
            assert row is not None
            return _agent(row, _count_memories(tx, name))

        return self._write("edit", work, row={"name": name})

    def remove(self, name: str) -> None:
        """Remove the configuration of an agent; its conversations stay."""
        canonical.key(name, "name")

        def work(tx: Transaction) -> None:
            if not tx.run("delete from agents where tenant = :tenant and name = :name", name=name):
                raise NotFound(what="agent", id=name)

        self._write("remove", work, row={"name": name})

    def _get(self, tx: Transaction, name: str, lock: bool = False) -> Agent:
        if lock:
            tx.lock_rows("select 1 from agents where tenant = :tenant and name = :name", name=name)
        row = tx.one(
            f"select {AGENT_COLUMNS} from agents where tenant = :tenant and name = :name",
            name=name,
        )
        if row is None:
            raise NotFound(what="agent", id=name)
        return _agent(row, _count_memories(tx, name))

    def _values(
        self,
        *,
        name: str,
        tools: Sequence[str] | None,
        active: bool | None,
        **texts: str | None,
    ) -> dict[str, str | int | None]:
        max_bytes = limits.MAX_ATTRIBUTES_BYTES
        policy = self._settings.masking
        canonical.key(name, "name", policy)
        if tools is not None and (isinstance(tools, str) or not isinstance(tools, Sequence)):
            raise Invalid(field="tools", problem="must be a list of names")
        if not isinstance(active, bool | None):
            raise Invalid(field="active", problem="must be true or false")
        checked: dict[str, str | None] = {
            field: None if value is None else canonical.text(value, field, max_bytes, policy)
            for field, value in texts.items()
        }
        if (color := checked["color"]) and not _COLOR.fullmatch(color):
            raise Invalid(
                field="color", problem=f"must be like #1f6feb, or empty, not {color[:50]!r}"
            )
        if len(checked["icon"] or "") > _MAX_ICON_CHARACTERS:
            raise Invalid(
                field="icon",
                problem=f"must be an emoji or at most {_MAX_ICON_CHARACTERS} characters",
            )
        names_json = None
        if tools is not None:
            names = [canonical.key(tool, "tools", policy) for tool in tools]
            names_json = canonical.dump(names, "tools", max_bytes)
            self._check_tools(names)
        is_active = None if active is None else int(active)
        return {**checked, "name": name, "tools": names_json, "active": is_active}

    def _check_tools(self, names: Sequence[str]) -> None:
        """Raise Invalid for an unknown tool name; otherwise the agent would silently lack it."""
        known = [
            tool.name
            for kind in self._services.kinds.values()
            for tool in kind(self._services, self._owner).tools()
        ]
        if any(name not in known for name in names):
            known += self._services.extra_tools.names()
        for name in names:
            if name not in known:
                problem = f"there is no tool {name[:50]!r}; there are {', '.join(known)}"
                raise Invalid(field="tools", problem=problem)
