"""The base of every kind: its owner and its services."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, ParamSpec, TypeVar

from memorist.base import canonical, limits
from memorist.base.errors import Invalid, NotFound
from memorist.base.masking import OFF, mask_personal
from memorist.base.verbs import EVENTS, Effect, Endpoint, Sharing, collect_verbs
from memorist.content import placeholder
from memorist.kinds.trust import Source
from memorist.models.recording import ModelCall, RecordedModel
from memorist.search import snippet
from memorist.search.indexer import BackgroundIndexer
from memorist.search.service_embedder import RecordedEmbedder, ServiceEmbedder
from memorist.storage.damage import raise_damage
from memorist.storage.tables import Check, Table
from memorist.storage.writer import Change, RowKey

if TYPE_CHECKING:
    from memorist.base.settings import Settings
    from memorist.kinds.extra_tools import ExtraTools
    from memorist.kinds.newer_statement import MessageName, NewerStatement
    from memorist.kinds.section import Ask, RecallScope, Section
    from memorist.kinds.tool import Tool, ToolOutput
    from memorist.models import Model, Models
    from memorist.search.embedders import Embedder
    from memorist.search.index import Index
    from memorist.search.query import Hit, Query
    from memorist.search.rerankers import Reranker
    from memorist.search.search_document import Findable
    from memorist.storage.contents.blobs import Blobs
    from memorist.storage.database import Database, Row, Sent, Transaction
    from memorist.storage.writer import Writer

Record = TypeVar("Record")
Parameters = ParamSpec("Parameters")

__all__ = [
    "ChangeSubject",
    "Check",
    "Kind",
    "Owner",
    "Services",
    "Table",
    "own_session",
]


@dataclass(frozen=True)
class Owner:
    """The owner of a memory: a tenant, a user and an agent (None: all of them); and the writer."""

    tenant: str
    user: str | None = None
    agent: str | None = None
    source: Source = "user"


class ChangeSubject(NamedTuple):
    """What a write changes, where it is not one row of the kind's main table."""

    id: str = ""
    session: str = ""
    """The id of the session whose content changes, instead of an id."""


_NO_SUBJECT = ChangeSubject()


