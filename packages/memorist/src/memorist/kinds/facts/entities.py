"""Entities: the people and things that facts are about, each with its names.

A fact keeps the subject that was said. Names of one entity mean the same: facts about any of them
are facts about all. Two entities are merged by a person only; learning may propose it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from memorist.base import ids
from memorist.base.errors import Conflict, NotFound
from memorist.kinds.facts.fact import Evidence, comparison_key
from memorist.storage.checksum import checksum
from memorist.storage.database import Transaction

_ROLE_PREFIX = "the user's "
ABOUT = """(subject_key = :about or subject_key in (
    select alias.name_key from fact_names named join fact_names alias
    on alias.tenant = :tenant and alias.user_id = named.user_id and alias.entity = named.entity
    where named.tenant = :tenant and named.user_id = facts.user_id and named.name_key = :about
    and named.status = 'accepted' and alias.status = 'accepted'))"""
"""Condition for facts about `:about`, the key of a subject, by any of its names."""


@dataclass(frozen=True)
class Entity:
    """A person or thing that facts are about."""

    name: str
    aliases: list[str] = field(default_factory=list)
    """Other names that mean the same."""
    proposed: list[str] = field(default_factory=list)
    """Names that may mean the same: merge or separate them."""
    facts: int = 0
    """The number of active facts about it."""


@dataclass(frozen=True)
class _Name:
    entity: str
    key: str
    name: str
    status: str
    merged_from: str | None


def list_entities(tx: Transaction, user: str) -> list[Entity]:
    """Return the entities of a user, by name."""
    rows = tx.all(
        """select subject_key, min(subject), count(*) from facts
           where tenant = :tenant and user_id = :user and status = 'active'
           group by subject_key""",
        user=user,
    )
    counts = {key: count for key, _, count in rows}
    names: dict[str, list[_Name]] = {}
    for name in _names(tx, user):
        names.setdefault(name.entity, []).append(name)
    entities = []
    for group in names.values():
        accepted = [name for name in group if name.status == "accepted"]
        if accepted:
            # Clara rather than the user's sister.
            accepted.sort(key=lambda name: name.name.startswith(_ROLE_PREFIX))
            first, *others = accepted
            entities.append(
                Entity(
                    first.name,
                    [name.name for name in others],
                    [name.name for name in group if name.status == "proposed"],
                    sum(counts.get(name.key, 0) for name in accepted),
                )
            )
    named = {name.key for group in names.values() for name in group if name.status == "accepted"}
    entities += [Entity(subject, facts=count) for key, subject, count in rows if key not in named]
    return sorted(entities, key=lambda entity: (entity.name.casefold(), entity.name))


def find_entity(tx: Transaction, user: str, name: str) -> Entity:
    """Return the entity with a name."""
    key = comparison_key(name)
    for entity in list_entities(tx, user):
        if key in map(comparison_key, (entity.name, *entity.aliases)):
            return entity
    return Entity(name)


def merge(tx: Transaction, user: str, name: str, other: str) -> None:
    """Let two names mean the same."""
    if comparison_key(name) == comparison_key(other):
        return
    entity = _entity_of(tx, user, name)
    merged = _entity_of(tx, user, other)
    if entity is not None and entity == merged:
        return
    if entity is None:
        entity = ids.uuid7()
        _insert(tx, user, entity, name, "accepted")
    # What a person says stays when the messages are removed that said so first.
    tx.send(
        """update fact_names set session_id = null, seq = null
           where tenant = :tenant and user_id = :user and entity in (:entity, :merged)""",
        user=user,
        entity=entity,
        merged=merged,
    )
    if merged is not None:
        for moved in _names(tx, user):
            if moved.entity == merged and moved.status == "accepted":
                _delete(tx, user, entity, moved.key)
                tx.send(
                    """update fact_names set entity = :entity, merged_from = :merged
                       where tenant = :tenant and user_id = :user and entity = :merged
                       and name_key = :key""",
                    user=user,
                    entity=entity,
                    merged=merged,
                    key=moved.key,
                )
        return
    _delete(tx, user, entity, comparison_key(other))  # it may have been proposed
    _insert(tx, user, entity, other, "accepted")


def separate(tx: Transaction, user: str, name: str, other: str) -> None:
    """Let a name mean something else again, or reject its proposal. It is not proposed again."""
    names = _names(tx, user)
    key = comparison_key(other)
    groups = {row.entity for row in names if row.key == comparison_key(name)}
    pair = [row for row in names if row.key == key and row.entity in groups]
    if not pair or key == comparison_key(name):
        raise NotFound(what="name", id=other)
    own = next(row for row in names if row.key == comparison_key(name) and row.entity in groups)
    if own.merged_from is not None and pair[0].merged_from is None:
        separate(tx, user, other, name)  # `name` was merged into the entity of `other`
        return
    for row in pair:
        if row.status == "accepted" and row.merged_from is not None:
            moved = [
                same
                for same in names
                if same.entity == row.entity and same.merged_from == row.merged_from
            ]
            for same in moved:
                tx.send(
                    """update fact_names set entity = :before, merged_from = null
                       where tenant = :tenant and user_id = :user and entity = :entity
                       and name_key = :key""",
                    user=user,
                    before=row.merged_from,
                    entity=row.entity,
                    key=same.key,
                )
        else:
            _delete(tx, user, row.entity, key)
        _insert(tx, user, row.entity, other, "rejected")


def remove_unused(tx: Transaction, user: str, name: str) -> None:
    """Remove a name without facts, after the last fact about it was forgotten."""
    tx.send(
        """delete from fact_names where tenant = :tenant and user_id = :user and name_key = :key
           and not exists (
               select 1 from facts where facts.tenant = :tenant and facts.user_id = :user
               and subject_key = :key)""",
        user=user,
        key=comparison_key(name),
    )


def learn_name(tx: Transaction, user: str, name: str, other: str, message: Evidence) -> None:
    """Note that a message uses two names for the same.

    If both are known already, or one is ambiguous, it is only proposed that they mean the same.
    """
    names = _names(tx, user)
    key = comparison_key(name)
    other_key = comparison_key(other)
    groups = {row.entity for row in names if row.key == key}
    if any(row.key == other_key and row.entity in groups for row in names):
        return  # known, proposed, or rejected by a person
    entities = {row.entity for row in names if row.key == key and row.status == "accepted"}
    is_new = not _is_known(tx, user, names, other_key) or not _is_known(tx, user, names, key)
    is_clear = len(entities) < 2 and not any(row.key == other_key for row in names)
    if is_role(other) and any(is_role(row.name) for row in names if row.entity in entities):
        is_clear = False  # the user's sister and the user's colleague may be two people
    entity = min(entities, default=None)
    if entity is None:
        entity = ids.uuid7()
        _insert(tx, user, entity, name, "accepted", message)
    status = "accepted" if is_new and is_clear else "proposed"
    _insert(tx, user, entity, other, status, message)


def is_ambiguous(tx: Transaction, user: str, name: str, roles: Iterable[str]) -> bool:
    """Return whether a name may mean more than one.

    roles: what those of this name are to the user, such as the user's sister. If there are several,
           and no person said that they are the same, there may be two of this name.
    """
    names = _names(tx, user)
    key = comparison_key(name)
    entities = {row.entity for row in names if row.key == key and row.status == "accepted"}
    if len(entities) > 1:
        return True
    accepted = {
        row.key
        for row in names
        if row.entity in entities and row.status == "accepted" and is_role(row.name)
    }
    role_keys = {comparison_key(role) for role in roles}
    return len(role_keys | accepted) > 1 and not role_keys <= accepted


def is_role(name: str) -> bool:
    """Return whether a name says what somebody is to the user."""
    return name.casefold().startswith("the user's ")


def _is_known(tx: Transaction, user: str, names: Sequence[_Name], key: str) -> bool:
    """Return whether a name has other names, or facts."""
    if any(row.key == key for row in names):
        return True
    known = tx.one(
        "select 1 from facts where tenant = :tenant and user_id = :user and subject_key = :key",
        user=user,
        key=key,
    )
    return known is not None


def _entity_of(tx: Transaction, user: str, name: str) -> str | None:
    """Return the entity of a name, or None; raise Conflict if it is the name of several."""
    key = comparison_key(name)
    entities = {
        row.entity for row in _names(tx, user) if row.key == key and row.status == "accepted"
    }
    if len(entities) > 1:
        raise Conflict(
            problem=f"{name!r} is the name of several entities; use another name of the one that you mean"
        )
    return min(entities, default=None)


def _names(tx: Transaction, user: str) -> list[_Name]:
    rows = tx.all(
        """select entity, name_key, name, status, merged_from from fact_names
           where tenant = :tenant and user_id = :user order by created_at, entity, name_key""",
        user=user,
    )
    return [_Name(*row) for row in rows]


def _insert(
    tx: Transaction,
    user: str,
    entity: str,
    name: str,
    status: str,
    message: Evidence | None = None,
) -> None:
    tx.send(
        """insert into fact_names (tenant, user_id, entity, name_key, name, status, merged_from,
               session_id, seq, created_at, checksum)
           values (:tenant, :user, :entity, :key, :name, :status, null, :session, :seq, :now, :checksum)""",
        user=user,
        entity=entity,
        key=comparison_key(name),
        name=name,
        status=status,
        session=message.session if message else None,
        seq=message.seq if message else None,
        checksum=checksum(name),
    )


def _delete(tx: Transaction, user: str, entity: str, key: str) -> None:
    tx.send(
        """delete from fact_names
           where tenant = :tenant and user_id = :user and entity = :entity and name_key = :key""",
        user=user,
        entity=entity,
        key=key,
    )
