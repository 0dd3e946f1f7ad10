"""The users of a tenant: the amount of data that is stored for each of them, and their erasure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from memorist.admin import stored_responses
from memorist.admin.admin_kind import AdminKind
from memorist.base import canonical, clock
from memorist.base.parameters import Key, PageSize, Text
from memorist.base.verbs import verb
from memorist.kinds.facts.changes import remove_of_agent
from memorist.kinds.indexing import marks_of_agent
from memorist.kinds.items.item import area_of
from memorist.kinds.page import Page, make_page, page_start
from memorist.storage.database import Database, Row, Transaction
from memorist.storage.transfer.erase import AgentReceipt, Receipt, erase, erase_agent

_NEWEST = 2**62
_MAX_SEARCH_BYTES = 4096
_SEARCH_BATCH = 1000

# The pattern compares ASCII names. Other names are compared in Python, because the engines fold case
# differently; with some locales of PostgreSQL not even 'I' becomes 'i'.
_USERS = """
    select person, sum(conversations), sum(memories), sum(pending), sum(notes), sum(refs), sum(documents),
           sum(state), sum(facts), max(at)
    from (
        select user_id as person, count(*) as conversations, 0 as memories, 0 as pending, 0 as notes, 0 as refs,
               0 as documents, 0 as state, 0 as facts, max(touched_at) as at
        from sessions
        where tenant = :tenant
        and exists (select 1 from messages where messages.tenant = :tenant and session_id = sessions.id)
        group by user_id
        union all
        select user_id, 0, sum(case when review = 'accepted' then 1 else 0 end),
               sum(case when review = 'pending' then 1 else 0 end), 0, 0, 0, 0, 0, max(updated_at)
        from entries where tenant = :tenant and user_id is not null group by user_id
        union all
        select user_id, 0, 0, 0, count(*), 0, 0, 0, 0, max(updated_at)
        from notes where tenant = :tenant and text <> '' group by user_id
        union all
        select user_id, 0, 0, 0, 0, count(*), 0, 0, 0, max(updated_at)
        from refs where tenant = :tenant group by user_id
        union all
        select user_id, 0, 0, 0, 0, 0, count(*), 0, 0, max(updated_at)
        from documents where tenant = :tenant group by user_id
        union all
        select user_id, 0, 0, 0, 0, 0, 0, count(*), 0, max(updated_at)
        from state where tenant = :tenant and user_id is not null group by user_id
        union all
        select substr(area, 6), 0, 0, 0, 0, 0, 0, 0, 0, max(updated_at)
        from items where tenant = :tenant and area like 'user:%' group by area
        union all
        select user_id, 0, 0, 0, 0, 0, 0, 0, sum(case when status = 'active' then 1 else 0 end), max(learned_at)
        from facts where tenant = :tenant group by user_id
        union all
        select user_id, 0, 0, 0, 0, 0, 0, 0, 0, max(updated_at)
        from graph_entities where tenant = :tenant group by user_id
        union all
        select user_id, 0, 0, 0, 0, 0, 0, 0, 0, max(updated_at)
        from threads where tenant = :tenant group by user_id
        union all
        select user_id, 0, 0, 0, 0, 0, 0, 0, 0, max(created_at)
        from interactions where tenant = :tenant and user_id is not null group by user_id
    ) as parts
    where person <> ''
    and (lower(person) like :pattern escape '!' or octet_length(person) <> length(person) or lower('I') <> 'i')
    group by person
    having max(at) < :at or (max(at) = :at and person > :person)
    order by max(at) desc, person
    limit :size"""

_NEWEST_SPEAKER = """
    select user_id from sessions
    where tenant = :tenant
    and exists (select 1 from messages where messages.tenant = :tenant and session_id = sessions.id)
    order by touched_at desc limit 1"""

_HAS_DATA = """
    select 1 where exists (
        select 1 from sessions where tenant = :tenant and user_id = :user
        and exists (select 1 from messages where messages.tenant = :tenant and session_id = sessions.id))
    or exists (select 1 from entries where tenant = :tenant and user_id = :user)
    or exists (select 1 from notes where tenant = :tenant and user_id = :user and text <> '')
    or exists (select 1 from refs where tenant = :tenant and user_id = :user)
    or exists (select 1 from documents where tenant = :tenant and user_id = :user)
    or exists (select 1 from state where tenant = :tenant and user_id = :user)
    or exists (select 1 from items where tenant = :tenant and area = :area)
    or exists (select 1 from facts where tenant = :tenant and user_id = :user)
    or exists (select 1 from graph_entities where tenant = :tenant and user_id = :user)
    or exists (select 1 from threads where tenant = :tenant and user_id = :user)
    or exists (select 1 from interactions where tenant = :tenant and user_id = :user)"""


@dataclass(frozen=True)
class StoredUser:
    """A user, the number of stored records of each kind, and the time of the last change."""

    user: str
    conversations: int  # with at least one message
    memories: int  # accepted entries
    pending: int  # entries that wait for review
    notes: int
    refs: int
    documents: int
    state: int
    facts: int  # active facts
    last_active_at: datetime


class Users(AdminKind):
    """The users of a tenant, with the amount of data that is stored for each of them."""

    name = "users"
    parameter_help = {
        "agent": "The agent.",
        "search": "Only users whose name contains this text.",
        "user": "The user.",
    }

    @verb("GET /users", effect="read", example="memorist users list --search ada")
    def list(
        self,
        *,
        search: Annotated[str, Text(max_length=200)] = "",
        limit: PageSize = 100,
        after: str | None = None,
    ) -> Page[StoredUser]:
        """Return the users that have data, the most recently active first."""
        return list_users(
            self._database, self._owner.tenant, search=search, limit=limit, after=after
        )

    @verb(
        "POST /users/{user:path}/erase",
        effect="forget",
        people_only=True,
        is_slow=True,
        example="memorist erase --user ada --yes",
    )
    def erase(self, user: Key) -> Receipt:
        """Remove all data of one user and return a receipt."""
        canonical.key(user, "user")
        services = self._services
        return erase(
            services.writer,
            (*services.tables, *stored_responses.TABLES),
            services.blobs,
            self._existing_tenant(),
            user,
            lambda tx: services.index.erase_user(tx, user),
        )

    @verb(
        "POST /agents/{agent:path}/erase",
        effect="forget",
        people_only=True,
        is_slow=True,
        example="memorist erase --agent scout --yes",
    )
    def erase_agent(self, agent: Key) -> AgentReceipt:
        """Remove an agent with its entries, notes, facts and sessions, and return a receipt."""
        canonical.key(agent, "agent")
        services = self._services

        def prepare(tx: Transaction) -> int:
            facts = remove_of_agent(tx, services.index, agent)  # it locks the agent's sessions
            services.index.mark(tx, marks_of_agent(tx, agent))
            services.index.erase_agent(tx, agent)
            return facts

        return erase_agent(
            services.writer,
            services.tables,
            services.blobs,
            self._existing_tenant(),
            agent,
            prepare,
        )


def list_users(
    database: Database,
    tenant: str,
    *,
    search: str = "",
    limit: int = 100,
    after: str | None = None,
) -> Page[StoredUser]:
    """Return the users that have data, the most recently active first.

    search: only users whose name contains this text, in upper or lower case
    """
    size, (at, person) = page_start(limit, after, _NEWEST, "")
    folded = canonical.text(search, "search", _MAX_SEARCH_BYTES).casefold()
    escaped = folded.replace("!", "!!").replace("%", "!%").replace("_", "!_")
    batch = max(_SEARCH_BATCH, size + 1) if folded else size + 1

    def work(tx: Transaction) -> list[StoredUser]:
        users: list[StoredUser] = []
        position = {"at": at, "person": person}
        while True:
            rows = tx.all(_USERS, **position, pattern=f"%{escaped}%", size=batch)
            users += [_user(row) for row in rows if folded in str(row[0]).casefold()]
            if len(rows) < batch or len(users) > size:
                return users[: size + 1]
            position = {"at": rows[-1][-1], "person": rows[-1][0]}

    return make_page(database.read(tenant, work), size, _cursor)


def first_user(database: Database, tenant: str, default: str) -> str:
    """Return the user to show first: the default user, unless only other users have data."""

    def work(tx: Transaction) -> str:
        if tx.one(_HAS_DATA, user=default, area=area_of(default)):
            return default
        speaker = tx.one(_NEWEST_SPEAKER)
        if speaker:
            return str(speaker[0])
        row = tx.one(_USERS, at=_NEWEST, person="", pattern="%", size=1)
        return str(row[0]) if row else default

    return database.read(tenant, work)


def _user(row: Row) -> StoredUser:
    name, conversations, memories, pending, notes, refs, documents, state, facts, at = row
    return StoredUser(
        user=str(name),
        conversations=int(conversations),
        memories=int(memories),
        pending=int(pending),
        notes=int(notes),
        refs=int(refs),
        documents=int(documents),
        state=int(state),
        facts=int(facts),
        last_active_at=clock.to_datetime(at),
    )


def _cursor(user: StoredUser) -> list[Any]:
    return [user.last_active_at, user.user]
