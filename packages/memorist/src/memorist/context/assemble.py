"""Assemble the context for a model call: search, read, share the budget, write, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from memorist.base import canonical, limits, masking, tokens
from memorist.base.errors import Invalid, NotFound
from memorist.content import message_content, placeholder
from memorist.content.message import Message
from memorist.content.message_content import Content
from memorist.content.shortening import leave_out_middle
from memorist.context import recall, render
from memorist.context.budget import share
from memorist.context.prompt import LAYER_NAMES, Material, PromptWriter, wanted_tokens
from memorist.context.render import PromptMessage, Rendered
from memorist.context.report import Report
from memorist.context.window import size, with_speaker
from memorist.kinds import KINDS
from memorist.kinds.kind import Owner, Services
from memorist.kinds.messages.messages import Messages
from memorist.kinds.refs import Refs
from memorist.kinds.section import Ask, Section
from memorist.search.query import Query
from memorist.storage.database import Transaction


@dataclass(frozen=True)
class Context:
    """The prompt for a model call, and the report that explains it."""

    prompt: Sequence[PromptMessage]
    report: Report
    texts: Mapping[str, str]  # source in the report → its text

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The messages for an OpenAI-compatible service."""
        return render.openai(self.prompt)

    def anthropic(self) -> Rendered:
        """Return the context for Anthropic: `.system` and `.messages`."""
        return render.anthropic(self.prompt)

    def text(self) -> str:
        """Return the context as plain text."""
        return render.plain(self.prompt)

    def as_json(self) -> dict[str, Any]:
        """Return the whole context as JSON."""
        return {
            "prompt": [message.as_json() for message in self.prompt],
            "report": self.report.as_json(),
            "texts": dict(self.texts),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Context:
        """Return a context from its JSON."""
        return cls(
            [PromptMessage.from_json(message) for message in value["prompt"]],
            Report.from_json(value["report"]),
            value["texts"],
        )


def assemble(
    services: Services,
    owner: Owner,
    session: str,
    message: Content,
    budget: int | None,
    others: Sequence[str],
) -> Context:
    """Return the context for a new message of a session, within a budget of tokens."""
    canonical.key(session, "session")
    if budget is not None:
        canonical.check_integer(budget, "budget", 1)
    if isinstance(others, str) or not isinstance(others, Sequence):
        raise Invalid(field="others", problem="must be a list of names")
    new = _new_message(message)
    asked_at = None
    if new:
        question = new.text
    else:
        question, asked_at = recall.last_question(services, owner, session)
    ask = Ask(session, question, [canonical.key(name, "others") for name in others])

    query = recall.start(services, owner, ask, asked_at)
    material = services.database.read(
        owner.tenant,
        lambda tx: _read(tx, services, owner, ask, budget, query),
        allow_replica=True,
    )
    if new is not None and ask.others:
        new = new._replace(text=with_speaker(material.owner.user or "", new.text))
    budget = material.budget
    factor = tokens.factor(material.model or services.settings.model)
    writer = PromptWriter(material, ask, new, int(budget / factor))
    if writer.free < 0 and new is not None:
        short = _shorten(new, writer.free + size(new))
        if short.text:
            reason = "the new message, shortened to fit"
            writer = PromptWriter(material, ask, short, writer.budget, reason)
    if writer.free < 0:
        needed = int((writer.budget - writer.free) * factor) + 1
        raise Invalid(
            field="budget",
            problem=f"is {budget} tokens, but the system prompt and the new message alone need {needed}",
        )
    prompt, report = writer.write()
    texts = writer.texts
    policy = services.settings.output_masking
    if policy is not masking.OFF:
        prompt = [_masked(message, policy) for message in prompt]
        texts = {source: masking.mask_personal(text, policy) for source, text in texts.items()}
    return Context(prompt, report.scaled(budget, factor), texts)


def _shorten(new: PromptMessage, room: int) -> PromptMessage:
    """Shorten a message that does not fit to what a chat leaves of it: three quarters of the room.

    Its text is empty if there is no room for a beginning and an end.
    """
    frame = size(new._replace(text=""))
    return new._replace(text=leave_out_middle(new.text, 3 * room // 4 - frame, "the new message"))


def _masked(message: PromptMessage, policy: masking.Policy) -> PromptMessage:
    """Return a message without personal data."""
    calls = [
        replace(call, arguments=masking.mask_personal_json(call.arguments, policy))
        for call in message.calls
    ]
    result = message.result
    if result is not None:
        result = replace(result, output=masking.mask_personal_json(result.output, policy))
    text = masking.mask_personal(message.text, policy)
    return message._replace(text=text, calls=calls, result=result)


def _new_message(message: Content) -> PromptMessage | None:
    """Return the new message, or None for an empty text.

    `message` may also be a message object with a role, of which only the content is used.
    """
    if (
        isinstance(message, Mapping)
        and message.keys() >= {"role", "content"}
        and isinstance(message["content"], str | Mapping)
    ):
        message = message["content"]
    raw, *_ = message_content.parse_content(message, "message", limits.MAX_MESSAGE_BYTES)
    value = canonical.parse(raw, "message")
    new = PromptMessage("user", message_content.spoken_text(value), message_content.images(value))
    if new.text.strip() or new.images:
        return new
    if not isinstance(message, str):
        raise Invalid(field="message", problem="is empty: it has neither text nor an image")
    return None


def _read(
    tx: Transaction,
    services: Services,
    owner: Owner,
    ask: Ask,
    budget: int | None,
    query: Query | None,
) -> Material:
    row = tx.one(
        """select sessions.user_id, sessions.agent, first_seq, summarized_count,
               coalesce(prompt, ''), coalesce(model, '')
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
    if budget is None:
        budget = services.settings.context_budget(model)
    owner = replace(owner, user=user, agent=owner.agent or agent)
    sections = _sections(tx, services, owner, ask)
    if "summary" not in sections:
        covered = 0

    recalled = None
    recall_tokens = 0
    references: set[str] = set()
    if query is not None:
        recalled = recall.finish(tx, services, owner, query)
        recall_tokens = recall.reserve(budget)
        references = recall.references(recalled)

    wants = wanted_tokens(sections, budget, recall_tokens)
    window_tokens = share(budget, wants)[LAYER_NAMES.index("window")]
    recent, is_complete = Messages(services, owner).recent(
        tx, ask.session, covered + 1, window_tokens
    )

    known = {}
    if "references" in sections:
        for piece in sections["references"].pieces:
            known[piece.source.removeprefix("refs ")] = piece.text
    unknown = (references | _mentioned(recent)) - known.keys()
    known |= Refs(services, owner).known(tx, unknown)
    return Material(
        owner=owner,
        prompt=prompt,
        model=model,
        budget=budget,
        covered=covered,
        first=first,
        sections=sections,
        messages=recent,
        is_complete=is_complete,
        known=known,
        reserved=recall_tokens,
        recalled=recalled,
    )


def _sections(tx: Transaction, services: Services, owner: Owner, ask: Ask) -> dict[str, Section]:
    """Return the sections of all kinds, by layer."""
    sections = {}
    for kind in KINDS:
        view = kind(services, owner)
        for section in (view.section(tx, ask), view.shared_section(tx, ask)):
            if section and section.pieces:
                sections[section.layer] = section
    return sections


def _mentioned(messages: Sequence[Message]) -> set[str]:
    """Return the keys of the references that messages mention."""
    texts = [message.raw for message in messages if placeholder.MARK in message.raw]
    return {key for text in texts for key in placeholder.find_keys(text)}
