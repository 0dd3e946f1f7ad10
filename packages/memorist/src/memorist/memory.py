"""The main entry point: open a database, choose an owner, and use each kind by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

from memorist.admin import audit_log, stored_responses
from memorist.admin.admin_kind import AdminKind
from memorist.admin.api_keys import ApiKeys
from memorist.admin.audit_log import AuditLog
from memorist.admin.offered_models import OfferedModels
from memorist.admin.principal import Principal
from memorist.admin.users import Users
from memorist.admin.webhooks import Webhooks
from memorist.base import canonical, limits
from memorist.base.clock import Clock
from memorist.base.errors import Invalid, NotFound
from memorist.base.masking import OFF, MaskFunction
from memorist.base.parameters import (
    HitCount,
    IdempotencyKey,
    InProcess,
    JsonSchema,
    Key,
    Keys,
    Number,
    OneOf,
    Probability,
    Texts,
)
from memorist.base.settings import Settings
from memorist.base.verbs import Endpoint, collect_verbs, verb
from memorist.content.message import NewMessage
from memorist.content.message_content import Content
from memorist.context.assemble import Context, assemble
from memorist.context.save_turn import NewTurn, save_turn
from memorist.jobs.jobs import Jobs
from memorist.jobs.model_calls import record
from memorist.jobs.reindex import Reindexed, catch_up, reindex
from memorist.jobs.status import DatabaseStatus
from memorist.kinds import KINDS, SEARCHABLE_KINDS, scope_search, trust
from memorist.kinds.agents import NO_TOOLS, Agents
from memorist.kinds.checkpoints import CheckpointTables
from memorist.kinds.consolidations import Consolidations
from memorist.kinds.documents import Documents
from memorist.kinds.entries import Entries
from memorist.kinds.extra_tools import ExtraTools
from memorist.kinds.facts import Facts
from memorist.kinds.graph import Graphs
from memorist.kinds.interactions import Interactions, Usage
from memorist.kinds.items import Items
from memorist.kinds.kind import Owner, Services
from memorist.kinds.messages.messages import Messages
from memorist.kinds.notes import Notes
from memorist.kinds.refs import Refs
from memorist.kinds.scope_search import SearchRequest, SearchResults
from memorist.kinds.sessions import Sessions
from memorist.kinds.state import State
from memorist.kinds.summaries import Summaries
from memorist.kinds.tool import Tool
from memorist.kinds.trust import Source
from memorist.kinds.turns import Turn, Turns
from memorist.models import Models
from memorist.search import embedders
from memorist.search.embedders import Embedder
from memorist.search.index import Index
from memorist.search.reindexer import checks as index_checks
from memorist.search.rerankers import Reranker
from memorist.storage import files, former_name, migrate
from memorist.storage.connect import connect, folder
from memorist.storage.contents.blobs import Blobs
from memorist.storage.database import EVERY_TENANT, Finding, Transaction
from memorist.storage.event_log import Event, NewEvent
from memorist.storage.event_log import last_number as last_event_number
from memorist.storage.event_log import read as read_events
from memorist.storage.transaction_database import TransactionBlobs, as_database
from memorist.storage.transfer.verify import count, refuse_damage, verify
from memorist.storage.writer import Change, Writer

if TYPE_CHECKING:  # most programs never need these modules: the methods import them
    from memorist.jobs.job import JobResults
    from memorist.jobs.retention import Purged
    from memorist.storage.transfer.copy import Copied, Progress

WorkResult = TypeVar("WorkResult")
SearchedKinds = Annotated[Sequence[str], Texts(OneOf(SEARCHABLE_KINDS), min_items=1)]
TABLES = tuple(table for kind in KINDS for table in kind.tables)
CHECKS = (
    *(check for kind in KINDS for check in kind.checks),
    *index_checks({kind.name: kind.findable for kind in KINDS if kind.findable}),
    *audit_log.CHECKS,
)


class Administration:
    """The administration of one tenant, with each of its kinds as an attribute.

    principal: who administrates; None for a program that opens the database itself
    """

    def __init__(
        self, services: Services, owner: Owner, principal: Principal | None = None
    ) -> None:
        self.keys = ApiKeys(services, owner, principal)
        self.webhooks = Webhooks(services, owner, principal)
        self.users = Users(services, owner, principal)
        self.audit = AuditLog(services, owner, principal)
        self.status = DatabaseStatus(services, owner, principal)
        self.jobs = Jobs(services, owner, principal)
        self.models = OfferedModels(services, owner, principal)


ADMIN_KINDS: tuple[type[AdminKind], ...] = (
    ApiKeys,
    Webhooks,
    Users,
    AuditLog,
    DatabaseStatus,
    Jobs,
    OfferedModels,
)


CHECKED_TABLES = tuple(
    table
    for table in (
        *TABLES,
        *(table for kind in ADMIN_KINDS for table in kind.tables),
        *stored_responses.TABLES,
    )
    if table.checked
)
"""The tables whose rows have a checksum over their texts."""


class AdminAttributes:
    """Attributes for administering the default tenant: `keys`, `webhooks`, `users` and others.

    For another tenant, use `scope(tenant=…).admin`.
    """

    @property
    def admin(self) -> Administration:
        """The administration of the tenant of the settings, or of the key of a client."""
        raise NotImplementedError

    @property
    def keys(self) -> ApiKeys:
        """The API keys of the tenant."""
        return self.admin.keys

    @property
    def webhooks(self) -> Webhooks:
        """The addresses that get the events of the tenant."""
        return self.admin.webhooks

    @property
    def users(self) -> Users:
        """The users of the tenant."""
        return self.admin.users

    @property
    def audit(self) -> AuditLog:
        """The audit log of the tenant."""
        return self.admin.audit

    @property
    def status(self) -> DatabaseStatus:
        """The size of the database, and the work that is due."""
        return self.admin.status

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the tenant."""
        return self.admin.jobs

    @property
    def models(self) -> OfferedModels:
        """The models that the model service offers."""
        return self.admin.models


