"""Facts: what is known about a user and the people and things they talk about."""

from retain.kinds.facts.entities import Entity
from retain.kinds.facts.fact import Evidence, Fact, FactChange, Status, Topic
from retain.kinds.facts.facts import Facts

__all__ = ["Entity", "Evidence", "Fact", "FactChange", "Facts", "Status", "Topic"]
