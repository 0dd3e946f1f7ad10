"""From everything that is remembered to the context that a model is given: read once, share the budget, write, explain.

The order keeps what changes least first, so that a provider's prompt cache can serve the beginning: the system prompt with
the agent's own memory and its notes, the summary, the references that are no longer in view, the recent turns; and at the
end what is new each time: state, the whiteboard, what was recalled, the new message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from retain import canonical, placeholder, tokens
from retain.context import render
from retain.context.budget import LAYERS, share
from retain.context.explain import Item, Report
from retain.context.render import Rendered, Said
from retain.context.window import Line, begin, lines, shorten, size
from retain.errors import Invalid, NotFound
from retain.kinds.entries import Entries
from retain.kinds.kind import Home, Who
from retain.kinds.messages import Messages
from retain.kinds.notes import Notes
from retain.kinds.refs import FRAGMENT, MOST_LISTED, Refs
from retain.kinds.state import State
from retain.kinds.summaries import Summaries
from retain.section import Ask, Piece, Section
from retain.storage.database import Transaction
from retain.talk import content
from retain.talk.content import TOKENS_PER_MESSAGE, Content
from retain.talk.message import Message

NOTES_HERE = "{long_term_memory_notes}"
NOTES_HEAD = "# Your Notes\n\n"
REFERENCES_HEAD = "References from earlier in this conversation:"
_HEAD_TOKENS = 24
"""What the heading or the fence of a section costs besides its pieces, about."""
_TRIES = 4
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


@dataclass(frozen=True)
class Found:
    """What one read transaction found."""

    who: Who
    prompt: str
    covered: int
    first: int
    sections: Mapping[str, Section]
    messages: Sequence[Message]


def assemble(home: Home, who: Who, session: str, message: Content, budget: int | None, others: Sequence[str]) -> Context:
    """The context for a new message of a session, inside a budget of tokens."""
    canonical.key(session, "session")
    whole = canonical.whole(home.settings.context_tokens if budget is None else budget, "budget", 1)
    raw, cost, _ = content.read(message, "message", home.settings.max_message_bytes)
    new = _new(raw)
    others = [canonical.key(name, "others") for name in others]
    ask = Ask(session, new.text, others)
    found = home.database.read(who.tenant, lambda tx: _read(tx, home, who, ask, whole))
    fixed = tokens.estimate(_system(found, {}, ask)) + TOKENS_PER_MESSAGE + (cost if _says(new) else 0)
    if fixed > whole:
        problem = f"is {whole} tokens, and the system prompt and the new message alone need {fixed}"
        raise Invalid(field="budget", problem=problem)
    return _Writer(found, ask, new if _says(new) else None, whole, whole - fixed).context()


def _new(raw: str) -> Said:
    value = canonical.parse(raw, "message")
    text = value.get("text")
    return Said("user", text if isinstance(text, str) else "", render.images(value))


def _says(new: Said) -> bool:
    return bool(new.text.strip() or new.images)


def _read(tx: Transaction, home: Home, who: Who, ask: Ask, budget: int) -> Found:
    row = tx.one(
        """select sessions.user_id, sessions.agent, first_seq, summarized_count, coalesce(prompt, '')
           from sessions left join agents
               on agents.tenant = sessions.tenant and agents.name = coalesce(:agent, sessions.agent)
           where sessions.tenant = :tenant and sessions.id = :session
           and sessions.user_id = coalesce(:user, sessions.user_id)""",
        session=ask.session,
        user=who.user,
        agent=who.agent,
    )
    if row is None:
        raise NotFound(what="session", id=ask.session)
    user, agent, first, covered, prompt = row
    whose = replace(who, user=user, agent=who.agent or agent)
    summary = Summaries(home, whose).section(tx, ask)
    entries = Entries(home, whose)
    sections = (
        entries.section(tx, ask),
        entries.shared_section(tx, ask),
        Notes(home, whose).section(tx, ask),
        summary,
        Refs(home, whose).section(tx, ask),
        State(home, whose).section(tx, ask),
    )
    covered = covered if summary else 0
    spoken = {s.layer: s for s in sections if s and s.pieces}
    wants = [budget if layer.name == "window" else _wanted(spoken, layer.name) for layer in LAYERS]
    recent = Messages(home, whose).recent(tx, ask.session, covered + 1, share(budget, wants)[_WINDOW])
    return Found(whose, prompt, covered, first, spoken, recent)


def _wanted(sections: Mapping[str, Section], name: str) -> int:
    section = sections.get(name)
    return sum(piece.tokens for piece in section.pieces) + _HEAD_TOKENS if section else 0


def _prompt(found: Found) -> str:
    return found.prompt if found.prompt.strip() else f"You are {found.who.agent}."


def _system(found: Found, written: Mapping[str, str], ask: Ask) -> str:
    """The system message: the agent's prompt, its own memory right after it, the group, its notes."""
    notes = written.get("notes", "")
    prompt = _prompt(found)
    parts = [prompt.replace(NOTES_HERE, notes), written.get("private", "")]
    if ask.others:
        parts.append(f"You are in a group conversation. The other participants: {', '.join(ask.others)}.")
    if notes and NOTES_HERE not in prompt:
        parts.append(NOTES_HEAD + notes)
    parts.append(written.get("fragment", ""))
    return "\n\n".join(part for part in parts if part)