class Scope:
    """The memory of one owner, with each kind as an attribute."""

    parameter_help: ClassVar[Mapping[str, str]] = {
        "key": "Idempotency key. A retry with the same key adds nothing.",
        "messages": "The messages of the turn, in order.",
        "session": "The session id. Without it, search covers all sessions.",
    }

    verbs: ClassVar[Mapping[str, Endpoint]]
    """The verbs of the scope itself, over all kinds."""

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
        self.documents = Documents(services, owner)
        self.graph = Graphs(services, owner)
        self.interactions = Interactions(services, owner)
        self.turns = Turns(services, owner)
        self.checkpoints = CheckpointTables(services, owner)

    @property
    def admin(self) -> Administration:
        """The administration of the tenant. Over HTTP, it needs a key with the permission admin."""
        return Administration(self.services, self.owner)

    @verb(
        "POST /context",
        effect="read",
        calls_model="embedder",
        example='memorist context --session trip --message "What next?" --budget 4000',
    )
    def context(
        self,
        session: Key,
        message: Annotated[Content, JsonSchema({"type": ["string", "object", "null"]})] = "",
        *,
        budget: Number | None = None,
        others: Keys = (),
    ) -> Context:
        """Return the context for a new message, within a budget of tokens, and its report.

        `others` are the other agents of a group conversation.
        """
        return assemble(self.services, self.owner, session, message, budget, others)

    @verb(
        "POST /search",
        effect="read",
        calls_model="embedder",
        example="memorist search 'where does my sister live' --user ada",
    )
    def search(
        self,
        query: str,
        *,
        kinds: SearchedKinds | None = None,
        session: Key | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        at: datetime | None = None,
        limit: HitCount = 10,
        min_score: Probability = 0.0,
    ) -> SearchResults:
        """Search all memories of the scope by words and by meaning; return the best hits first.

        `facts` of the result has up to three facts beside the hits, unless `kinds` leaves them out.

        kinds:     some of messages, facts, notes, entries, refs, state, items, documents and graph
        at:        when the question is asked (default: now); "last week" is relative to it
        min_score: leave out hits with a lower score, from 0 to 1
        """
        request = SearchRequest(
            query,
            None if kinds is None else _searchable(kinds),
            session=session,
            since=since,
            until=until,
            at=at,
            limit=limit,
            min_score=min_score,
        )
        return scope_search.search(self.services, self.owner, request)

    @verb("POST /turns", effect="add", routine=True)
    def save_turn(
        self,
        session: Key,
        messages: Sequence[NewMessage | Mapping[str, Any]],
        *,
        usage: Usage | Mapping[str, Any] | None = None,
        key: IdempotencyKey | None = None,
        context: Annotated[Context, InProcess()] | None = None,
    ) -> Turn:
        """Save a turn in one write: messages, references to large outputs, model call, report."""
        if context is not None and not isinstance(context, Context):
            raise Invalid(
                field="context", problem="must be the unchanged result of context(), or None"
            )
        report = None if context is None else context.report
        new_turn = NewTurn(session, messages, usage=usage, key=key, report=report)
        return save_turn(self.services, self.owner, new_turn)

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
                    index=Index(),  # what is rolled back must not stay in its caches
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
        source = trust.least_trusted(("agent", self.owner.source))
        scope = Scope(self.services, replace(self.owner, source=source))
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


