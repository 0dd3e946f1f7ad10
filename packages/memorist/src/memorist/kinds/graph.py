"""The graph: entities with observations, and relations between them, in insertion order.

It follows the rules of the memory server of the Model Context Protocol: an existing entity is not
created again, an observation is not stored twice, and a relation may name an entity that does not
exist yet. Each verb is one transaction, and a lock per user serializes all changes to a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from memorist.base import canonical, ids, limits, masking
from memorist.base.errors import Invalid, NotFound, TooLarge
from memorist.base.verbs import verb
from memorist.kinds.facts.fact import FactRow, read_current
from memorist.kinds.kind import Check, Kind, Table
from memorist.kinds.trust import FOREIGN
from memorist.search.index import split_text
from memorist.search.search_document import WHOLE, Findable, IndexMark, SearchDocument, owner_of
from memorist.storage.checksum import checksum
from memorist.storage.database import Row, Transaction

MAX_NAME_BYTES = 1_000
"""Maximum size of a name or a type."""
MAX_ITEMS = 10_000
"""Maximum number of items in one call."""
MAX_FACTS = 1_000
"""Facts that a graph shows: those that a person confirmed, and the newest."""
FACT_SUBJECT = "subject of facts"
"""The type of an entity that only facts are about."""
T = TypeVar("T")


@dataclass(frozen=True)
class GraphEntity:
    """An entity: its name, its type, and its observations in order."""

    name: str
    type: str
    observations: Sequence[str] = ()


@dataclass(frozen=True)
class Relation:
    """A relation between two names, such as Relation("Ada", "Analytical Engine", "programs")."""

    start: str
    target: str
    type: str


@dataclass(frozen=True)
class Observations:
    """Observations of one entity."""

    name: str
    texts: Sequence[str]


@dataclass(frozen=True)
class Graph:
    """Entities and their relations."""

    entities: list[GraphEntity]
    relations: list[Relation]


_ENTITIES = """select id, name, type from graph_entities
               where tenant = :tenant and user_id = :user order by number, id"""
_ENTITIES_NAMED = """select id, number, name, type from graph_entities
            where tenant = :tenant and user_id = :user and name = :name order by number, id"""
_OBSERVATIONS = """select entity_id, text from graph_observations where tenant = :tenant and entity_id in (
                select id from graph_entities where tenant = :tenant and user_id = :user)
            order by entity_id, number"""
_OBSERVATIONS_OF = """select number, text from graph_observations
               where tenant = :tenant and entity_id = :id order by number"""
_OBSERVED = "select 1 from graph_observations where tenant = :tenant and entity_id = :id and text = :text limit 1"
_RELATIONS = """select start, target, type from graph_relations
                where tenant = :tenant and user_id = :user order by number, id"""
_RELATIONS_FROM = """select number, id, start, target, type from graph_relations
               where tenant = :tenant and user_id = :user and start = :name"""
_RELATIONS_TO = """select number, id, start, target, type from graph_relations
             where tenant = :tenant and user_id = :user and target = :name"""
_RELATED = """select 1 from graph_relations where tenant = :tenant and user_id = :user
              and start = :start and target = :target and type = :type limit 1"""
_LAST_NUMBERS = {
    "entities": "select coalesce(max(number), 0) from graph_entities where tenant = :tenant and user_id = :user",
    "relations": "select coalesce(max(number), 0) from graph_relations where tenant = :tenant and user_id = :user",
    "texts": "select coalesce(max(number), 0) from graph_observations where tenant = :tenant and entity_id = :id",
}
_INSERT_ENTITY = """insert into graph_entities (tenant, id, user_id, number, name, type, source, created_at, updated_at,
                                                 checksum)
          values (:tenant, :id, :user, :number, :name, :type, :source, :now, :now, :checksum)"""
_INSERT_OBSERVATION = """insert into graph_observations (tenant, entity_id, number, text, created_at, checksum)
              values (:tenant, :id, :number, :text, :now, :checksum)"""
_INSERT_RELATION = """insert into graph_relations (tenant, id, user_id, number, start, target, type, created_at, checksum)
             values (:tenant, :id, :user, :number, :start, :target, :type, :now, :checksum)"""
# A change by a tool or an import sets the source of the whole entity, because observations have no
# source of their own.
_TOUCH_ENTITY = """update graph_entities set updated_at = :now,
                   source = case when :foreign = 1 then :source else source end
            where tenant = :tenant and id = :id"""
_DELETE_ENTITY = "delete from graph_entities where tenant = :tenant and id = :id"
_DELETE_OBSERVATION = (
    "delete from graph_observations where tenant = :tenant and entity_id = :id and number = :number"
)
_DELETE_RELATION = """delete from graph_relations where tenant = :tenant and user_id = :user
               and start = :start and target = :target and type = :type"""
_DELETE_RELATIONS_OF = "delete from graph_relations where tenant = :tenant and user_id = :user and (start = :name or target = :name)"

# Documents: the id is the entity's; `seq` is 0 for its name and type, or an observation's number.
_KNOWN = """select id, seq, user_id, name, text, at from (
        select id, 0 as seq, user_id, name, type as text, created_at as at from graph_entities where tenant = :tenant
        union all
        select entity_id, said.number, user_id, name, text, said.created_at
        from graph_observations said join graph_entities on graph_entities.tenant = :tenant and id = entity_id
        where said.tenant = :tenant) known
    where {where}"""


def _documents(row: Row) -> list[SearchDocument]:
    """Return the documents of an entity (seq 0, its type is the text) or of an observation.

    An entity of the tenant has the user "", which is not a valid user id: documents without a user
    are found by every user.
    """
    id, seq, user, name, text, at = row
    parts = split_text(text) or ([""] if seq == 0 and name.strip() else [])
    return [
        SearchDocument("graph", id, part_text, at, seq, part, user, title=name)
        for part, part_text in enumerate(parts)
    ]


FINDABLE = Findable(
    kind="graph",
    key=("id", "seq"),
    select=_KNOWN,
    documents=_documents,
    key_of=lambda id, seq: (id,) if seq == WHOLE else (id, seq),
    first=("", -1),
)


class Graphs(Kind):
    """The graph of a user, or of the tenant if no user is named."""

    name = "graph"
    sharing = "without_user"
    tables = (
        Table("graph_entities", order="id", owned="user_id = :user", checked=("name", "type")),
        Table(
            "graph_observations",
            order="entity_id, number",
            owned="entity_id in (select id from graph_entities where tenant = :tenant and user_id = :user)",
            checked=("text",),
        ),
        Table(
            "graph_relations",
            order="id",
            owned="user_id = :user",
            checked=("start", "target", "type"),
        ),
    )
    checks = (
        Check(
            "every observation has its entity",
            """select entity_id from graph_observations where tenant = :tenant and not exists (
                   select 1 from graph_entities where graph_entities.tenant = :tenant
                   and graph_entities.id = graph_observations.entity_id)""",
        ),
    )
    findable = FINDABLE

    @classmethod
    def source_of(cls, tx: Transaction, id: str) -> str | None:
        """Return the source of an entity."""
        row = tx.one("select source from graph_entities where tenant = :tenant and id = :id", id=id)
        return None if row is None else str(row[0])

    @verb(effect="add")
    def add(self, entities: Sequence[GraphEntity]) -> list[GraphEntity]:
        """Add entities and return the new entities; existing names are not changed."""
        return self._add(entities, twins=False)

    def _add(self, entities: Sequence[GraphEntity], *, twins: bool) -> list[GraphEntity]:
        checked = [
            self._checked_entity(entity, f"entities[{n}]")
            for n, entity in enumerate(_checked_list(entities, "entities", GraphEntity))
        ]

        def work(tx: Transaction) -> list[GraphEntity]:
            self._lock_graph(tx)
            existing = {
                entity.name
                for entity in checked
                if not twins and tx.one(_ENTITIES_NAMED, user=self._graph_user, name=entity.name)
            }
            new = [entity for entity in checked if entity.name not in existing]
            last = _last_number(tx, "entities", user=self._graph_user)
            entity_ids = [ids.uuid7() for _ in new]
            for number, (id, entity) in enumerate(zip(entity_ids, new, strict=True), last + 1):
                values = {
                    "id": id,
                    "user": self._graph_user,
                    "number": number,
                    "source": self._owner.source,
                    "checksum": checksum(entity.name, entity.type),
                }
                tx.send(_INSERT_ENTITY, **values, name=entity.name, type=entity.type)
                self._store_observations(tx, id, 1, entity.observations)
            self._mark(tx, [(id, WHOLE) for id in entity_ids])
            return new

        return self._write("add", work)

    @verb(effect="add")
    def observe(self, observations: Sequence[Observations]) -> list[Observations]:
        """Add observations to existing entities, and return the new observations."""
        checked = [
            Observations(
                self._checked_text(observation.name, f"observations[{n}].name"),
                self._checked_observations(observation.texts, f"observations[{n}].texts"),
            )
            for n, observation in enumerate(
                _checked_list(observations, "observations", Observations)
            )
        ]

        def work(tx: Transaction) -> list[Observations]:
            self._lock_graph(tx)
            return [
                Observations(observation.name, self._add_observations(tx, observation))
                for observation in checked
            ]

        return self._write("observe", work)

    @verb(effect="add")
    def relate(self, relations: Sequence[Relation]) -> list[Relation]:
        """Add relations, and return the new relations."""
        checked = [
            Relation(
                *(
                    self._checked_name(getattr(relation, part), f"relations[{n}].{part}")
                    for part in ("start", "target", "type")
                )
            )
            for n, relation in enumerate(_checked_list(relations, "relations", Relation))
        ]

        def work(tx: Transaction) -> list[Relation]:
            self._lock_graph(tx)
            new = [
                relation
                for relation in checked
                if not tx.one(_RELATED, user=self._graph_user, **relation.__dict__)
            ]
            last = _last_number(tx, "relations", user=self._graph_user)
            rows = [
                {
                    "id": ids.uuid7(),
                    "user": self._graph_user,
                    "number": n,
                    **relation.__dict__,
                    "checksum": checksum(relation.start, relation.target, relation.type),
                }
                for n, relation in enumerate(new, last + 1)
            ]
            tx.many(_INSERT_RELATION, rows)
            return new

        return self._write("relate", work)

    @verb(effect="read")
    def read(self, *, facts: bool = False) -> Graph:
        """Return the whole graph.

        facts: also show the facts about the user, as observations and relations of their subjects
        """
        return self._read(lambda tx: self._whole(tx, facts=facts))

    @verb(effect="read")
    def search(self, query: str, *, facts: bool = False) -> Graph:
        """Return entities whose name, type or observations contain a text, and all their relations.

        Matches substrings; `scope.search(query, kinds=["graph"])` finds by words and by meaning.

        facts: as in `read`
        """
        needle = self._checked_text(query, "query").lower()

        def work(tx: Transaction) -> Graph:
            whole = self._whole(tx, facts=facts)
            entities = [  # no text contains a NUL, so no match spans two texts
                entity
                for entity in whole.entities
                if needle in "\0".join((entity.name, entity.type, *entity.observations)).lower()
            ]
            return _part(whole, entities)

        return self._read(work)

    @verb(effect="read")
    def open(self, names: Sequence[str], *, facts: bool = False) -> Graph:
        """Return the entities with these names, and all their relations; skip unknown names.

        facts: as in `read`
        """
        wanted = dict.fromkeys(
            self._checked_text(name, "names") for name in _checked_list(names, "names", str)
        )

        def work(tx: Transaction) -> Graph:
            named = sorted(
                (row[1], row[0], row[2], row[3])
                for name in wanted
                for row in tx.all(_ENTITIES_NAMED, user=self._graph_user, name=name)
            )
            entities = [
                GraphEntity(name, type, [row[1] for row in tx.all(_OBSERVATIONS_OF, id=id)])
                for _, id, name, type in named
            ]
            names = {entity.name for entity in entities}
            touching = {
                row
                for name in names
                for row in tx.all(_RELATIONS_FROM, user=self._graph_user, name=name)
            }
            touching |= {
                row
                for name in names
                for row in tx.all(_RELATIONS_TO, user=self._graph_user, name=name)
            }
            graph = Graph(entities, [Relation(*row[2:]) for row in sorted(touching)])
            if not facts:
                return graph
            rows = read_current(tx, self._graph_user, MAX_FACTS)
            return _with_facts(graph, [row for row in rows if row.subject in wanted])

        return self._read(work)

    @verb(effect="remove")
    def remove_many(self, names: Sequence[str]) -> int:
        """Remove entities and all relations of these names; return the number of entities."""
        wanted = [self._checked_text(name, "names") for name in _checked_list(names, "names", str)]

        def work(tx: Transaction) -> int:
            self._lock_graph(tx)
            entity_ids = {
                row[0]
                for name in wanted
                for row in tx.all(_ENTITIES_NAMED, user=self._graph_user, name=name)
            }
            tx.many(
                _DELETE_RELATIONS_OF, [{"user": self._graph_user, "name": name} for name in wanted]
            )
            tx.many(_DELETE_ENTITY, [{"id": id} for id in sorted(entity_ids)])
            self._mark(tx, [(id, WHOLE) for id in sorted(entity_ids)])
            return len(entity_ids)

        return self._write("remove_many", work)

    @verb(effect="remove")
    def forget(self, observations: Sequence[Observations]) -> int:
        """Remove observations of entities, and return their number; skip unknown observations."""
        checked = [
            (
                self._checked_text(observation.name, field),
                [
                    self._checked_text(text, field)
                    for text in _checked_list(observation.texts, field, str)
                ],
            )
            for n, observation in enumerate(
                _checked_list(observations, "observations", Observations)
            )
            for field in [f"observations[{n}]"]
        ]

        def work(tx: Transaction) -> int:
            self._lock_graph(tx)
            return sum(self._remove_observations(tx, name, texts) for name, texts in checked)

        return self._write("forget", work)

    @verb(effect="remove")
    def unrelate(self, relations: Sequence[Relation]) -> int:
        """Remove relations, and return their number; skip unknown relations."""
        checked = [
            {
                part: self._checked_text(getattr(relation, part), f"relations[{n}].{part}")
                for part in ("start", "target", "type")
            }
            for n, relation in enumerate(_checked_list(relations, "relations", Relation))
        ]

        def work(tx: Transaction) -> int:
            self._lock_graph(tx)
            return sum(
                tx.run(_DELETE_RELATION, user=self._graph_user, **relation) for relation in checked
            )

        return self._write("unrelate", work)

    def _observations_by_entity(self, tx: Transaction) -> dict[str, list[str]]:
        """Return the observations of every entity, by its id."""
        texts: dict[str, list[str]] = {}
        for id, text in tx.all(_OBSERVATIONS, user=self._graph_user):
            texts.setdefault(id, []).append(text)
        return texts

    def _whole(self, tx: Transaction, *, facts: bool) -> Graph:
        texts = self._observations_by_entity(tx)
        entities = [
            GraphEntity(name, type, texts.get(id, []))
            for id, name, type in tx.all(_ENTITIES, user=self._graph_user)
        ]
        relations = [Relation(*row) for row in tx.all(_RELATIONS, user=self._graph_user)]
        graph = Graph(entities, relations)
        if not facts:
            return graph
        return _with_facts(graph, read_current(tx, self._graph_user, MAX_FACTS))

    def _add_observations(self, tx: Transaction, observations: Observations) -> list[str]:
        id = self._entity_id(tx, observations.name)
        if id is None:
            raise NotFound(what="entity", id=observations.name)
        new = [text for text in observations.texts if not tx.one(_OBSERVED, id=id, text=text)]
        first = _last_number(tx, "texts", id=id) + 1
        self._store_observations(tx, id, first, new)
        self._mark(tx, [(id, number) for number, _ in enumerate(new, first)])
        self._touch(tx, id)
        return new

    def _store_observations(
        self, tx: Transaction, id: str, first: int, texts: Sequence[str]
    ) -> None:
        tx.many(
            _INSERT_OBSERVATION,
            [
                {"id": id, "number": number, "text": text, "checksum": checksum(text)}
                for number, text in enumerate(texts, first)
            ],
        )

    def _remove_observations(self, tx: Transaction, name: str, texts: Sequence[str]) -> int:
        id = self._entity_id(tx, name)
        if id is None:
            return 0
        numbers = [row[0] for row in tx.all(_OBSERVATIONS_OF, id=id) if row[1] in texts]
        tx.many(_DELETE_OBSERVATION, [{"id": id, "number": number} for number in numbers])
        self._mark(tx, [(id, number) for number in numbers])
        self._touch(tx, id)
        return len(numbers)

    def _mark(self, tx: Transaction, documents: Iterable[tuple[str, int]]) -> None:
        """Note in the index that entities or observations were added or removed."""
        owner = owner_of(self._graph_user)
        self._services.index.mark(
            tx, [IndexMark(owner, self.name, id, number) for id, number in documents]
        )

    def _entity_id(self, tx: Transaction, name: str) -> str | None:
        row = tx.one(_ENTITIES_NAMED, user=self._graph_user, name=name)
        return None if row is None else str(row[0])

    def _touch(self, tx: Transaction, id: str) -> None:
        source = self._owner.source
        tx.send(_TOUCH_ENTITY, id=id, source=source, foreign=int(source in FOREIGN))

    def _lock_graph(self, tx: Transaction) -> None:
        tx.lock(f"graph {self._graph_user}")

    @property
    def _graph_user(self) -> str:
        return self._owner.user or ""

    def _checked_entity(self, entity: GraphEntity, field: str) -> GraphEntity:
        texts = self._checked_observations(entity.observations, f"{field}.observations")
        return GraphEntity(
            self._checked_name(entity.name, f"{field}.name"),
            self._checked_name(entity.type, f"{field}.type"),
            texts,
        )

    def _checked_name(self, value: str, field: str) -> str:
        """Validate a name to store; as in all names, a secret is rejected, not masked."""
        text = canonical.text(value, field, MAX_NAME_BYTES)
        return masking.guard_name(text, field, self._settings.masking)

    def _checked_observations(self, values: Sequence[str], field: str) -> list[str]:
        max_bytes = limits.MAX_MESSAGE_BYTES
        policy = self._settings.masking
        return [
            canonical.text(value, field, max_bytes, policy)
            for value in _checked_list(values, field, str)
        ]

    def _checked_text(self, value: str, field: str) -> str:
        return canonical.text(value, field, limits.MAX_MESSAGE_BYTES)


def _part(graph: Graph, entities: list[GraphEntity]) -> Graph:
    """Return some entities of a graph with all their relations."""
    names = {entity.name for entity in entities}
    relations = [
        relation
        for relation in graph.relations
        if relation.start in names or relation.target in names
    ]
    return Graph(entities, relations)


def _with_facts(graph: Graph, rows: Sequence[FactRow]) -> Graph:
    """Return a graph with facts as observations of their subjects and as relations."""
    entities = list(graph.entities)
    relations = list(graph.relations)
    places: dict[str, int] = {}
    for place, entity in enumerate(entities):
        places.setdefault(entity.name, place)
    for row in reversed(rows):
        subject = row.subject
        if subject not in places:
            places[subject] = len(entities)
            entities.append(GraphEntity(subject, FACT_SUBJECT))
        entity = entities[places[subject]]
        if row.statement not in entity.observations:
            texts = [*entity.observations, row.statement]
            entities[places[subject]] = GraphEntity(subject, entity.type, texts)
        relation = Relation(subject, row.object, row.predicate)
        if relation.type and relation.target and relation not in relations:
            relations.append(relation)
    return Graph(entities, relations)


def is_empty(graph: Graphs) -> bool:
    """Return whether a graph has no entities, without reading all of them."""
    return graph._read(lambda tx: _last_number(tx, "entities", user=graph._graph_user)) == 0


def _last_number(tx: Transaction, what: str, **values: str) -> int:
    row = tx.one(_LAST_NUMBERS[what], **values)
    return int(row[0]) if row else 0


def _checked_list(values: Sequence[T], field: str, type: type[T]) -> Sequence[T]:
    """Validate a list, possibly empty, of values of one type."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise Invalid(field=field, problem=f"must be a list of {type.__name__}")
    if len(values) > MAX_ITEMS:
        raise TooLarge(field=field, size=len(values), unit="items", limit=MAX_ITEMS)
    for value in values:
        if not isinstance(value, type):
            raise Invalid(
                field=field,
                problem=f"must be a list of {type.__name__}, not of {value.__class__.__name__}",
            )
    return values


def add_twins(graph: Graphs, entities: Sequence[GraphEntity]) -> list[GraphEntity]:
    """Add entities also if others have their names, as in an imported graph."""
    return graph._add(entities, twins=True)
