"""The tools `remember_fact`, `correct_fact` and `what_do_you_know`.

Pending facts wait for a person, so that no output contains one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from memorist.base import limits, tokens
from memorist.base.errors import Conflict, Invalid, NotFound
from memorist.base.verbs import declared_verb
from memorist.kinds.facts.fact import (
    ABOUT_USER,
    MAX_STATEMENT_CHARACTERS,
    TOPICS,
    Fact,
    Topic,
)
from memorist.kinds.tool import Tool, ToolOutput, schema, string

MAX_FACTS = 50
ANSWER_TOKENS = 1_500
"""The approximate token limit of an output of what_do_you_know."""
PENDING_NOTE = (
    "This waits for a person to confirm it. Until then it is not part of any prompt or search. "
    "Saving it again changes nothing."
)
NO_USER = "No user is set, so no facts are known. Name one (X-Memorist-User, or --user)."
CONFIRMED_NOTE = (
    "A person confirmed this fact, so only a person can change it. Nothing was changed."
)
_TEXT = string()
_STATEMENT = string(
    "One full sentence that is true without its context, such as `Clara lives in "
    f"Lisbon.`, at most {MAX_STATEMENT_CHARACTERS} characters."
)
_EVIDENCE = {
    "type": "array",
    "items": _TEXT,
    "description": "The messages that say so, each as SESSION#NUMBER, such as `trip#4`.",
}
_DAY = "a date, such as 2026-05-01, or a time with a time zone"
_REMEMBER = schema(
    ("statement",),
    statement=_STATEMENT,
    about=string(
        "The name of the person or thing it is about. `user` for the user.", default=ABOUT_USER
    ),
    topic=string(enum=list(TOPICS), default="other"),
    since=string(f"Since when it is true: {_DAY}."),
    until=string(f"Until when it is true: {_DAY}."),
    evidence=_EVIDENCE,
)
_CORRECT = schema(
    ("fact_id", "statement"),
    fact_id=string("The id of the fact, from what_do_you_know."),
    statement=_STATEMENT,
    since=string(
        f"Since when the new statement is true: {_DAY}. The old one was true until "
        "then. Without it, the old one was never true."
    ),
    evidence=_EVIDENCE,
)
_KNOW = schema(
    (),
    about=string("Only facts about this person or thing. `user` for the user."),
    question=string("Only facts that match this question, best first."),
)
_FACT_SCHEMA = schema(
    ("fact_id", "statement", "about", "topic", "confirmed", "evidence"),
    fact_id=_TEXT,
    statement=_TEXT,
    about=_TEXT,
    topic=_TEXT,
    since=_TEXT,
    until=_TEXT,
    confirmed={"type": "boolean"},
    evidence={"type": "array", "items": _TEXT},
)
_SAVED = schema(("success",), success={"const": True}, fact=_FACT_SCHEMA, note=_TEXT)
_KNOWN = schema(("facts",), facts={"type": "array", "items": _FACT_SCHEMA}, note=_TEXT)


def tools(
    user: str | None,
    add: Callable[..., Fact],
    get: Callable[[str], Fact],
    correct: Callable[..., Fact],
    list_facts: Callable[..., Iterable[Fact]],
    search: Callable[..., Iterable[Fact]],
) -> list[Tool]:
    """Return the tools, over the verbs that do the work.

    user: the scope's user; without one nothing is known
    """

    def remember(
        statement: str,
        about: str = ABOUT_USER,
        topic: Topic = "other",
        since: str | None = None,
        until: str | None = None,
        evidence: Sequence[str] = (),
    ) -> ToolOutput:
        fact = add(
            statement,
            subject=about,
            topic=topic,
            valid_from=_time(since, "since"),
            valid_to=_time(until, "until"),
            evidence=evidence,
        )
        return _saved(fact)

    def replace(
        fact_id: str, statement: str, since: str | None = None, evidence: Sequence[str] = ()
    ) -> ToolOutput:
        fact = get(fact_id)
        if fact.status == "pending":
            raise NotFound(what="fact", id=fact_id)
        try:
            newer = correct(fact_id, statement, since=_time(since, "since"), evidence=evidence)
        except Conflict:
            if fact.confirmed and fact.status == "active":
                return {"error": CONFIRMED_NOTE}
            raise
        return _saved(newer)

    def know(about: str | None = None, question: str | None = None) -> ToolOutput:
        if user is None:
            return {"error": NO_USER}
        known: Iterable[Fact]
        if question is not None and question.strip():
            known = search(question, limit=MAX_FACTS)
            if about is not None:
                same = {fact.id for fact in list_facts(about=about, limit=limits.MAX_PAGE)}
                known = [fact for fact in known if fact.id in same]
        else:
            known = list_facts(about=about, limit=MAX_FACTS)
        return _known([fact for fact in known if fact.status != "pending"])

    return [
        Tool(
            "remember_fact",
            "Remember a fact about the user, or about a person or thing that the user talks about. "
            "All agents of the user know it from then on.",
            _REMEMBER,
            remember,
            "Remember a fact",
            _SAVED,
            action=declared_verb(add).name,
        ),
        Tool(
            "correct_fact",
            "Replace a fact that is wrong or no longer true by a new statement. The old fact stays "
            "in the history. A fact that a person confirmed cannot be changed.",
            _CORRECT,
            replace,
            "Correct a fact",
            _SAVED,
            action=declared_verb(correct).name,
        ),
        Tool(
            "what_do_you_know",
            "Read the facts that are true now, with their ids and the messages that they come "
            "from: all of them, those about a person or thing, or those that match a question.",
            _KNOW,
            know,
            "Read known facts",
            _KNOWN,
            "read",
        ),
    ]


def _saved(fact: Fact) -> ToolOutput:
    if fact.status == "pending":
        return {"success": True, "note": PENDING_NOTE}
    return {"success": True, "fact": _fact(fact)}


def _known(facts: Sequence[Fact]) -> ToolOutput:
    """Return facts, as many as the output has room for."""
    shown: list[ToolOutput] = []
    cost = 0
    for fact in facts:
        result = _fact(fact)
        cost += tokens.estimate(json.dumps(result, ensure_ascii=False))
        if cost > ANSWER_TOKENS and shown:
            break
        shown.append(result)
    output: ToolOutput = {"facts": shown}
    if not shown:
        output["note"] = "No fact is known. search_memory searches everything else."
    elif len(shown) < len(facts):
        output["note"] = (
            "More facts exist. Pass `question`, or `about` with the name of a person or thing."
        )
    return output


def _fact(fact: Fact) -> ToolOutput:
    output: dict[str, Any] = {
        "fact_id": fact.id,
        "statement": fact.statement,
        "about": fact.subject,
        "topic": fact.topic,
        "since": "" if fact.valid_from is None else fact.valid_from.date().isoformat(),
        "until": "" if fact.valid_to is None else fact.valid_to.date().isoformat(),
        "confirmed": fact.confirmed,
        "evidence": [f"{message.session}#{message.seq}" for message in fact.evidence],
    }
    return {name: value for name, value in output.items() if value != ""}


def _time(value: str | None, field: str) -> datetime | None:
    """Parse a date or a time; a date is its beginning in UTC."""
    if value is None or not value.strip():
        return None
    try:
        time = datetime.fromisoformat(value.strip())
    except ValueError:
        problem = f"must be {_DAY}, not {value[:50]!r}"
        raise Invalid(field=field, problem=problem) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
