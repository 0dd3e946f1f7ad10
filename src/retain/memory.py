"""The main entry point: open a database, choose an owner, and use each kind by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar

from retain.auth import audit_log, idempotency
from retain.base import canonical, limits
from retain.base.clock import Clock
from retain.base.errors import Invalid, NotFound
from retain.base.masking import OFF, MaskFunction
from retain.base.settings import Settings
from retain.context.assemble import Context, assemble
from retain.context.save_turn import save_turn
from retain.jobs.model_calls import record
from retain.jobs.reindex import Reindexed, catch_up, reindex
from retain.kinds import KINDS, SEARCHABLE_KINDS, search_scope
from retain.kinds.agents import Agents
from retain.kinds.checkpoints.checkpoints import Checkpoints
from retain.kinds.consolidations import Consolidations
from retain.kinds.entries import Entries
from retain.kinds.extra_tools import ExtraTools
from retain.kinds.facts import Facts
from retain.kinds.facts.changes import remove_of_agent
from retain.kinds.graph import Graphs
from retain.kinds.interactions import Interactions, Usage
from retain.kinds.items import Items
from retain.kinds.kind import Owner, Services, Source
from retain.kinds.knowledge import Knowledge
from retain.kinds.messages.messages import Messages
from retain.kinds.notes import Notes
from retain.kinds.refs import Refs
from retain.kinds.search_scope import SearchResults
from retain.kinds.sessions import Sessions
from retain.kinds.state import State
from retain.kinds.summaries import Summaries
from retain.kinds.tool import Tool
from retain.kinds.turns import Turn, Turns
from retain.messages.content import Content
from retain.messages.message import NewMessage
from retain.models import Models
from retain.search import embedders
from retain.search.embedders import Embedder
from retain.search.index import open_index
from retain.search.rerankers import Reranker
from retain.storage import files, migrate
from retain.storage.blobs import Blobs
from retain.storage.connect import connect, folder
from retain.storage.database import EVERY_TENANT, Finding, Transaction
from retain.storage.erase import AgentReceipt, Receipt, erase, erase_agent
from retain.storage.outbox import Event, NewEvent
from retain.storage.outbox import last_number as last_event_number
from retain.storage.outbox import read as read_events
from retain.storage.transaction_database import TransactionBlobs, as_database
from retain.storage.verify import count, verify
from retain.storage.writer import Change, Writer

if TYPE_CHECKING:  # most programs never need these modules: the methods import them
    from retain.jobs.retention import Purged
    from retain.jobs.runner import JobResults
    from retain.storage.copy import Copied, Progress

WorkResult = TypeVar("WorkResult")
TABLES = tuple(table for kind in KINDS for table in kind.tables)
CHECKS = (*(check for kind in KINDS for check in kind.checks), *embedders.CHECKS, *audit_log.CHECKS)


class Scope:
    """The memory of one owner, with each kind as an attribute."""

    def __init__(self, services: Services, owner: Owner) -> None:
        self.services = services
        self.owner = owner
        self.agents = Agents(services, owner)
        self.sessions = Sessions(services, owner)
        self.messages = Messages(services, owner)
        self.summaries = Summaries(services, owner)
        self.notes = Notes(services, owner)
        self.facts = Facts(services, owner)
        self.entries = Entries(services, owner)
        self.consolidations = Consolidations(services, owner)
        self.refs = Refs(services, owner)
        self.state = State(services, owner)
        self.items = Items(services, owner)
        self.knowledge = Knowledge(services, owner)
        self.graph = Graphs(services, owner)
        self.interactions = Interactions(services, owner)
        self.turns = Turns(services, owner)
        self.checkpoints = Checkpoints(services, owner)

    def context(
        self,
        session: str,
        message: Content = "",
        *,
        budget: int | None = None,
        others: Sequence[str] = (),
    ) -> Context:
        """Return the context for a new message, within a budget of tokens, and its report.

        `others` are the other agents of a group conversation.
        """
        return assemble(self.services, self.owner, session, message, budget, others)

    def search(
        self,
        query: str,
        *,
        kinds: Sequence[str] | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        at: datetime | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> SearchResults:
        """Search all memories of the scope by words and by meaning; return the best hits first.

        `facts` of the result has up to three facts beside the hits, unless `kinds` leaves them out.

        kinds:     some of messages, facts, notes, entries, refs, state, items, knowledge and graph
        at:        when the question is asked (default: now); "last week" is relative to it
        min_score: leave out hits with a lower score, from 0 to 1
        """
        chosen = None if kinds is None else _searchable(kinds)
        return search_scope.search(
            self.services,
            self.owner,
            query,
            chosen,
            session=session,
            since=since,
            until=until,
            at=at,
            limit=limit,
            min_score=min_score,
        )

    def save_turn(
        self,
        session: str,
        messages: Sequence[NewMessage | Mapping[str, Any]],
        *,
        usage: Usage | Mapping[str, Any] | None = None,
        key: str | None = None,
        context: Context | None = None,
    ) -> Turn:
        """Save a turn in one write: messages, references to large outputs, model call, report."""
        if context is not None and not isinstance(context, Context):
            raise Invalid(
                field="context", problem="must be the unchanged result of context(), or None"
            )
        return save_turn(
            self.services,
            self.owner,
            session,
            messages,
            usage,
            key,
            None if context is None else context.report,
        )

    def transaction(
        self, work: Callable[[Scope], WorkResult], *, lock: str | None = None
    ) -> WorkResult:
        """Run several verbs as one write: everything that `work` does with its scope, or nothing.

        `work` reads its own writes, and an exception that it raises rolls them back. With `lock`,
        transactions with the same lock name run one after the other, so that a value that was read
        is still current when it is written; without a lock, compare versions. `work` may run more than
        once, so it must have no other effects, must use only the scope that it is given, must not
        call a model, and cannot use references.
        """
        events: list[NewEvent] = []

        def run(tx: Transaction) -> tuple[WorkResult, list[str]]:
            if lock is not None:
                tx.lock(lock)
            events.clear()
            blobs = TransactionBlobs(self.services.blobs)
            with as_database(self.services.database, tx) as database:
                services = replace(
                    self.services,
                    database=database,
                    writer=Writer(
                        database,
                        records_events=self.services.settings.events != "off",
                        collected=events,
                    ),
                    blobs=blobs,
                    embedder=None,
                    reranker=None,
                )
                return work(Scope(services, self.owner)), blobs.discarded

        change = Change(
            "scope",
            "transaction",
            self.owner.tenant,
            user=self.owner.user,
            returns=lambda result: result[0],
            parts=events,
        )
        result, discarded = self.services.writer.write(change, run)
        if discarded:
            self.services.blobs.discard(discarded)
        return result

    def tools(
        self, names: Sequence[str] | None = None, *, session: str | None = None
    ) -> list[Tool]:
        """Return the memory tools for a model, or only those named.

        References that the tools store belong to `session`.
        """
        if isinstance(names, str):
            raise Invalid(
                field="names", problem=f"must be a list of names, such as [{names[:50]!r}]"
            )
        scope = self
        if self.owner.source not in ("tool", "import"):
            scope = Scope(self.services, replace(self.owner, source="agent"))
        tools_by_name = {
            tool.name: tool for kind in KINDS for tool in getattr(scope, kind.name).tools(session)
        }
        unknown = [name for name in names or () if name not in tools_by_name]
        if unknown:
            raise Invalid(
                field="names",
                problem=f"there is no tool {unknown[0]!r}; there are {', '.join(tools_by_name)}",
            )
        tools = [tool for name, tool in tools_by_name.items() if names is None or name in names]
        policy = self.services.settings.output_masking
        return tools if policy is OFF else [tool.masked(policy) for tool in tools]


def _searchable(kinds: Sequence[str]) -> list[str]:
    """Return kind names without duplicates; raise Invalid for a kind that cannot be searched."""
    names = [kinds] if isinstance(kinds, str) else list(dict.fromkeys(kinds))
    unknown = [name for name in names if name not in SEARCHABLE_KINDS]
    if names and not unknown:
        return names
    problem = f"must be among {', '.join(SEARCHABLE_KINDS)}"
    raise Invalid(field="kinds", problem=f"{problem}, not {unknown[0]!r}" if unknown else problem)


class Memory:
    """One database of memories; safe to share between threads."""

    def __init__(self, services: Services, migrations: Sequence[migrate.Migration]) -> None:
        self.services = services
        self.database = services.database
        self.settings = services.settings
        self.migrations = migrations

    @classmethod
    def open(
        cls,
        database: str | None = None,
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        models: Models | None = None,
        embedder: Embedder | None = None,
        reranker: Reranker | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        mask: MaskFunction | None = None,
        migrate_up: bool = True,
        create: bool = True,
        wait_seconds: float | None = None,
    ) -> Memory:
        """Open a database by its URL, or the one in the settings, and migrate its schema.

        Without `create`, a file that does not exist is an error. `models` and `embedder`
        replace those in the settings. `reranker` scores the best hits of a search again. `tools` are Python functions that agents can name
        among their tools. `mask` returns a text without personal data; it is called on the
        texts that the setting `personal_data` selects, after the built-in patterns.
        """
        settings = settings or (Settings.load() if database is None else Settings())
        if database is not None:
            settings = replace(settings, database=database)
        if mask is not None:
            if settings.personal_data == "off":
                problem = "requires the setting personal_data: in, out or both"
                raise Invalid(field="mask", problem=problem)
            settings = replace(settings, mask_function=mask)
        if isinstance(embedder, str):
            raise Invalid(
                field="embedder",
                problem="must be an Embedder; to choose one by name, use Settings(embedder=…)",
            )
        embedder = embedders.check_family(embedder or embedders.choose(settings))
        extra_tools = ExtraTools(tools, settings)
        opened, migrations = connect(settings, clock, create=create, wait_seconds=wait_seconds)
        blobs = Blobs(opened, folder(settings))
        index = open_index(opened)
        services = Services(
            opened,
            Writer(opened, records_events=settings.events != "off"),
            settings,
            models or Models(settings),
            blobs,
            index,
            embedder,
            reranker,
            extra_tools,
            record,
            kinds={kind.name: kind for kind in KINDS},
        )
        memory = cls(services, migrations)
        try:
            extra_tools.reject_names({tool.name for tool in memory.scope().tools()})
            if migrate_up:
                migrate.up(opened, migrations)
                catch_up(memory.services)
        except BaseException:  # an interruption must not leave the database open
            memory.close()
            raise
        return memory

    def scope(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        source: Source = "user",
    ) -> Scope:
        """Return the memory of a tenant, or of one user or one agent in it.

        `source` says who writes through this scope; it is stored with every record.
        """
        tenant = canonical.key(self.settings.tenant if tenant is None else tenant, "tenant")
        if tenant == EVERY_TENANT:
            raise Invalid(field="tenant", problem="must be the name of a single tenant")
        user = None if user is None else canonical.key(user, "user")
        agent = None if agent is None else canonical.key(agent, "agent")
        return Scope(self.services, Owner(tenant, user, agent, source))

    def models(self) -> Sequence[str]:
        """Return the names of the models that the configured model service offers."""
        return self.services.models.list()

    def tenants(self) -> list[str]:
        """Return the tenants that have written something."""
        return self.database.tenants()

    def counts(self, *, exact: bool = False) -> dict[str, int]:
        """Return the number of rows of each table, over all tenants.

        Where a tenant has more than 2,000 rows in a table, the number is a rounded estimate from a
        sample, unless `exact`: an exact count reads all rows.
        """
        return count(self.database, TABLES, exact=exact)

    def verify(self, *, start: int = 1, progress: Progress | None = None) -> list[Finding]:
        """Check order, references, indexes and tenant isolation. Reads the whole database.

        `progress` is called with the number of each check that has ended, and the number of checks.
        To continue an interrupted run, pass the number of the next check as `start`.
        """
        canonical.check_integer(start, "start", 1)
        return verify(
            self.database,
            (*CHECKS, *self.services.index.engine.checks),
            self.services.blobs,
            self.migrations[-1].number,
            start=start,
            progress=progress,
        )

    def export(
        self,
        out: IO[bytes] | Path | str,
        *,
        tenants: list[str] | None = None,
        user: str | None = None,
        progress: Progress | None = None,
    ) -> Copied:
        """Write all data, or that of some tenants or one user, as JSON Lines.

        A file given by its path appears only when it is complete.
        """
        from retain.storage.copy import export

        for tenant in tenants or []:
            self._existing(tenant, "tenants")
        user = None if user is None else canonical.key(user, "user")
        with files.writing(out) as file:
            return export(
                self.database,
                TABLES,
                self.services.blobs,
                file,
                tenants=tenants,
                user=user,
                progress=progress,
            )

    def import_(self, file: IO[bytes] | Path | str, *, progress: Progress | None = None) -> Copied:
        """Read an export; existing rows stay, and the same file can be read again."""
        from retain.storage.copy import import_

        with files.reading(file) as opened:
            copied = import_(
                self.services.writer, TABLES, self.services.blobs, opened, progress=progress
            )
        catch_up(self.services, wait=True)
        return copied

    def reindex(
        self, *, tenants: list[str] | None = None, progress: Progress | None = None
    ) -> Reindexed:
        """Add missing rows to the search index and remove stray rows; others may read and write."""
        return reindex(self.services, tenants, progress)

    def purge(
        self,
        *,
        days: float | None = None,
        tenants: list[str] | None = None,
        emergency: bool = False,
        progress: Progress | None = None,
    ) -> Purged:
        """Remove expired state, unused contents and old messages.

        days: the age of messages to remove (default: `retention_days`)
        """
        from retain.jobs.retention import purge

        days = days if days is not None else self.settings.retention_days or None
        return purge(
            self.services.writer,
            self.services.blobs,
            self.services.index,
            days=days,
            tenants=tenants,
            emergency=emergency,
            progress=progress,
        )

    def run_jobs(
        self, *, tenants: list[str] | None = None, progress: Progress | None = None
    ) -> JobResults:
        """Run the due background jobs once: vectors, summaries, facts, retention, webhooks and others.

        A job that fails does not stop the others: the result has the number of failures and their
        reasons. Raises `Unreachable` or `ReadOnly` if the database cannot be used.
        """
        from retain.jobs.runner import JobRunner

        for tenant in tenants or []:
            self._existing(tenant, "tenants")
        return JobRunner(self.services).run(tenants, progress)

    def erase(self, user: str, *, tenant: str | None = None) -> Receipt:
        """Remove all data of one user and return a receipt."""
        owner = self.scope(tenant=tenant, user=canonical.key(user, "user")).owner
        return erase(
            self.services.writer,
            (*TABLES, *idempotency.TABLES),
            self.services.blobs,
            self._existing(owner.tenant, "tenant"),
            user,
        )

    def erase_agent(self, agent: str, *, tenant: str | None = None) -> AgentReceipt:
        """Remove an agent with its entries, notes, facts and sessions, and return a receipt."""
        owner = self.scope(tenant=tenant, agent=canonical.key(agent, "agent")).owner
        index = self.services.index
        return erase_agent(
            self.services.writer,
            TABLES,
            self.services.blobs,
            self._existing(owner.tenant, "tenant"),
            agent,
            lambda tx: remove_of_agent(tx, index, agent),
        )

    def events(self, *, after: int = 0, limit: int = 100, tenant: str | None = None) -> list[Event]:
        """Return the events after a number, oldest first. The setting `events` records them.

        after: the number of the last known event (default: from the oldest stored event on)
        """
        canonical.check_integer(after, "after", 0, 2**62)
        canonical.check_integer(limit, "limit", 1, limits.MAX_PAGE)
        name = self.scope(tenant=tenant).owner.tenant
        return self.database.read(name, lambda tx: read_events(tx, after, limit))

    def last_event(self, *, tenant: str | None = None) -> int:
        """Return the number of the newest event, 0 if there is none."""
        return self.database.read(self.scope(tenant=tenant).owner.tenant, last_event_number)

    def backup(self, target: Path | str) -> None:
        """Write a consistent copy of the open database, and its large contents beside it."""
        if not str(target).strip():
            raise Invalid(field="target", problem="must name a file that does not exist")
        self.services.blobs.backup(Path(target))

    def _existing(self, tenant: str, field: str) -> str:
        """Return a tenant, or raise NotFound: a typo must not create a tenant."""
        if canonical.key(tenant, field) not in self.tenants():
            raise NotFound(what="tenant", id=tenant)
        return tenant

    def close(self) -> None:
        """Close the database; acknowledged writes are already durable."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
