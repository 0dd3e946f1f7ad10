"""One context in the making: what each layer may take, what it took, what is left out.

The order keeps what changes least first, so that a provider's prompt cache can serve the beginning: the system prompt with
the agent's own memory and its notes, the summary, the references that are no longer in view, the recent turns; and at the
end what is new each time: state, the whiteboard, what was recalled, the new message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from retain.base import tokens
from retain.context import recall, render
from retain.context.budget import LAYERS, share
from retain.context.explain import Item, Report
from retain.context.recall import Recalled
from retain.context.render import Said
from retain.context.window import Line, Voices, size, window
from retain.kinds.kind import Owner
from retain.kinds.refs.refs import FRAGMENT, MOST_LISTED
from retain.kinds.section import Ask, Piece, Section
from retain.messages import placeholder
from retain.messages.content import TOKENS_PER_MESSAGE
from retain.messages.message import Message

NOTES_HERE = "{long_term_memory_notes}"
NOTES_HEAD = "# Your Notes\n\n"
NOTES_CUT = (
    "\n\n(The notes are cut here for want of room; manage_long_term_memory reads them whole.)"
)
REFERENCES_HEAD = "References from earlier in this conversation:"
REFERENCES_MORE = "(There are more that are older: search_memory finds them.)"
_HEAD_TOKENS = 24
"""What the heading or the fence of a section costs besides its pieces, about."""
_GIVEN_UP = ("whiteboard", "state", "fragment", "notes", "private", "summary")
"""What goes, one after the other, where a budget is too small even for what was chosen."""


@dataclass(frozen=True)
class Found:
    """What one read transaction found.

    `reserved` tokens are kept for what was `recalled`.
    """

    owner: Owner
    prompt: str
    model: str
    covered: int
    first: int
    sections: Mapping[str, Section]
    messages: Sequence[Message]
    known: Mapping[str, str]
    reserved: int = 0
    recalled: Recalled | None = None

    @property
    def whole_prompt(self) -> str:
        """The agent's prompt, or the least that can be said of it."""
        return self.prompt if self.prompt.strip() else f"You are {self.owner.agent}."


def wanted(sections: Mapping[str, Section], name: str, reserved: int) -> int:
    """How many tokens a layer could use; for the recall so many are reserved, whatever it finds."""
    if name == "recall":
        return reserved
    section = sections.get(name)
    return sum(piece.tokens for piece in section.pieces) + _HEAD_TOKENS if section else 0


