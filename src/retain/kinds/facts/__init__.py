"""Facts: what is known about a user and the people and things they talk about."""

from retain.kinds.facts.fact import Evidence, Fact, FactChange, Status, Topic
from retain.kinds.facts.facts import Facts

__all__ = ["Evidence", "Fact", "FactChange", "Facts", "Status", "Topic"]