Scope.verbs = collect_verbs(Scope)


def _searchable(kinds: Sequence[str]) -> list[str]:
    """Return kind names without duplicates; raise Invalid for a kind that cannot be searched."""
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        kinds = [kinds]
    names = list(dict.fromkeys(kinds))
    unknown = [name for name in names if name not in SEARCHABLE_KINDS]
    if names and not unknown:
        return names
    problem = f"must be among {', '.join(SEARCHABLE_KINDS)}"
    raise Invalid(field="kinds", problem=f"{problem}, not {unknown[0]!r}" if unknown else problem)


class Memory(AdminAttributes):
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
        complete_index: bool = True,
        create: bool = True,
        wait_seconds: float | None = None,
    ) -> Memory:
        """Open a database by its URL, or the one in the settings, and migrate its schema.

        After an upgrade or an import, completes the search index first; without `complete_index`,
        the background jobs do that, and searches say that they are incomplete.

        Without `create`, a file that does not exist is an error. `models` and `embedder`
        replace those in the settings. `reranker` scores the best hits of a search again. `tools` are Python functions that agents can name
        among their tools. `mask` returns a text without personal data; it is called on the
        texts that the setting `personal_data` selects, after the built-in patterns.
        """
        settings = settings or (Settings.load() if database is None else Settings())
        if database is None:
            former_name.reject_default_file(settings)
        else:
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
        opened.checked_tables = CHECKED_TABLES
        blobs = Blobs(opened, folder(settings))
        services = Services(
            database=opened,
            writer=Writer(opened, records_events=settings.events != "off"),
            settings=settings,
            models=models or Models(settings),
            blobs=blobs,
            index=Index(),
            embedder=embedder,
            reranker=reranker,
            extra_tools=extra_tools,
            record=record,
            kinds={kind.name: kind for kind in KINDS},
        )
        memory = cls(services, migrations)
        try:
            extra_tools.reject_names({NO_TOOLS, *(tool.name for tool in memory.scope().tools())})
            if migrate_up:
                migrate.up(opened, migrations)
                if complete_index:
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

    @property
    def admin(self) -> Administration:
        """The administration of the tenant of the settings."""
        return self.scope().admin

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
            CHECKS,
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
        from memorist.storage.transfer.copy import export

        for tenant in tenants or []:
            self._existing(tenant, "tenants")
        user = None if user is None else canonical.key(user, "user")
        with files.writing(out, replace=True) as file:
            return export(
                TABLES,
                self.services.blobs,
                file,
                tenants=tenants,
                user=user,
                progress=progress,
            )

    def import_(self, file: IO[bytes] | Path | str, *, progress: Progress | None = None) -> Copied:
        """Read an export; existing rows stay, and the same file can be read again."""
        from memorist.storage.transfer.copy import import_

        with files.reading(file) as opened:
            copied = import_(
                self.services.writer, TABLES, self.services.blobs, opened, progress=progress
            )
        catch_up(self.services, wait=True)
        return copied

    def reindex(
        self, *, tenants: list[str] | None = None, progress: Progress | None = None
    ) -> Reindexed:
        """Add missing records to the search index and remove others; others may read and write."""
        return reindex(self.services, tenants, progress)

    def purge(
        self,
        *,
        days: float | None = None,
        tenants: list[str] | None = None,
        emergency: bool = False,
        progress: Progress | None = None,
    ) -> Purged:
        """Remove what has expired, unused contents, old events, and old messages and threads.

        `Purged` lists what is removed.

        days: the age of messages and unused checkpoint threads to remove (default: `retention_days`)
        """
        from memorist.jobs.retention import purge

        days = days if days is not None else self.settings.retention_days or None
        return purge(
            self.services,
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
        from memorist.jobs.runner import JobRunner

        for tenant in tenants or []:
            self._existing(tenant, "tenants")
        return JobRunner(self.services).run(tenants, progress)

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

    def backup(self, target: Path | str, *, damaged: bool = False) -> None:
        """Write a consistent copy of the open database, and its large contents beside it.

        Compares every text and content with its checksum before, and raises CorruptRecord if one is
        damaged. `damaged` copies without this check.
        """
        if not str(target).strip():
            raise Invalid(field="target", problem="must name a file that does not exist")
        blobs = self.services.blobs
        if damaged:
            blobs.backup(Path(target))
        else:
            blobs.backup(Path(target), check=partial(refuse_damage, self.database, blobs))

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
