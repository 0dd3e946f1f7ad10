"""The base of every kind: its owner and its services."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, TypeVar

from retain.base import canonical, limits
from retain.base.errors import Invalid, NotFound
from retain.base.masking import OFF, mask_personal
from retain.messages import placeholder
from retain.models.recording import ModelCall, RecordedModel
from retain.search import snippet
from retain.search.service_embedder import RecordedEmbedder, ServiceEmbedder
from retain.storage.outbox import EVENT_TYPES
from retain.storage.tables import Check, Table
from retain.storage.writer import Change, RowKey

if TYPE_CHECKING:
    from retain.base.settings import Settings
    from retain.kinds.extra_tools import ExtraTools
    from retain.kinds.section import Ask, RecallScope, Section
    from retain.kinds.tool import Answer, Tool
    from retain.models import Model, Models
    from retain.search.embedders import Embedder
    from retain.search.index import Index
    from retain.search.query import Hit
    from retain.search.reindexer import Findable
    from retain.search.rerankers import Reranker
    from retain.storage.blobs import Blobs
    from retain.storage.database import Database, Row, Sent, Transaction
    from retain.storage.outbox import EventType
    from retain.storage.writer import Writer

Record = TypeVar("Record")
Parameters = ParamSpec("Parameters")
Source = Literal["user", "agent", "tool", "import", "admin"]
"""The writer of a record: decided by the code that opens the scope, never by the content."""

__all__ = [
    "Check",
    "Kind",
    "Owner",
    "Services",
    "Source",
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
    ) -> Answer:
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
    observer: Observer = field(default_factory=Observer)
    """Counts and traces the operations that clients call."""
    kinds: Mapping[str, type[Kind]] = field(default_factory=dict)
    """Every kind by its name, to read the records of search hits."""

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
    """The rows of this kind in the search index; `checks` must include their checks."""
    whole_in_layer: ClassVar[str | None] = None
    """The layer of a context that shows all records of this kind, unless it is cut."""
    event_types: ClassVar[Mapping[str, EventType]] = {}
    """The types of the events of verbs, where they differ from those in `storage.outbox`.

    A verb of the type `removed` may write while the disk is nearly full.
    """
    is_document: ClassVar[bool] = False
    """True if records are documents rather than personal memories; recall has a share for each."""
    is_ranked_separately: ClassVar[bool] = False
    """True if records repeat what messages say. A search ranks them separately, so that they do not
    replace the messages; see `messages_of`."""

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
        return self._read(work, allow_replica=allow_replica).rows()

    def _write(
        self,
        verb: str,
        work: Callable[[Transaction], Record],
        *,
        row: RowKey | Callable[[Record], RowKey | Sequence[RowKey]] | None = None,
        subject: str = "",
        session: str = "",
        returns: Callable[[Record], Any] | None = None,
        idempotent: bool = False,
        long: bool = False,
    ) -> Record:
        """Run one change in a transaction. All writes of a kind go through here.

        A verb whose events are of the type `removed` may run when the disk is nearly full.

        verb:        the public method that writes
        row:         the row of the kind's main table that changes, or a function that gets its
                     primary key from the result
        subject:     the id of the changed record, if it is not one row
        session:     the id of the session whose content changes
        returns:     computes the verb's return value from the result, if they differ
        idempotent, long: as in `Database.write`
        """
        event: EventType | Literal[""] = self.event_types.get(verb, "")
        frees_space = (event or EVENT_TYPES.get(verb)) == "removed"
        change = Change(
            self.name,
            verb,
            self._owner.tenant,
            _main_table(type(self)),  # type: ignore[arg-type]  # a class is hashable
            row,
            subject,
            self._owner.user,
            returns,
            event,
            session=session,
        )
        return self._services.writer.write(
            change, work, idempotent=idempotent, frees_space=frees_space, long=long
        )

    def _user(self) -> str:
        """Return the scope's user; raise Invalid if it has none."""
        if self._owner.user is None:
            raise Invalid(
                field="user",
                problem="is required; set it with memory.scope(user=…), --user or the header X-Retain-User",
            )
        return self._owner.user

    def _agent(self) -> str:
        """Return the scope's agent; raise Invalid if it has none."""
        if self._owner.agent is None:
            raise Invalid(
                field="agent",
                problem="is required; set it with memory.scope(agent=…), --agent or the header X-Retain-Agent",
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
