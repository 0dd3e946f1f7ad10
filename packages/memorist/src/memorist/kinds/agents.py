"""Agents: a name, a system prompt, a model, allowed tools, a colour and an icon; active or not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from memorist.base import canonical, limits
from memorist.base.errors import AlreadyExists, Invalid, NotFound, WrongVersion
from memorist.base.parameters import Count, Key, Keys, PageSize, Text
from memorist.base.verbs import verb
from memorist.kinds.kind import Kind, Table
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.checksum import checksum
from memorist.storage.damage import changed_checksum
from memorist.storage.database import Transaction
from memorist.storage.rows import row_mapper

AGENT_COLUMNS = """name, prompt, model, tools, color, icon, version, created_at, updated_at,
                   model_label, active"""
_MAX_ICON_CHARACTERS = 8
"""One emoji may have several characters."""
_COLOR = re.compile("#[0-9a-fA-F]{6}")
NO_TOOLS = "none"
"""The only name in the list of an agent that may call no tools; an empty list means all memory tools."""
Color = Annotated[str, Text(f"^({_COLOR.pattern})?$")]
Icon = Annotated[str, Text(max_length=_MAX_ICON_CHARACTERS)]


@dataclass(frozen=True)
class MemoriesCount:
    """The number of an agent's accepted entries, by kind."""

    core: int = 0
    journal: int = 0


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
    memories_count: MemoriesCount = field(default_factory=MemoriesCount)
    model_label: str = ""  # display name of the model
    active: bool = True  # an inactive agent does not answer


_agent = row_mapper(Agent, besides=["memories_count"])


def _count_memories(tx: Transaction, name: str) -> MemoriesCount:
    rows = tx.all(
        """select kind, count(*) from entries
           where tenant = :tenant and agent = :agent and kind in ('journal', 'core')
           and review = 'accepted' group by kind""",
        agent=name,
    )
    return MemoriesCount(**{kind: int(count) for kind, count in rows})


class Agents(Kind):
    """The configured agents of a tenant. Memory works for any agent name, configured or not."""

    name = "agents"
    sharing = "always"
    parameter_help = {
        "active": "Answer in chats. An inactive agent (--no-active) does not answer.",
    }
    tables = (
        Table(
            "agents",
            order="name",
            of_agent="name = :agent",
            checked=("prompt", "model", "tools", "color", "icon", "model_label"),
        ),
    )

    @verb(
        "POST /agents",
        effect="add",
        example='memorist agents add scout --prompt "You scout ahead." --tools search_memory,save_to_core',
    )
    def add(
        self,
        name: Key,
        *,
        prompt: str = "",
        model: str = "",
        tools: Keys = (),
        color: Color = "",
        icon: Icon = "",
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
                f"""insert into agents (tenant, {AGENT_COLUMNS}, checksum)
                    values (:tenant, :name, :prompt, :model, :tools, :color, :icon, 1, :now, :now,
                            :model_label, :active, :checksum)
                    on conflict do nothing
                    returning {AGENT_COLUMNS}""",
                **values,
                checksum=checksum(*[str(values[name]) for name in self.tables[0].checked]),
            )
            if row is None:
                raise AlreadyExists(what="agent", id=name)
            return _agent(row, memories_count=_count_memories(tx, name))

        return self._write("add", work, row={"name": name})

    @verb("GET /agents/{name:path}", effect="read", example="memorist agents get scout --json")
    def get(self, name: Key) -> Agent:
        """Return one agent by its name."""
        canonical.key(name, "name")
        return self._read(lambda tx: self._get(tx, name))

    @verb("GET /agents", effect="read", example="memorist agents list")
    def list(self, *, limit: PageSize = 100, after: str | None = None) -> Page[Agent]:
        """Return the tenant's agents, by name."""
        size, (start,) = page_start(limit, after, "")

        def work(tx: Transaction) -> list[Agent]:
            rows = tx.all(
                f"""select {AGENT_COLUMNS} from agents
                    where tenant = :tenant and name > :start order by name limit :size""",
                start=start,
                size=size + 1,
            )
            return [_agent(row, memories_count=_count_memories(tx, row[0])) for row in rows]

        return make_page(self._read(work, allow_replica=True), size, lambda agent: [agent.name])

    @verb(
        "PATCH /agents/{name:path}",
        effect="change",
        example="memorist agents edit scout --model gpt-5-mini --if-version 1",
    )
    def edit(
        self,
        name: Key,
        *,
        prompt: str | None = None,
        model: str | None = None,
        tools: Keys | None = None,
        color: Color | None = None,
        icon: Icon | None = None,
        model_label: str | None = None,
        active: bool | None = None,
        if_version: Count | None = None,
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

        checked = self.tables[0].checked
        changed = {
            column: str(changes[column]) for column in checked if changes[column] is not None
        }

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
                        active = coalesce(:active, active), checksum = :checksum,
                        version = version + 1, updated_at = :now
                    where tenant = :tenant and name = :name
                    returning {AGENT_COLUMNS}""",
                **changes,
                checksum=changed_checksum(tx, self.tables[0], {"name": name}, changed),
            )
            assert row is not None
            return _agent(row, memories_count=_count_memories(tx, name))

        return self._write("edit", work, row={"name": name})

    @verb("DELETE /agents/{name:path}", effect="remove", example="memorist agents remove scout")
    def remove(self, name: Key) -> None:
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
        return _agent(row, memories_count=_count_memories(tx, name))

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
        if NO_TOOLS in names:
            if len(names) > 1:
                problem = f"must be {NO_TOOLS!r} alone, or names of tools"
                raise Invalid(field="tools", problem=problem)
            return
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
