"""Facts: what is known about a user and the people and things they talk about."""

from memorist.kinds.facts.entities import Entity
from memorist.kinds.facts.fact import Evidence, Fact, FactChange, Status, Topic
from memorist.kinds.facts.facts import Facts

__all__ = ["Entity", "Evidence", "Fact", "FactChange", "Facts", "Status", "Topic"]