class _Writer:
    """One context in the making: what each layer may take, what it took, what is left out."""

    def __init__(self, found: Found, ask: Ask, new: Said | None, budget: int, free: int) -> None:
        self.found, self.ask, self.new, self.budget, self.free = found, ask, new, budget, free
        references = found.sections.get("references")
        self.known = {piece.text for piece in references.pieces} if references else set()
        messages = sum(message.tokens for message in found.messages)
        wants = [messages if layer.name == "window" else _wanted(found.sections, layer.name) for layer in LAYERS]
        self.shares = dict(zip([layer.name for layer in LAYERS], share(free, wants), strict=True))
        self.items: dict[str, list[Item]] = {}
        self.left_out: list[Item] = []
        self.written: dict[str, str] = {}
        self.texts = {"new": new.text if new else "", f"agents {found.who.agent}": _prompt(found), "fragment": FRAGMENT}

    def context(self) -> Context:
        """Every layer in its share; the recent turns get what the others leave."""
        for name in ("private", "notes", "summary", "state", "whiteboard", "recall"):
            self._fill(name)
        if "references" in self.found.sections:
            self.written["fragment"] = FRAGMENT
        base = sum(size(part) for part in self._said([]))
        room = self.budget - base - self.shares["references"]
        for _ in range(_TRIES):
            window = self._window(room)
            cost = sum(line.tokens for line in window)
            cost += self._fill_references(window, self.budget - base - cost)
            if base + cost <= self.budget:
                break
            room -= base + cost - self.budget  # a call without its result was given one, a text could not be shortened
        else:
            window = self._window(-1)
            cost = self._fill_references(window, self.budget - base)
        self.texts |= {f"messages {line.seq}": line.said[0].text for line in window}
        return Context(self._said(window), self._report(base + cost), self.texts)

    def _fill(self, name: str) -> None:
        section = self.found.sections.get(name)
        if section is None:
            return
        room = self.shares[name] - _HEAD_TOKENS
        kept = self._choose(section.pieces, name, room) if name != "summary" else [_cut(section.pieces[0], room)]
        text = placeholder.neutral(section.write(kept), self.known) if kept else ""
        self.written[name] = text
        self.texts |= {piece.source: piece.text for piece in kept}
        self.items[name] = [Item(name, piece.source, piece.tokens, piece.reason) for piece in kept]

    def _choose(self, pieces: Sequence[Piece], name: str, room: int) -> list[Piece]:
        """The pieces of most worth that fit, in their own order."""
        if sum(piece.tokens for piece in pieces) <= room:
            return list(pieces)
        chosen = set()
        for place in sorted(range(len(pieces)), key=lambda place: -pieces[place].worth):
            if pieces[place].tokens <= room:
                chosen.add(place)
                room -= pieces[place].tokens
        out = [piece for place, piece in enumerate(pieces) if place not in chosen]
        self.left_out += [Item(name, piece.source, piece.tokens, f"no room in the share of {name}") for piece in out]
        return [pieces[place] for place in sorted(chosen)]

    def _window(self, room: int) -> list[Line]:
        """The recent turns that fit; where not even the last one does, that one with its texts shortened."""
        messages = self.found.messages
        start = begin(messages, room)
        short = start == len(messages) and bool(messages) and room > 0
        if short:
            start = max((place for place, message in enumerate(messages) if message.role == "user"), default=start - 1)
        group = bool(self.ask.others)
        window = lines(messages[start:], self.known, self.found.who.agent, group)
        if short:
            window = [shorten(line, max(room // len(window), 0)) for line in window]
        self.left_out = [item for item in self.left_out if item.layer != "window"] + self._before(messages[start:])
        reason = "recent" if not short else "recent, shortened to fit"
        self.items["window"] = [Item("window", f"messages {line.seq}", line.tokens, reason) for line in window]
        return window

    def _before(self, kept: Sequence[Message]) -> list[Item]:
        """The messages that are not said again, as ranges."""
        first, covered = self.found.first, self.found.covered
        verbatim = max(covered + 1, first)
        start = kept[0].seq if kept else (self.found.messages[-1].seq + 1 if self.found.messages else covered + 1)
        out = []
        if covered >= first:
            out.append(Item("window", f"messages {first}–{covered}", 0, "covered by the summary"))
        if start > verbatim:
            out.append(Item("window", f"messages {verbatim}–{start - 1}", 0, "no room in the share of window"))
        return out

    def _fill_references(self, window: Sequence[Line], room: int) -> int:
        """The references that no visible turn mentions, and what they cost; the older by their key alone, if it is tight."""
        section = self.found.sections.get("references")
        texts = [part.text for line in window for part in line.said if placeholder.MARK in part.text]
        seen = {f"refs {key}" for text in texts for key in placeholder.keys(text)}
        hidden = [piece for piece in (section.pieces if section else ()) if piece.source not in seen]
        room -= size(Said("user", render.fence(REFERENCES_HEAD))) + len(hidden)  # and a line break for each
        self.left_out = [item for item in self.left_out if item.layer != "references"]
        kept = self._choose(_shortened(hidden, room), "references", room)
        if len(hidden) >= MOST_LISTED:
            self.left_out.append(Item("references", "refs, still older", 0, "search_memory finds them"))
        told = [Item("references", "fragment", tokens.estimate(FRAGMENT), "how to open a reference")] if section else []
        self.items["references"] = told + [Item("references", p.source, p.tokens, p.reason) for p in kept]
        self.texts |= {piece.source: piece.text for piece in kept}
        listed = "\n".join([REFERENCES_HEAD, *(piece.text for piece in kept)])
        self.written["references"] = render.fence(listed) if kept else ""
        return size(Said("user", self.written["references"])) if kept else 0

    def _said(self, window: Sequence[Line]) -> list[Said]:
        said = [Said("system", _system(self.found, self.written, self.ask))]
        if self.written.get("summary"):
            said.append(Said("system", self.written["summary"]))
        if self.written.get("references"):
            said.append(Said("user", self.written["references"]))
        recent = [part for line in window for part in line.said]
        volatile = [self.written[name] for name in ("state", "whiteboard", "recall") if self.written.get(name)]
        data = [Said("user", render.fence("\n".join(volatile)))] if volatile else []
        if self.new is not None:
            return [*said, *recent, *data, self.new]
        last = max((place for place, part in enumerate(recent) if part.role == "user"), default=len(recent))
        return [*said, *recent[:last], *data, *recent[last:]]

    def _report(self, total: int) -> Report:
        system = tokens.estimate(_system(self.found, {}, self.ask)) + TOKENS_PER_MESSAGE
        items = [Item("system", f"agents {self.found.who.agent}", system, "the agent's system prompt")]
        for name in ("private", "notes", "summary", "references", "window", "state", "whiteboard", "recall"):
            items += self.items.get(name, [])
        if self.new is not None:
            items.append(Item("message", "new", size(self.new), "the new message"))
        rest = total - sum(item.tokens for item in items)
        if rest > 0:
            items.append(Item("frame", "headings and fences", rest, "what holds the sections together"))
        return Report(self.budget, total, items, self.left_out, self.shares)


def _cut(piece: Piece, room: int) -> Piece:
    """A piece that must be said, as much of it as there is room for."""
    if piece.tokens <= room:
        return piece
    text = tokens.cut(piece.text, max(room, 0))
    return piece._replace(text=text, tokens=tokens.estimate(text), reason=f"{piece.reason}, shortened to fit")


def _shortened(pieces: Sequence[Piece], room: int) -> Sequence[Piece]:
    """Placeholders that fit: where there is not room for all descriptions, the older have none."""
    if sum(piece.tokens for piece in pieces) <= room:
        return pieces
    brief = [_by_key(piece) for piece in pieces]
    spare = room - sum(piece.tokens for piece in brief)
    for place in sorted(range(len(pieces)), key=lambda place: -pieces[place].worth):
        more = pieces[place].tokens - brief[place].tokens
        if more <= spare:
            brief[place] = pieces[place]
            spare -= more
    return brief


def _by_key(piece: Piece) -> Piece:
    text = placeholder.write(piece.source.removeprefix("refs "), "")
    return Piece(piece.source, text, tokens.estimate(text) + 1, piece.reason, piece.worth)
