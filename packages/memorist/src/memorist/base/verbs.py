"""The declaration of verbs: the public methods of kinds and scopes.

A method says with `@verb`, where it is written, how clients call it and what it does. Permission,
event type, audit action, trace name, HTTP status, OpenAPI operation, MCP tool, command and client
method follow from this declaration and from the typed signature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypedDict, TypeVar, Unpack

Effect = Literal["read", "add", "change", "remove", "forget"]
"""What a verb does to records; `forget` also removes what was derived from them."""
Permission = Literal["read", "write", "delete", "admin"]
"""A permission of a credential; no permission includes another."""
ModelUse = Literal["", "main", "describer", "embedder"]
"""The model that a verb calls, if the settings name one."""
Sharing = Literal["never", "always", "without_user", "by_area"]
"""When the records of a kind belong to the whole tenant: in a scope without a user, or by the
argument `area`."""

_PERMISSIONS: dict[Effect, Permission] = {
    "read": "read",
    "add": "write",
    "change": "write",
    "remove": "delete",
    "forget": "delete",
}
EVENTS: dict[Effect, Literal["added", "changed", "removed", "none"]] = {
    "read": "none",
    "add": "added",
    "change": "changed",
    "remove": "removed",
    "forget": "removed",
}
"""The type of the event of a write, by its effect."""
_METHODS_WITH_QUERY = ("GET", "DELETE")


@dataclass(frozen=True)
class Endpoint:
    """The declaration of one verb, and what follows from it."""

    request: str
    """The HTTP method and the path below `/api`; empty if only adapters call the verb."""
    effect: Effect
    example: str = ""
    """A command that calls the verb; empty if there is none."""
    calls_model: ModelUse = ""
    people_only: bool = False
    """True if agents must not call it: MCP does not offer it."""
    shows_secret: bool = False
    """True if its result has a secret that is shown once: no response is stored for a retry, and MCP
    does not offer it, because conversations are stored."""
    open_to_all: bool = False
    """True if a verb of an administrative kind needs only the permission of its effect."""
    is_slow: bool = False
    """True if it may take seconds without calling a model: it gets a thread of its own."""
    routine: bool = False
    """True if it runs many times a minute and only adds: audited only with `audit: all`."""
    returns_removed: bool = False
    """True if it returns the removed record; the key must then allow reading, too."""
    raw_output: bool = False
    """True if the command prints only the value itself, ready to be piped into a file."""
    kind: str = ""
    """The kind of memory; empty for verbs of the scope itself."""
    verb: str = ""
    """The name of the method."""
    is_store: bool = False
    """True if the records of the kind contain those of other kinds, as a session its messages."""
    is_admin: bool = False
    """True if the kind is an attribute of `scope.admin`."""
    is_alone: bool = False
    """True if an administrative kind has no other verb."""

    @cached_property
    def method(self) -> str:
        """The HTTP method."""
        return self.request.partition(" ")[0]

    @cached_property
    def route(self) -> str:
        """The path of the HTTP route."""
        return "/api" + self.request.partition(" ")[2]

    @cached_property
    def in_query(self) -> bool:
        """True if the parameters are in the query; otherwise they are in the body."""
        return self.method in _METHODS_WITH_QUERY

    @cached_property
    def needs(self) -> Permission:
        """The permission that a key must have."""
        return "admin" if self.needs_admin else _PERMISSIONS[self.effect]

    @cached_property
    def needs_admin(self) -> bool:
        """True if only administrators of the whole tenant may call it."""
        return self.is_admin and not self.open_to_all

    @cached_property
    def also_needs(self) -> Permission | None:
        """The permission that a key must have as well."""
        if self.returns_removed:
            return "read"
        return "delete" if self.erases else None

    @cached_property
    def erases(self) -> bool:
        """True if it removes everything of a user or an agent, with their keys."""
        return self.is_admin and self.effect == "forget"

    @cached_property
    def for_agents(self) -> bool:
        """True if MCP offers it to callers with its permissions."""
        return not (self.people_only or self.shows_secret)

    @cached_property
    def stores_response(self) -> bool:
        """True if a retry with the same idempotency key gets the first response again."""
        return self.effect != "read" and not (self.shows_secret or self.erases)

    @cached_property
    def event(self) -> Literal["added", "changed", "removed", "none"]:
        """The type of the event of its writes."""
        return EVENTS[self.effect]

    @cached_property
    def creates(self) -> bool:
        """True if the verb adds a record."""
        return self.effect == "add"

    @cached_property
    def upserts(self) -> bool:
        """True if the verb creates the record that it changes, where there is none."""
        return self.effect == "change" and (self.method == "PUT" or "{" not in self.request)

    @cached_property
    def in_steps(self) -> bool:
        """True if it writes in several transactions, with calls of the main model between them."""
        return self.calls_model == "main" and self.effect != "read"

    @cached_property
    def trace(self) -> str | None:
        """The operation in the GenAI conventions of OpenTelemetry; None for plain reads."""
        if self.effect == "read":
            return "search_memory" if self.calls_model else None
        if self.effect == "change":
            return "upsert_memory" if self.upserts else "update_memory"
        action = "create_memory" if self.creates else "delete_memory"
        return f"{action}_store" if self.is_store else action

    @cached_property
    def name(self) -> str:
        """The operation id and the audit action, such as `messages_append`."""
        return f"{self.kind}_{self.verb}".removeprefix("_")

    @cached_property
    def operation(self) -> str:
        """Its name in metrics and traces."""
        return f"{self.kind}.{self.verb}".removeprefix(".")

    @cached_property
    def word(self) -> str:
        """The verb as the command line spells it."""
        return self.verb.replace("_", "-")

    @cached_property
    def command(self) -> str:
        """The command, such as `messages append`; the kind alone if it has no other verb."""
        return self.kind if self.is_alone else f"{self.kind} {self.word}"


Method = TypeVar("Method", bound=Callable[..., Any])
_ATTRIBUTE = "__verb__"
_by_name: dict[str, Endpoint] = {}
SHARING: dict[str, Sharing] = {}
"""When the records of a kind belong to the whole tenant, by the name of the kind."""


class VerbOptions(TypedDict, total=False):
    """The options of a verb; `Endpoint` explains them."""

    example: str
    calls_model: ModelUse
    people_only: bool
    shows_secret: bool
    open_to_all: bool
    is_slow: bool
    routine: bool
    returns_removed: bool
    raw_output: bool


def verb(
    request: str = "", *, effect: Effect, **options: Unpack[VerbOptions]
) -> Callable[[Method], Method]:
    """Declare a method as a verb."""
    endpoint = Endpoint(request, effect, **options)

    def declare(method: Method) -> Method:
        setattr(method, _ATTRIBUTE, replace(endpoint, verb=method.__name__))
        return method

    return declare


def collect_verbs(
    owner: type,
    kind: str = "",
    *,
    is_store: bool = False,
    is_admin: bool = False,
    sharing: Sharing = "never",
) -> dict[str, Endpoint]:
    """Return the verbs that a class declares, by name. A kind calls it when it is defined."""
    methods = {name: method for name, method in vars(owner).items() if hasattr(method, _ATTRIBUTE)}
    verbs = {}
    for name, method in methods.items():
        verbs[name] = replace(
            declared_verb(method),
            kind=kind,
            is_store=is_store,
            is_admin=is_admin,
            is_alone=is_admin and len(methods) == 1,
        )
        setattr(method, _ATTRIBUTE, verbs[name])
        _by_name[verbs[name].name] = verbs[name]
    if kind:
        SHARING[kind] = sharing
    return verbs


def declared_verb(method: Callable[..., Any]) -> Endpoint:
    """Return the declaration of a verb, such as `declared_verb(Messages.append)`."""
    endpoint: Endpoint = getattr(method, _ATTRIBUTE)
    return endpoint


def find_verb(name: str) -> Endpoint | None:
    """Return the verb with an operation id (`state_set`) or operation (`state.set`), if any."""
    return _by_name.get(name.replace(".", "_", 1))
