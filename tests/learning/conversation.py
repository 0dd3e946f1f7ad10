"""A conversation for tests of learning."""

from __future__ import annotations

from memorist import Memory, Scope


class Conversation:
    """A conversation from which facts are learned."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.me: Scope = memory.scope(user="ada", agent="scout")
        self.me.sessions.add("s")

    def learn(self, *texts: str) -> list[str]:
        """Say texts, run the jobs, and return the statements that are true now."""
        for text in texts:
            self.me.messages.append("s", "user", text)
        self.memory.run_jobs()
        return [fact.statement for fact in self.me.facts.list()]
