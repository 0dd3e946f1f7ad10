"""From everything that is remembered to the context that a model is given: read once, share the budget, write, explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from retain.base import canonical, limits, tokens
from retain.base.errors import Invalid, NotFound
from retain.context import recall, render
from retain.context.budget import LAYERS, share
from retain.context.explain import Report
from retain.context.render import Rendered, Said
from retain.context.window import labelled
from retain.context.writer import Found, Writer, wanted
from retain.kinds.entries.entries import Entries
from retain.kinds.kind import Owner, Services
from retain.kinds.messages.messages import Messages
from retain.kinds.notes import Notes
from retain.kinds.refs.refs import Refs
from retain.kinds.section import Ask
from retain.kinds.state import State
from retain.kinds.summaries import Summaries
from retain.messages import content, placeholder
from retain.messages.content import Content
from retain.messages.message import Message
from retain.search.query import Query
from retain.storage.database import Transaction

_WINDOW = [layer.name for layer in LAYERS].index("window")


@dataclass(frozen=True)
class Context:
    """What a model is given, and the report that explains it; `texts` has the text of each source in the report."""

    said: Sequence[Said]
    report: Report
    texts: Mapping[str, str]

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """As an OpenAI-compatible service takes it."""
        return render.openai(self.said)

    def anthropic(self) -> Rendered:
        """As Anthropic takes it: `.system` and `.messages`."""
        return render.anthropic(self.said)

    def text(self) -> str:
        """As plain text."""
        return render.plain(self.said)

    def as_json(self) -> dict[str, Any]:
        """All of it, for another process."""
        return {
            "said": [render.packed(one) for one in self.said],
            "report": self.report.as_json(),
            "texts": dict(self.texts),
        }

    @classmethod
    def of_json(cls, sent: Mapping[str, Any]) -> Context:
        """As another process sent it."""
        return cls(
            [render.unpacked(one) for one in sent["said"]],
            Report.of_json(sent["report"]),
            sent["texts"],
        )


def assemble(
    services: Services,
    owner: Owner,
    session: str,
    message: Content,
    budget: int | None,
    others: Sequence[str],
) -> Context:
    """The context for a new message of a session, inside a budget of tokens."""
    canonical.key(session, "session")
    given = canonical.whole(
        services.settings.context_tokens if budget is None else budget, "budget", 1
    )
    if isinstance(others, str) or not isinstance(others, Sequence):
        raise Invalid(field="others", problem="must be a list of names")
    new = _new(services, message)
    asked, at = (new.text, None) if new else recall.asked_last(services, owner, session)
    ask = Ask(session, asked, [canonical.key(name, "others") for name in others])
    sought = recall.seek(services, owner, ask, at)
    found = services.database.read(
        owner.tenant, lambda tx: _read(tx, services, owner, ask, given, sought)
    )
    if new is not None and ask.others:
        new = new._replace(text=labelled(found.owner.user or "", new.text))
    factor = tokens.factor(found.model or services.settings.model)
    writer = Writer(found, ask, new, int(given / factor))
    if writer.free < 0:
        needed = int((writer.budget - writer.free) * factor) + 1
        problem = (
            f"is {given} tokens, and the system prompt and the new message alone need {needed}"
        )
        raise Invalid(field="budget", problem=problem)
    said, report = writer.write()
    return Context(said, report.scaled(given, factor), writer.texts)


def _new(services: Services, message: Content) -> Said | None:
    """The new message, None where there is none; a whole message is taken for what it says."""
    if (
        isinstance(message, Mapping)
        and message.keys() >= {"role", "content"}
        and isinstance(message["content"], str | Mapping)
    ):
        message = message["content"]
    raw, *_ = content.parse_content(message, "message", limits.MAX_MESSAGE_BYTES)
    value = canonical.parse(raw, "message")
    new = Said("user", content.spoken_text(value), content.images(value))
    if new.text.strip() or new.images:
        return new
    if not isinstance(message, str):
        raise Invalid(field="message", problem="says nothing: it has neither text nor an image")
    return None


def _read(
    tx: Transaction, services: Services, owner: Owner, ask: Ask, budget: int, sought: Query | None
) -> Found:
    row = tx.one(
        """select sessions.user_id, sessions.agent, first_seq, summarized_count, coalesce(prompt, ''), coalesce(model, '')
           from sessions left join agents
               on agents.tenant = sessions.tenant and agents.name = coalesce(:agent, sessions.agent)
           where sessions.tenant = :tenant and sessions.id = :session
           and sessions.user_id = coalesce(:user, sessions.user_id)""",
        session=ask.session,
        user=owner.user,
        agent=owner.agent,
    )
    if row is None:
        raise NotFound(what="session", id=ask.session)
    user, agent, first, covered, prompt, model = row
    whose = replace(owner, user=user, agent=owner.agent or agent)
    entries, refs, summary = (
        Entries(services, whose),
        Refs(services, whose),
        Summaries(services, whose).section(tx, ask),
    )
    sections = (
        entries.section(tx, ask),
        entries.shared_section(tx, ask),
        Notes(services, whose).section(tx, ask),
        summary,
        refs.section(tx, ask),
        State(services, whose).section(tx, ask),
    )
    covered = covered if summary else 0
    spoken = {section.layer: section for section in sections if section and section.pieces}
    listed = spoken["references"].pieces if "references" in spoken else ()
    known = {piece.source.removeprefix("refs "): piece.text for piece in listed}
    recalled = None if sought is None else recall.look(tx, services, whose, sought)
    reserved = 0 if recalled is None else recall.reserve(budget)
    mentioned = recall.mentioned(recalled) if recalled else set()
    wants = [
        budget if layer.name == "window" else wanted(spoken, layer.name, reserved)
        for layer in LAYERS
    ]
    recent = Messages(services, whose).recent(
        tx, ask.session, covered + 1, share(budget, wants)[_WINDOW]
    )
    known |= refs.known(tx, (mentioned | _mentioned(recent)) - known.keys())
    return Found(whose, prompt, model, covered, first, spoken, recent, known, reserved, recalled)


def _mentioned(messages: Sequence[Message]) -> set[str]:
    raws = [message.raw for message in messages if placeholder.MARK in message.raw]
    return {key for raw in raws for key in placeholder.find_keys(raw)}