class Writer:
    """Writes one context, each layer in its share of the budget."""

    def __init__(self, found: Found, ask: Ask, new: Said | None, budget: int) -> None:
        self.found, self.ask, self.new, self.budget = found, ask, new, budget
        self.written: dict[str, str] = {}
        self.free = budget - sum(size(part) for part in self._said([]))
        messages = sum(message.tokens for message in found.messages)
        wants = [
            messages
            if layer.name == "window"
            else wanted(found.sections, layer.name, found.reserved)
            for layer in LAYERS
        ]
        self.shares = dict(
            zip([layer.name for layer in LAYERS], share(self.free, wants), strict=True)
        )
        self.items: dict[str, list[Item]] = {}
        self.left_out: dict[str, list[Item]] = {}
        self.texts = {
            "new": new.text if new else "",
            f"agents {found.owner.agent}": found.whole_prompt,
            "fragment": FRAGMENT,
        }

    def write(self) -> tuple[list[Said], Report]:
        """Every layer in its share; the recent turns get what the others leave."""
        for name in ("private", "notes", "summary", "state", "whiteboard"):
            self._fill(name, self.found.sections.get(name), self.shares[name])
        if "references" in self.found.sections:
            self.written["fragment"] = FRAGMENT
        base = self._base()
        room = self.budget - base - self.shares["references"]
        reserved = max(min(self.shares["recall"], room), 0)
        recent = self._window(room - reserved)
        cost = base + sum(line.tokens for line in recent)
        cost += self._fill_references(
            recent, self.budget - cost - reserved
        )  # the same references, whatever is recalled
        cost += self._fill_recall(reserved)
        return self._said(recent), self._report(cost)

    def _base(self) -> int:
        """What everything but the recent turns costs; where that alone is too much, the least important goes."""
        for name in ("", *_GIVEN_UP):
            if self.written.pop(name, ""):
                out = self.items.pop(name, [])
                self.left_out.setdefault(name, []).extend(
                    item._replace(reason="no room in this budget") for item in out
                )
            base = sum(size(part) for part in self._said([]))
            if base <= self.budget:
                break
        return base

    def _fill(self, name: str, section: Section | None, share: int) -> None:
        if section is None:
            return
        room = share - _HEAD_TOKENS
        if name in ("notes", "summary"):
            kept = self._beginning(section.pieces, name, room)
        else:
            kept = self._choose(section.pieces, name, room)
            while (
                kept and tokens.estimate(section.write(kept)) > share
            ):  # it has headings of its own
                gone = min(kept, key=lambda piece: piece.worth)
                kept = [piece for piece in kept if piece is not gone]
                self._leave_out(name, [gone])
        text = placeholder.verify(section.write(kept), self.found.known) if kept else ""
        self.written[name] = text + (
            NOTES_CUT if name == "notes" and kept and self.left_out.get(name) else ""
        )
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
        self._leave_out(name, [piece for place, piece in enumerate(pieces) if place not in chosen])
        return [pieces[place] for place in sorted(chosen)]

    def _beginning(self, pieces: Sequence[Piece], name: str, room: int) -> list[Piece]:
        """As much as there is room for, from the beginning; what does not fit is cut, not passed over."""
        kept: list[Piece] = []
        for place, piece in enumerate(pieces):
            if piece.tokens > room:
                text = tokens.cut(piece.text, room - _HEAD_TOKENS)
                cut = piece._replace(
                    text=text,
                    tokens=tokens.estimate(text),
                    reason=f"{piece.reason}, shortened to fit",
                )
                self._leave_out(name, pieces[place:])
                return [*kept, cut] if text else kept
            kept.append(piece)
            room -= piece.tokens
        return kept

    def _leave_out(self, name: str, pieces: Sequence[Piece]) -> None:
        why = f"no room in the share of {name}"
        self.left_out.setdefault(name, []).extend(
            Item(name, piece.source, piece.tokens, why) for piece in pieces
        )

    def _window(self, room: int) -> list[Line]:
        """The recent turns, and which messages are not among them."""
        found = self.found
        voices = Voices(found.owner.agent or "", found.owner.user or "", bool(self.ask.others))
        recent = window(found.messages, room, found.known, voices)
        whole = {message.seq: message for message in found.messages}
        said = {line.seq for line in recent}
        first = min(
            said, default=found.messages[-1].seq + 1 if found.messages else found.covered + 1
        )
        verbatim = max(found.covered + 1, found.first)
        out = []
        if found.covered >= found.first:
            out.append(
                Item(
                    "window", f"messages {found.first}–{found.covered}", 0, "covered by the summary"
                )
            )
        if first > verbatim:
            out.append(
                Item(
                    "window",
                    f"messages {verbatim}–{first - 1}",
                    0,
                    "no room in the share of window",
                )
            )
        missing = [
            message for message in found.messages if message.seq > first and message.seq not in said
        ]
        out += [
            Item("window", f"messages {m.seq}", m.tokens, "no room, or a result without its call")
            for m in missing
        ]
        self.left_out["window"] = out
        self.items["window"] = [
            Item("window", f"messages {line.seq}", line.tokens, _why(line, whole))
            for line in recent
        ]
        self.texts |= {f"messages {line.seq}": line.said[0].text for line in recent}
        return recent

    def _fill_references(self, recent: Sequence[Line], room: int) -> int:
        """The references that no visible turn mentions, and what they cost; the older by their key alone, if it is tight."""
        section = self.found.sections.get("references")
        texts = [
            part.text for line in recent for part in line.said if placeholder.MARK in part.text
        ]
        seen = {f"refs {key}" for text in texts for key in placeholder.find_keys(text)}
        hidden = [
            piece for piece in (section.pieces if section else ()) if piece.source not in seen
        ]
        frame = size(Said("user", render.fence(f"{REFERENCES_HEAD}\n{REFERENCES_MORE}")))
        room -= frame + len(hidden)  # and a line break for each
        kept = self._choose(_shortened(hidden, room), "references", room)
        if section and len(section.pieces) >= MOST_LISTED:
            older = Item("references", "refs, still older", 0, "search_memory finds them")
            self.left_out.setdefault("references", []).append(older)
        told = "fragment" in self.written
        how = (
            [Item("references", "fragment", tokens.estimate(FRAGMENT), "how to open a reference")]
            if told
            else []
        )
        self.items["references"] = how + [
            Item("references", p.source, p.tokens, p.reason) for p in kept
        ]
        self.texts |= {piece.source: piece.text for piece in kept}
        more = [REFERENCES_MORE] if self.left_out.get("references") else []
        listed = "\n".join([REFERENCES_HEAD, *(piece.text for piece in kept), *more])
        self.written["references"] = render.fence(listed) if kept else ""
        return size(Said("user", self.written["references"])) if kept else 0

    def _fill_recall(self, room: int) -> int:
        """What was recalled and is not said already, and what it costs with its fence."""
        recalled, before = self.found.recalled, sum(map(size, self._data()))
        if recalled is None:
            return 0
        if why := recall.trouble(recalled.sought):
            self.left_out["recall"] = [Item("recall", "vectors", 0, why)]
        shown = {item.source for items in self.items.values() for item in items}
        notes = self.written.get("notes", "") if self.left_out.get("notes") else None
        section = recall.section(recalled, self.ask, shown, notes)
        fence = 0 if before else size(Said("user", render.fence("")))
        self._fill("recall", section, room - fence)
        return sum(map(size, self._data())) - before

    def _data(self) -> list[Said]:
        """What is new each time, in one fence."""
        volatile = [
            self.written[name]
            for name in ("state", "whiteboard", "recall")
            if self.written.get(name)
        ]
        return [Said("user", render.fence("\n".join(volatile)))] if volatile else []

    def _said(self, recent: Sequence[Line]) -> list[Said]:
        written = self.written
        said = [Said("system", self._system())]
        said += [Said("system", render.fence(written["summary"]))] if written.get("summary") else []
        said += [Said("user", written["references"])] if written.get("references") else []
        spoken = [part for line in recent for part in line.said]
        data = self._data()
        if self.new is not None:
            return [*said, *spoken, *data, self.new]
        last = max(
            (place for place, part in enumerate(spoken) if part.role == "user"), default=len(spoken)
        )
        return [*said, *spoken[:last], *data, *spoken[last:]]

    def _system(self) -> str:
        """The system message: the agent's prompt, its own memory right after it, the group, its notes."""
        notes, prompt = self.written.get("notes", ""), self.found.whole_prompt
        before, here, after = prompt.partition(NOTES_HERE)
        parts = [
            before + (notes if here else "") + after.replace(NOTES_HERE, ""),
            self.written.get("private", ""),
        ]
        if self.ask.others:
            parts.append(
                f"You are in a group conversation. The other participants: {', '.join(self.ask.others)}."
            )
        if notes and not here:
            parts.append(NOTES_HEAD + notes)
        parts.append(self.written.get("fragment", ""))
        return "\n\n".join(part for part in parts if part)

    def _report(self, total: int) -> Report:
        alone = (
            tokens.estimate(self.found.whole_prompt.replace(NOTES_HERE, "")) + TOKENS_PER_MESSAGE
        )
        items = [
            Item("system", f"agents {self.found.owner.agent}", alone, "the agent's system prompt")
        ]
        for name in (
            "private",
            "notes",
            "summary",
            "references",
            "window",
            "state",
            "whiteboard",
            "recall",
        ):
            items += self.items.get(name, [])
        if self.new is not None:
            items.append(Item("message", "new", size(self.new), "the new message"))
        rest = total - sum(item.tokens for item in items)
        if rest > 0:
            items.append(
                Item("frame", "headings and fences", rest, "what holds the sections together")
            )
        out = [item for items in self.left_out.values() for item in items]
        return Report(self.budget, total, items, out, self.shares)


def _why(line: Line, whole: Mapping[int, Message]) -> str:
    shortened = (
        any("is left out) …" in part.text for part in line.said)
        and line.tokens < whole[line.seq].tokens
    )
    return "recent, shortened to fit" if shortened else "recent"


def _shortened(pieces: Sequence[Piece], room: int) -> Sequence[Piece]:
    """Placeholders that fit: where there is not room for all descriptions, the older have none."""
    spare = room - sum(piece.tokens for piece in pieces)
    if spare >= 0:
        return pieces
    brief = list(pieces)
    for place in sorted(range(len(pieces)), key=lambda place: pieces[place].worth):
        brief[place] = _by_key(pieces[place])
        spare += pieces[place].tokens - brief[place].tokens
        if spare >= 0:
            break
    return brief


def _by_key(piece: Piece) -> Piece:
    text = placeholder.render(piece.source.removeprefix("refs "), "")
    return Piece(piece.source, text, tokens.estimate(text) + 1, piece.reason, piece.worth)
