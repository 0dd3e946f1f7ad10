"""The graph: entities with their observations, and relations between them, in the order in which they came.

It is what the memory server of the Model Context Protocol keeps, with its rules: an entity that is there is not made again,
an observation is not made twice, a relation may name what is not there yet. Each verb is one transaction, and whoever
changes the graph of a user waits for whoever does it just now: so there is one order, and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from retain.base import canonical, ids, limits, masking
from retain.base.errors import Invalid, NotFound, TooLarge
from retain.kinds.kind import Check, Kind, Table
from retain.search import engine
from retain.search.index import split_text
from retain.search.reindex import Findable, Place
from retain.storage.database import Transaction

LONGEST = 1_000
"""Bytes of a name or a type."""
MOST = 10_000
"""Things that one call may have."""
T = TypeVar("T")


@dataclass(frozen=True)
class Entity:
    """Something that has a name: what it is, and what was observed of it, in order."""

    name: str
    type: str
    observations: Sequence[str] = ()


@dataclass(frozen=True)
class Relation:
    """How one name is related to another, such as Relation("Ada", "Analytical Engine", "programs")."""

    start: str
    target: str
    type: str


@dataclass(frozen=True)
class Observations:
    """What is observed of an entity."""

    name: str
    texts: Sequence[str]


@dataclass(frozen=True)
class Graph:
    """Entities, and relations of them."""

    entities: list[Entity]
    relations: list[Relation]


_ENTITIES = """select id, name, type from graph_entities
               where tenant = :tenant and user_id = :user order by number, id"""
_NAMED = """select id, number, name, type from graph_entities
            where tenant = :tenant and user_id = :user and name = :name order by number, id"""
_TEXTS = """select entity_id, text from graph_observations where tenant = :tenant and entity_id in (
                select id from graph_entities where tenant = :tenant and user_id = :user)
            order by entity_id, number"""
_TEXTS_OF = """select number, text from graph_observations
               where tenant = :tenant and entity_id = :id order by number"""
_OBSERVED = "select 1 from graph_observations where tenant = :tenant and entity_id = :id and text = :text limit 1"
_RELATIONS = """select start, target, type from graph_relations
                where tenant = :tenant and user_id = :user order by number, id"""
_STARTING = """select number, id, start, target, type from graph_relations
               where tenant = :tenant and user_id = :user and start = :name"""
_ENDING = """select number, id, start, target, type from graph_relations
             where tenant = :tenant and user_id = :user and target = :name"""
_RELATED = """select 1 from graph_relations where tenant = :tenant and user_id = :user
              and start = :start and target = :target and type = :type limit 1"""
_LAST = {
    "entities": "select coalesce(max(number), 0) from graph_entities where tenant = :tenant and user_id = :user",
    "relations": "select coalesce(max(number), 0) from graph_relations where tenant = :tenant and user_id = :user",
    "texts": "select coalesce(max(number), 0) from graph_observations where tenant = :tenant and entity_id = :id",
}
_ADD = """insert into graph_entities (tenant, id, user_id, number, name, type, source, created_at, updated_at)
          values (:tenant, :id, :user, :number, :name, :type, :source, :now, :now)"""
_OBSERVE = """insert into graph_observations (tenant, entity_id, number, text, created_at)
              values (:tenant, :id, :number, :text, :now)"""
_RELATE = """insert into graph_relations (tenant, id, user_id, number, start, target, type, created_at)
             values (:tenant, :id, :user, :number, :start, :target, :type, :now)"""
# What a tool or an import said of an entity makes all of it theirs: nobody can tell which of its words are whose.
_TOUCH = """update graph_entities set updated_at = :now,
                   source = case when :source in ('tool', 'import') then :source else source end
            where tenant = :tenant and id = :id"""
_REMOVE = "delete from graph_entities where tenant = :tenant and id = :id"
_FORGET = (
    "delete from graph_observations where tenant = :tenant and entity_id = :id and number = :number"
)
_UNRELATE = """delete from graph_relations where tenant = :tenant and user_id = :user
               and start = :start and target = :target and type = :type"""
_UNTIE = "delete from graph_relations where tenant = :tenant and user_id = :user and (start = :name or target = :name)"

# What can be found: the name and type of an entity (0) and each of its observations (its number), under the entity's id.
_LACKING = """select id, seq, user_id, name, text, at from (
        select id, 0 as seq, user_id, name, type as text, created_at as at from graph_entities where tenant = :tenant
        union all
        select entity_id, said.number, user_id, name, text, said.created_at
        from graph_observations said join graph_entities on graph_entities.tenant = :tenant and id = entity_id
        where said.tenant = :tenant) known
    where (id, seq) > (:id, :seq) and not exists (
        select 1 from search_items found where found.tenant = :tenant and found.kind = 'graph'
        and found.id = known.id and found.seq = known.seq)
    order by id, seq limit :size"""
_STRAY = """select number, 'entity ' || title from search_items where tenant = :tenant and kind = 'graph' and (
        not exists (
            select 1 from graph_entities known where known.tenant = :tenant and known.id = search_items.id)
        or seq > 0 and not exists (
            select 1 from graph_observations said
            where said.tenant = :tenant and said.entity_id = search_items.id and said.number = search_items.seq))
    limit :size"""


def _items(id: str, seq: int, user: str, name: str, text: str, at: int) -> list[engine.Item]:
    """The rows of an entity (seq 0, its type is the text) or of one of its observations.

    One that is the tenant's own belongs to a user whom nobody can be: what is nobody's, every user would find.
    """
    said = split_text(text) or ([""] if seq == 0 and name.strip() else [])
    return [
        engine.Item("graph", id, one, at, seq, part, user, title=name)
        for part, one in enumerate(said)
    ]


def _hold(tx: Transaction, keys: Sequence[Place]) -> None:
    for id in sorted({key[0] for key in keys}):
        tx.lock_rows("select 1 from graph_entities where tenant = :tenant and id = :id", id=id)


FINDABLE = Findable(
    "graph",
    ("", -1),
    lambda tx, after, size: tx.all(_LACKING, id=after[0], seq=after[1], size=size),
    lambda tx, size: tx.all(_STRAY, size=size),
    _hold,
    lambda row, _: _items(*row),
)


class Graphs(Kind):
    """The graph of the scope's user, or that of the tenant where the scope has no user."""

    name = "graph"
    tables = (
        Table("graph_entities", order="id", owned="user_id = :user"),
        Table(
            "graph_observations",
            order="entity_id, number",
            owned="entity_id in (select id from graph_entities where tenant = :tenant and user_id = :user)",
        ),
        Table("graph_relations", order="id", owned="user_id = :user"),
    )
    checks = (
        Check(
            "observations are of an entity",
            """select entity_id from graph_observations where tenant = :tenant and not exists (
                   select 1 from graph_entities where graph_entities.tenant = :tenant
                   and graph_entities.id = graph_observations.entity_id)""",
        ),
        *FINDABLE.checks,
    )
    findable = FINDABLE

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return who wrote about an entity."""
        row = tx.one("select source from graph_entities where tenant = :tenant and id = :id", id=id)
        return None if row is None else str(row[0])

    def add(self, entities: Sequence[Entity]) -> list[Entity]:
        """Add entities, and say which were new: one whose name is there stays as it is."""
        given = [
            self._entity(one, f"entities[{n}]")
            for n, one in enumerate(_several(entities, "entities", Entity))
        ]

        def work(tx: Transaction) -> list[Entity]:
            self._alone(tx)
            there = {one.name for one in given if tx.one(_NAMED, user=self._whose, name=one.name)}
            new = [one for one in given if one.name not in there]
            last = _last(tx, "entities", user=self._whose)
            for number, one in enumerate(new, last + 1):
                id = ids.uuid7()
                values = {
                    "id": id,
                    "user": self._whose,
                    "number": number,
                    "source": self._owner.source,
                }
                tx.run(_ADD, **values, name=one.name, type=one.type)
                self._services.index.add(tx, _items(id, 0, self._whose, one.name, one.type, tx.now))
                self._keep(tx, id, one.name, 1, one.observations)
            return new

        return self._write("add", work)

    def observe(self, observations: Sequence[Observations]) -> list[Observations]:
        """Add observations to entities that are there, and say which were new."""
        given = [
            Observations(
                self._seek(one.name, f"observations[{n}].name"),
                self._texts(one.texts, f"observations[{n}].texts"),
            )
            for n, one in enumerate(_several(observations, "observations", Observations))
        ]

        def work(tx: Transaction) -> list[Observations]:
            self._alone(tx)
            return [Observations(one.name, self._add_to(tx, one)) for one in given]

        return self._write("observe", work)

    def relate(self, relations: Sequence[Relation]) -> list[Relation]:
        """Add relations, and say which were new."""
        given = [
            Relation(
                *(
                    self._named(getattr(one, part), f"relations[{n}].{part}")
                    for part in ("start", "target", "type")
                )
            )
            for n, one in enumerate(_several(relations, "relations", Relation))
        ]

        def work(tx: Transaction) -> list[Relation]:
            self._alone(tx)
            new = [one for one in given if not tx.one(_RELATED, user=self._whose, **one.__dict__)]
            last = _last(tx, "relations", user=self._whose)
            rows = [
                {"id": ids.uuid7(), "user": self._whose, "number": n, **one.__dict__}
                for n, one in enumerate(new, last + 1)
            ]
            tx.many(_RELATE, rows)
            return new

        return self._write("relate", work)

    def read(self) -> Graph:
        """The whole graph."""
        return self._read(self._all)

    def search(self, query: str) -> Graph:
        """The entities in whose name, type or observations these letters are, and every relation of them.

        Letters, not words: `scope.search(query, kinds=["graph"])` finds by words and by meaning.
        """
        looked = self._seek(query, "query").lower()

        def work(tx: Transaction) -> Graph:
            said = self._said(tx)
            entities = [  # NUL is in no text, so nothing is found across the end of one
                Entity(name, type, said.get(id, []))
                for id, name, type in tx.all(_ENTITIES, user=self._whose)
                if looked in "\0".join((name, type, *said.get(id, ()))).lower()
            ]
            names = {one.name for one in entities}
            rows = tx.all(_RELATIONS, user=self._whose) if names else []
            return Graph(
                entities, [Relation(*row) for row in rows if row[0] in names or row[1] in names]
            )

        return self._read(work)

    def open(self, names: Sequence[str]) -> Graph:
        """The entities with these names, and every relation of them; a name that is not there is no error."""
        wanted = dict.fromkeys(self._seek(name, "names") for name in _several(names, "names", str))

        def work(tx: Transaction) -> Graph:
            rows = sorted(
                (row[1], row[0], row[2], row[3])
                for name in wanted
                for row in tx.all(_NAMED, user=self._whose, name=name)
            )
            entities = [
                Entity(name, type, [row[1] for row in tx.all(_TEXTS_OF, id=id)])
                for _, id, name, type in rows
            ]
            there = {one.name for one in entities}
            touching = {
                row for name in there for row in tx.all(_STARTING, user=self._whose, name=name)
            }
            touching |= {
                row for name in there for row in tx.all(_ENDING, user=self._whose, name=name)
            }
            return Graph(entities, [Relation(*row[2:]) for row in sorted(touching)])

        return self._read(work)

    def remove_many(self, names: Sequence[str]) -> int:
        """Remove entities, and every relation of these names; how many entities there were."""
        wanted = [self._seek(name, "names") for name in _several(names, "names", str)]

        def work(tx: Transaction) -> int:
            self._alone(tx)
            gone = {
                row[0] for name in wanted for row in tx.all(_NAMED, user=self._whose, name=name)
            }
            tx.many(_UNTIE, [{"user": self._whose, "name": name} for name in wanted])
            tx.many(_REMOVE, [{"id": id} for id in sorted(gone)])
            self._services.index.remove_all(tx, self.name, sorted(gone))
            return len(gone)

        return self._write("remove_many", work)

    def forget(self, observations: Sequence[Observations]) -> int:
        """Remove observations of entities, and say how many there were; what is not there is no error."""
        given = [
            (
                self._seek(one.name, field),
                [self._seek(text, field) for text in _several(one.texts, field, str)],
            )
            for n, one in enumerate(_several(observations, "observations", Observations))
            for field in [f"observations[{n}]"]
        ]

        def work(tx: Transaction) -> int:
            self._alone(tx)
            return sum(self._take_from(tx, name, texts) for name, texts in given)

        return self._write("forget", work)

    def unrelate(self, relations: Sequence[Relation]) -> int:
        """Remove relations, and say how many there were; one that is not there is no error."""
        given = [
            {
                part: self._seek(getattr(one, part), f"relations[{n}].{part}")
                for part in ("start", "target", "type")
            }
            for n, one in enumerate(_several(relations, "relations", Relation))
        ]

        def work(tx: Transaction) -> int:
            self._alone(tx)
            return sum(tx.run(_UNRELATE, user=self._whose, **one) for one in given)

        return self._write("unrelate", work)

    def _said(self, tx: Transaction) -> dict[str, list[str]]:
        """What was observed of every entity, by its id."""
        said: dict[str, list[str]] = {}
        for id, text in tx.all(_TEXTS, user=self._whose):
            said.setdefault(id, []).append(text)
        return said

    def _all(self, tx: Transaction) -> Graph:
        said = self._said(tx)
        entities = [
            Entity(name, type, said.get(id, []))
            for id, name, type in tx.all(_ENTITIES, user=self._whose)
        ]
        return Graph(entities, [Relation(*row) for row in tx.all(_RELATIONS, user=self._whose)])

    def _add_to(self, tx: Transaction, one: Observations) -> list[str]:
        id = self._first(tx, one.name)
        if id is None:
            raise NotFound(what="entity", id=one.name)
        new = [text for text in one.texts if not tx.one(_OBSERVED, id=id, text=text)]
        self._keep(tx, id, one.name, _last(tx, "texts", id=id) + 1, new)
        tx.run(_TOUCH, id=id, source=self._owner.source)
        return new

    def _keep(self, tx: Transaction, id: str, name: str, first: int, texts: Sequence[str]) -> None:
        numbered = list(enumerate(texts, first))
        tx.many(_OBSERVE, [{"id": id, "number": number, "text": text} for number, text in numbered])
        rows = [_items(id, number, self._whose, name, text, tx.now) for number, text in numbered]
        self._services.index.add(tx, [item for row in rows for item in row])

    def _take_from(self, tx: Transaction, name: str, texts: Sequence[str]) -> int:
        id = self._first(tx, name)
        if id is None:
            return 0
        gone = [row[0] for row in tx.all(_TEXTS_OF, id=id) if row[1] in texts]
        tx.many(_FORGET, [{"id": id, "number": number} for number in gone])
        for number in gone:
            self._services.index.remove_seq(tx, self.name, id, number)
        tx.run(_TOUCH, id=id, source=self._owner.source)
        return len(gone)

    def _first(self, tx: Transaction, name: str) -> str | None:
        row = tx.one(_NAMED, user=self._whose, name=name)
        return None if row is None else str(row[0])

    def _alone(self, tx: Transaction) -> None:
        tx.lock(f"graph {self._whose}")

    @property
    def _whose(self) -> str:
        return self._owner.user or ""

    def _entity(self, one: Entity, field: str) -> Entity:
        texts = self._texts(one.observations, f"{field}.observations")
        return Entity(
            self._named(one.name, f"{field}.name"), self._named(one.type, f"{field}.type"), texts
        )

    def _named(self, value: str, field: str) -> str:
        """A name to be kept: a secret in it is refused, not masked, as in every name."""
        kept, secrets = canonical.text(value, field, LONGEST), self._settings.secrets
        return (
            kept
            if secrets == "off"
            else masking.guard(kept, field, "flag" if secrets == "flag" else "reject")
        )

    def _texts(self, values: Sequence[str], field: str) -> list[str]:
        most, secrets = limits.MAX_MESSAGE_BYTES, self._settings.secrets
        return [canonical.text(one, field, most, secrets) for one in _several(values, field, str)]

    def _seek(self, value: str, field: str) -> str:
        return canonical.text(value, field, limits.MAX_MESSAGE_BYTES)


def is_empty(graph: Graphs) -> bool:
    """Whether there is no entity, told without reading them all."""
    return graph._read(lambda tx: _last(tx, "entities", user=graph._whose)) == 0


def _last(tx: Transaction, what: str, **values: str) -> int:
    row = tx.one(_LAST[what], **values)
    return int(row[0]) if row else 0


def _several(values: Sequence[T], field: str, type: type[T]) -> Sequence[T]:
    """A list that may be empty, of what it should be of."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise Invalid(field=field, problem=f"must be a list of {type.__name__}")
    if len(values) > MOST:
        raise TooLarge(field=field, size=len(values), unit="items", limit=MOST)
    for value in values:
        if not isinstance(value, type):
            raise Invalid(
                field=field,
                problem=f"must be a list of {type.__name__}, not of {value.__class__.__name__}",
            )
    return values