class Observer:
    """Called around each operation that a client calls, and each tool that a model calls.

    This class does nothing. The server has a subclass that counts and traces the calls.
    """

    def call(
        self,
        operation: str,
        owner: Owner,
        verb: Callable[Parameters, Record],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Record:
        """Call a verb and return its result."""
        return verb(*arguments, **named)

    def call_tool(
        self, tool: Tool, owner: Owner, arguments: Mapping[str, Any] | str | None
    ) -> ToolOutput:
        """Call a tool and return its answer. Raise StorageError if the database fails."""
        return tool.attempt(arguments)


@dataclass(frozen=True)
class Services:
    """The services that kinds use: database, settings, models, blobs and index."""

    database: Database
    writer: Writer
    """Runs every change; it may audit changes and notify listeners."""
    settings: Settings
    models: Models
    blobs: Blobs
    index: Index
    embedder: Embedder | None
    reranker: Reranker | None
    extra_tools: ExtraTools
    """Tools besides the memory tools that agents can use."""
    record: Callable[[Services, Owner, str, ModelCall, str | None], None] = lambda *_: None
    """Stores a model call: its owner, route, result and session."""
    background_indexer: BackgroundIndexer = field(default_factory=BackgroundIndexer)
    observer: Observer = field(default_factory=Observer)
    """Counts and traces the operations that clients call."""
    kinds: Mapping[str, type[Kind]] = field(default_factory=dict)
    """Every kind by its name, to read the records of search hits."""

    @functools.cached_property
    def findables(self) -> Mapping[str, Findable]:
        """How each kind reads the records that a search finds."""
        return {name: kind.findable for name, kind in self.kinds.items() if kind.findable}

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of all kinds, parents first."""
        return tuple(table for kind in self.kinds.values() for table in kind.tables)

    def watched(self, model: Model, owner: Owner, route: str, session: str | None = None) -> Model:
        """Return a model that records its calls for an owner.

        Do not call it in a transaction.
        """
        policy = self.settings.output_masking
        return RecordedModel(
            model,
            lambda call: self.record(self, owner, route, call, session),
            str if policy is OFF else lambda prompt: mask_personal(prompt, policy),
        )

    def embedding(self, owner: Owner, seconds: float | None = None) -> Embedder | None:
        """Return the embedder for an owner; a remote embedder records its calls.

        `seconds` limits the time of a remote call. Do not call it in a transaction.
        """
        if not isinstance(self.embedder, ServiceEmbedder):
            return self.embedder
        return RecordedEmbedder(
            self.embedder, lambda call: self.record(self, owner, "embed", call, None), seconds
        )


class Kind:
    """A kind of memory, seen from one scope."""

    name: ClassVar[str]
    tables: ClassVar[tuple[Table, ...]]
    checks: ClassVar[tuple[Check, ...]] = ()
    findable: ClassVar[Findable | None] = None
    """How search reads the records of this kind; every write must mark what it changes in the index."""
    whole_in_layer: ClassVar[str | None] = None
    """The layer of a context that shows all records of this kind, unless it is cut."""
    verbs: ClassVar[Mapping[str, Endpoint]] = {}
    """The verbs that the class declares with `@verb`, by name."""
    other_writes: ClassVar[Mapping[str, Effect]] = {}
    """The writes of this kind that belong to no verb, by name, with their effects."""
    parameter_help: ClassVar[Mapping[str, str]] = {}
    """What parameters mean here, where it differs from `api.parameter_help`."""
    sharing: ClassVar[Sharing] = "never"
    """When records belong to the whole tenant; a key bound to one user may not change those."""
    is_admin: ClassVar[bool] = False
    """True if it is for administrators of a whole tenant: an attribute of `scope.admin`."""
    is_store: ClassVar[bool] = False
    """True if records contain those of other kinds, as a session its messages."""
    is_document: ClassVar[bool] = False
    """True if records are documents rather than personal memories; recall has a share for each."""
    is_ranked_separately: ClassVar[bool] = False
    """True if records repeat what messages say. A search ranks them separately, so that they do not
    replace the messages; see `messages_of`."""

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.verbs = collect_verbs(
                cls,
                cls.name,
                is_store=cls.is_store,
                is_admin=cls.is_admin,
                sharing=cls.sharing,
            )

    def __init__(self, services: Services, owner: Owner) -> None:
        self._services = services
        self._database = services.database
        self._owner = owner
        self._settings = services.settings

    def tools(self, session: str | None = None) -> list[Tool]:
        """Return the tools of this kind for a model."""
        return []

    def section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return the section of this kind in a prompt."""
        return None

    def shared_section(self, tx: Transaction, ask: Ask) -> Section | None:
        """Return another section, with the content of other agents."""
        return None

    @staticmethod
    def hit_source(hit: Hit, session: str) -> str:
        """Return the source of a hit of this kind in the report of a context."""
        return f"{hit.kind} {hit.id}"

    @staticmethod
    def hit_origin(hit: Hit, scope: RecallScope) -> str:
        """Return who wrote a recalled hit of this kind, or where it is from."""
        return f"from {hit.title or hit.kind}"

    @staticmethod
    def hit_text(hit: Hit, words: Sequence[str], max_tokens: int) -> str:
        """Return the text of a recalled hit: the part around the words of the question."""
        return snippet.excerpt_tokens(hit.text.strip(), words, max_tokens)

    @staticmethod
    def hit_references(hit: Hit) -> set[str]:
        """Return the keys of the references that a hit mentions."""
        return set(placeholder.find_keys(hit.text))

    @classmethod
    def messages_of(
        cls, tx: Transaction, ids: Sequence[str]
    ) -> Mapping[str, Collection[tuple[str, int]]]:
        """Return the messages that records come from: session and number, by the record's id."""
        return {}

    @classmethod
    def replaced_messages(
        cls, tx: Transaction, query: Query, messages: Collection[MessageName], now: int
    ) -> Mapping[MessageName, NewerStatement]:
        """Return the messages whose answer to a query was replaced, with the current statement."""
        return {}

    @classmethod
    def rank_hits(cls, tx: Transaction, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return hits of a kind that is ranked separately, best first.

        Scores come from text and meaning; a kind may adjust them by what it knows about its records.
        """
        return hits

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return the source of a record by its id: who wrote it; None if it is not known."""
        return None

    def text_before_review(self, tx: Transaction, id: str) -> str | None:
        """Return the text that hits show of a record that waits for a review; otherwise None."""
        return None

    def _read(
        self, work: Callable[[Transaction], Record], *, allow_replica: bool = False
    ) -> Record:
        return self._database.read(self._owner.tenant, work, allow_replica=allow_replica)

    def _read_rows(
        self, work: Callable[[Transaction], Sent], *, allow_replica: bool = False
    ) -> list[Row]:
        """Run `work` and return the rows of the statement that it returns.

        The rows are read after the commit, so that statement and commit share one round trip.
        """
        sent = self._read(work, allow_replica=allow_replica)
        try:
            return sent.rows()
        except ValueError as error:
            raise_damage(self._database, self._owner.tenant, error)

    def _write(
        self,
        verb: str,
        work: Callable[[Transaction], Record],
        *,
        row: RowKey | Callable[[Record], RowKey | Sequence[RowKey]] | ChangeSubject | None = None,
        returns: Callable[[Record], Any] | None = None,
        idempotent: bool = False,
        long: bool = False,
    ) -> Record:
        """Run one change in a transaction. All writes of a kind go through here.

        A verb that removes records may run when the disk is nearly full.

        verb:        the public method that writes, or one of `other_writes`
        row:         the row of the kind's main table that changes, or a function that gets its
                     primary key from the result; a ChangeSubject for what is not one row
        returns:     computes the verb's return value from the result, if they differ
        idempotent, long: as in `Database.write`
        """
        declared = self.verbs.get(verb)
        event = EVENTS[self.other_writes[verb]] if declared is None else declared.event
        subject = row if isinstance(row, ChangeSubject) else _NO_SUBJECT
        change = Change(
            kind=self.name,
            verb=verb,
            tenant=self._owner.tenant,
            table=_main_table(type(self)),  # type: ignore[arg-type]  # a class is hashable
            row=None if isinstance(row, ChangeSubject) else row,
            subject=subject.id,
            user=self._owner.user,
            returns=returns,
            event=event,
            session=subject.session,
        )
        return self._services.writer.write(
            change, work, idempotent=idempotent, frees_space=event == "removed", long=long
        )

    def _user(self) -> str:
        """Return the scope's user; raise Invalid if it has none."""
        if self._owner.user is None:
            raise Invalid(
                field="user",
                problem="is required; set it with memory.scope(user=…), --user or the header X-Memorist-User",
            )
        return self._owner.user

    def _agent(self) -> str:
        """Return the scope's agent; raise Invalid if it has none."""
        if self._owner.agent is None:
            raise Invalid(
                field="agent",
                problem="is required; set it with memory.scope(agent=…), --agent or the header X-Memorist-Agent",
            )
        return self._owner.agent

    def _limit(self, limit: int) -> int:
        return canonical.check_integer(limit, "limit", 1, limits.MAX_PAGE)


@functools.cache
def _main_table(kind: type[Kind]) -> Table:
    """Return the table with the kind's name, or else its first table."""
    return next((table for table in kind.tables if table.name == kind.name), kind.tables[0])


def own_session(tx: Transaction, owner: Owner, session: str) -> int:
    """Return first_seq of a session of the scope; raise NotFound for other sessions."""
    row = tx.one(
        """select first_seq from sessions
           where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)""",
        session=session,
        user=owner.user,
    )
    if row is None:
        raise NotFound(what="session", id=session)
    return int(row[0])
