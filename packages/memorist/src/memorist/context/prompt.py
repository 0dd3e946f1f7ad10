"""Write one context: give each layer its share of the budget, and report the pieces of each layer.

The parts that change least come first, so that a provider's prompt cache can serve the start: the
system prompt with the agent's own memory and notes, the summary, the references that no visible
message mentions, the recent messages. Text that changes each time comes last: references for which
there was no room before, state, whiteboard, the facts in the order that suits the new message,
recalled memories, the new message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memorist.base import limits, tokens
from memorist.content import placeholder
from memorist.content.message import Message
from memorist.content.message_content import TOKENS_PER_MESSAGE, is_long_text
from memorist.content.shortening import prompt_tokens
from memorist.context import recall, render
from memorist.context.budget import LAYERS, share
from memorist.context.recall import Recalled
from memorist.context.render import PromptMessage
from memorist.context.report import Report, ReportItem
from memorist.context.window import Speakers, WindowLine, size, window
from memorist.kinds.kind import Owner
from memorist.kinds.refs import FRAGMENT, MAX_LISTED
from memorist.kinds.section import Ask, Piece, Section, most_valuable

NOTES_VARIABLE = "{long_term_memory_notes}"
NOTES_HEAD = "# Your Notes\n\n"
REFERENCES_HEAD = "References from earlier in this conversation:"
OLDER_REFERENCES_HEAD = "Older references from this conversation:"
REFERENCES_MORE = "(Older references are not listed: search_memory finds them.)"
GROUP_SENTENCE = "You are participating in a group conversation."
SECTION_FRAME_TOKENS = 24  # an estimate for the heading or the fence of a section
FENCE_TOKENS = size(PromptMessage("user", render.fence("")))  # a message with a fence of its own
LAYER_NAMES = [layer.name for layer in LAYERS]
SECTION_LAYERS = ("private", "notes", "summary", "facts", "state", "whiteboard")
VOLATILE_LAYERS = ("older references", "state", "whiteboard", "facts", "recall")
DROP_ORDER = ("whiteboard", "state", "facts", "fragment", "notes", "private", "summary")
"""The layers to drop, one by one, if the budget is too small even for the chosen pieces."""


@dataclass(frozen=True)
class Material:
    """Everything that one read transaction found for a context."""

    owner: Owner
    prompt: str
    model: str
    budget: int
    covered: int  # the last message that the summary covers
    first: int  # the first message of the session
    sections: Mapping[str, Section]
    messages: Sequence[Message]
    is_complete: bool  # `messages` are all messages that the summary does not cover
    known: Mapping[str, str]  # references that exist: key → placeholder
    reserved: int = 0  # tokens for recall
    recalled: Recalled | None = None

    @property
    def system_prompt(self) -> str:
        """The agent's prompt, or a minimal prompt."""
        return self.prompt if self.prompt.strip() else f"You are {self.owner.agent}."


def wanted_tokens(
    sections: Mapping[str, Section], window_tokens: int, recall_tokens: int
) -> list[int]:
    """Return the number of tokens that each layer could use."""
    wants = {"window": window_tokens, "recall": recall_tokens}
    for name, section in sections.items():
        wants[name] = section.tokens + SECTION_FRAME_TOKENS + section.heading_tokens
        if name in ("private", "facts", "references"):
            wants[name] += FENCE_TOKENS
    return [wants.get(name, 0) for name in LAYER_NAMES]


class PromptWriter:
    """Writes one context, each layer within its share of the budget."""

    def __init__(
        self,
        material: Material,
        ask: Ask,
        new: PromptMessage | None,
        budget: int,
        new_reason: str = "the new message",
    ) -> None:
        self.material = material
        self.ask = ask
        self.new = new
        self.new_reason = new_reason
        self.budget = budget
        self.written: dict[str, str] = {}  # layer → text
        self.items: dict[str, list[ReportItem]] = {}
        self.left_out: dict[str, list[ReportItem]] = {}
        self.texts = {
            "new": new.text if new else "",
            f"agents {material.owner.agent}": material.system_prompt,
            "fragment": FRAGMENT,
        }
        self.free = budget - self._total([])
        window_tokens = sum(
            prompt_tokens(message.role, message.tokens, False, budget)
            for message in material.messages[:-1]
        )
        if material.messages:
            window_tokens += material.messages[-1].tokens
        wants = wanted_tokens(material.sections, window_tokens, material.reserved)
        self.shares = dict(zip(LAYER_NAMES, share(self.free, wants), strict=True))

    def write(self) -> tuple[list[PromptMessage], Report]:
        """Fill every layer; the recent messages get the tokens that the other layers leave."""
        for name in SECTION_LAYERS:
            room = self.shares[name]
            if name in ("private", "facts"):
                room -= FENCE_TOKENS
            self._fill(name, self.material.sections.get(name), room)
        has_long = any(
            is_long_text(message.tokens, message.raw)
            for message in self.material.messages
            if message.tokens > limits.REF_TOKENS
        )
        if "references" in self.material.sections or has_long:
            self.written["fragment"] = FRAGMENT
        cost = self._drop_until_it_fits()
        room = self.budget - cost - self.shares["references"]
        reserved = max(min(self.shares["recall"], room), 0)
        recent = self._fill_window(room - reserved)
        cost += sum(line.tokens for line in recent)
        # References come before recall, so that they do not depend on the recalled memories.
        cost += self._fill_references(recent, self.budget - cost - reserved)
        cost += self._fill_recall(reserved)
        return self._messages(recent), self._report(cost)

    def _drop_until_it_fits(self) -> int:
        """Drop layers until the rest fits; return the tokens of all layers except the window."""
        cost = self._total([])
        for name in DROP_ORDER:
            if cost <= self.budget:
                break
            if self.written.pop(name, ""):
                dropped = self.items.pop(name, [])
                self._leave_out(name, dropped, "did not fit into the budget")
                cost = self._total([])
        return cost

    def _fill(self, name: str, section: Section | None, room: int) -> None:
        if section is None:
            return
        if section.cut_notice is not None:
            pieces = self._cut(section.pieces, name, room - SECTION_FRAME_TOKENS)
            text = section.write(pieces) if pieces else ""
        else:
            pieces = self._choose(section.pieces, name, room - SECTION_FRAME_TOKENS)
            text = section.write(pieces) if pieces else ""
            # The headings of the section are not counted yet.
            while pieces and tokens.estimate(text) > room:
                worst = min(pieces, key=lambda piece: piece.worth)
                pieces = [piece for piece in pieces if piece is not worst]
                self._leave_out(name, [worst])
                text = section.write(pieces) if pieces else ""
        text = placeholder.verify(text, self.material.known)
        if section.cut_notice and pieces and self.left_out.get(name):
            text += section.cut_notice
        self.written[name] = text
        self._show(name, pieces)

    def _show(self, name: str, pieces: Sequence[Piece]) -> None:
        items = self.items.setdefault(name, [])
        for source, text, cost, reason, _ in pieces:
            items.append(ReportItem(name, source, cost, reason))
            self.texts[source] = text

    def _leave_out(
        self, name: str, pieces: Sequence[Piece] | Sequence[ReportItem], reason: str = ""
    ) -> None:
        reason = reason or f"did not fit into the budget of {name}"
        items = [ReportItem(name, piece.source, piece.tokens, reason) for piece in pieces]
        self.left_out.setdefault(name, []).extend(items)

    def _all_left_out(self) -> list[ReportItem]:
        """Return the pieces that were left out; a fact that was recalled is not one of them."""
        recalled = {item.source for item in self.items.get("recall", [])}
        left_out: list[ReportItem] = []
        for name in {**self.left_out, **self.material.sections}:
            items = self.left_out.get(name, [])
            section = self.material.sections.get(name)
            if section is not None and section.unread is not None:
                items = [item for item in items if item.source not in recalled]
                if count := len(items) + section.unread:
                    total = f"{name}, {count} in all"
                    items.append(ReportItem(name, total, 0, "left out of the prompt"))
            left_out += items
        return left_out

    def _choose(self, pieces: Sequence[Piece], name: str, room: int) -> list[Piece]:
        """Return the most valuable pieces that fit, in their original order."""
        chosen = most_valuable(pieces, room)
        if len(chosen) < len(pieces):
            chosen_ids = set(map(id, chosen))
            self._leave_out(name, [piece for piece in pieces if id(piece) not in chosen_ids])
        return chosen

    def _cut(self, pieces: Sequence[Piece], name: str, room: int) -> list[Piece]:
        """Return the first pieces that fit; shorten the first piece that does not fit."""
        shown: list[Piece] = []
        for index, piece in enumerate(pieces):
            if piece.tokens > room:
                self._leave_out(name, pieces[index:])
                text = tokens.cut(piece.text, room - SECTION_FRAME_TOKENS)
                if text:
                    reason = f"{piece.reason}, shortened to fit"
                    cost = tokens.estimate(text)
                    shown.append(piece._replace(text=text, tokens=cost, reason=reason))
                return shown
            shown.append(piece)
            room -= piece.tokens
        return shown

    def _fill_window(self, room: int) -> list[WindowLine]:
        """Return the recent messages, and report those that are left out."""
        material = self.material
        owner = material.owner
        speakers = Speakers(owner.agent or "", owner.user or "", bool(self.ask.others))
        recent = window(
            material.messages,
            room,
            material.known,
            speakers,
            ends_with_question=self.new is None,
            is_complete=material.is_complete,
        )
        stored = {message.seq: message for message in material.messages}
        shown = {line.seq for line in recent}
        end = material.messages[-1].seq if material.messages else material.covered
        first_shown = min(shown, default=end + 1)
        first_verbatim = max(material.covered + 1, material.first)

        left_out = []
        if material.covered >= material.first:
            covered = f"messages {material.first}–{material.covered}"
            left_out.append(ReportItem("window", covered, 0, "covered by the summary"))
        if first_shown > first_verbatim:
            older = f"messages {first_verbatim}–{first_shown - 1}"
            left_out.append(ReportItem("window", older, 0, "did not fit into the budget of window"))
        for seq, message in stored.items():
            if seq > first_shown and seq not in shown:
                reason = "did not fit into the budget, or a tool result without its call"
                left_out.append(ReportItem("window", f"messages {seq}", message.tokens, reason))
        self.left_out["window"] = left_out
        self.items["window"] = [
            ReportItem("window", f"messages {line.seq}", line.tokens, _window_reason(line, stored))
            for line in recent
        ]
        self.texts |= {f"messages {line.seq}": line.message.text for line in recent}
        return recent

    def _fill_references(self, recent: Sequence[WindowLine], room: int) -> int:
        """List the references that no visible message mentions; return their tokens.

        Those that fit into their share stand before the window. That list must not change with each
        new message, so it does not use the room that the window leaves. That room is for the others,
        in a second list after the window.
        """
        section = self.material.sections.get("references")
        pieces = section.pieces if section else ()
        texts = [line.message.text for line in recent if placeholder.MARK in line.message.text]
        visible = {f"refs {key}" for text in texts for key in placeholder.find_keys(text)}
        hidden = [piece for piece in pieces if piece.source not in visible]
        frame = PromptMessage("user", render.fence(REFERENCES_HEAD))
        share = min(room, self._references_share(pieces)) - size(frame)
        if sum(piece.tokens for piece in hidden) > share:
            share -= size(PromptMessage("user", render.fence(REFERENCES_MORE)))
        shown = most_valuable(_shorten_placeholders(hidden, share), share)
        self.items["references"] = []
        if "fragment" in self.written:
            cost = tokens.estimate(FRAGMENT)
            fragment = ReportItem("references", "fragment", cost, "how to open a reference")
            self.items["references"].append(fragment)
        self._show("references", shown)
        self.written["references"] = ""
        cost = 0
        if shown:
            lines = [REFERENCES_HEAD, *(piece.text for piece in shown)]
            self.written["references"] = render.fence("\n".join(lines))
            cost = size(PromptMessage("user", self.written["references"]))
        listed = {piece.source for piece in shown}
        older = [piece for piece in hidden if piece.source not in listed]
        if len(pieces) >= MAX_LISTED:
            oldest = ReportItem("references", "refs, still older", 0, "search_memory finds them")
            self.left_out.setdefault("references", []).append(oldest)
        return cost + self._fill_older_references(older, room - cost)

    def _fill_older_references(self, pieces: Sequence[Piece], room: int) -> int:
        """List references after the window, as far as they fit; return their tokens.

        A last line says that some are not listed. It would change the list before the window often.
        """
        before = sum(map(size, self._volatile()))
        room -= size(PromptMessage("user", render.fence(REFERENCES_MORE)))
        has_room_for_notice = room >= 0
        room -= tokens.estimate(OLDER_REFERENCES_HEAD) + 1
        shown = self._choose(_shorten_placeholders(pieces, room), "references", room)
        lines = [OLDER_REFERENCES_HEAD] if shown else []
        lines += [piece.text for piece in shown]
        self._show("references", shown)
        if self.left_out.get("references") and has_room_for_notice:
            lines.append(REFERENCES_MORE)
        if not lines:
            return 0
        self.written["older references"] = "\n".join(lines)
        return sum(map(size, self._volatile())) - before

    def _references_share(self, pieces: Sequence[Piece]) -> int:
        """Return the share of the references; rounded down if not all of them fit.

        The share depends on the length of the new message. Rounding keeps the list from changing.
        """
        share = self.shares["references"]
        if share >= sum(piece.tokens for piece in pieces) + SECTION_FRAME_TOKENS + FENCE_TOKENS:
            return share
        step = 1 << max(share.bit_length() - 4, 0)
        return share // step * step

    def _fill_recall(self, room: int) -> int:
        """Add the recalled memories that are not shown yet; return their tokens with the fence."""
        recalled = self.material.recalled
        if recalled is None:
            return 0
        if failure := recall.vector_failure(recalled.query):
            self.left_out["recall"] = [ReportItem("recall", "vectors", 0, failure)]
        before = sum(map(size, self._volatile()))
        if not before:
            room -= size(PromptMessage("user", render.fence("")))
        shown = {item.source for items in self.items.values() for item in items}
        cut_texts = {
            name: self.written.get(name, "") for name, items in self.left_out.items() if items
        }
        self._fill("recall", recall.section(recalled, self.ask, shown, cut_texts), room)
        return sum(map(size, self._volatile())) - before

    def _volatile(self) -> list[PromptMessage]:
        """Return the text that changes each time, in one fence."""
        texts = [self.written[name] for name in VOLATILE_LAYERS if self.written.get(name)]
        return [PromptMessage("user", render.fence("\n".join(texts)))] if texts else []

    def _total(self, recent: Sequence[WindowLine]) -> int:
        return sum(size(message) for message in self._messages(recent))

    def _messages(self, recent: Sequence[WindowLine]) -> list[PromptMessage]:
        messages = [PromptMessage("system", self._system_text())]
        if summary := self.written.get("summary"):
            messages.append(PromptMessage("system", render.fence(summary)))
        if references := self.written.get("references"):
            messages.append(PromptMessage("user", references))
        window_messages = [line.message for line in recent]
        volatile = self._volatile()
        if self.new is not None:
            return [*messages, *window_messages, *volatile, self.new]
        # Without a new message, the last user message of the window is the question.
        last = len(window_messages)
        for index, message in enumerate(window_messages):
            if message.role == "user":
                last = index
        return [*messages, *window_messages[:last], *volatile, *window_messages[last:]]

    def _system_text(self) -> str:
        """Return the agent's prompt, its own memory, the group and its notes."""
        notes = self.written.get("notes", "")
        if notes:
            notes = render.enclose(
                notes
            )  # the model cannot mistake their headings for the prompt's
        before, variable, after = self.material.system_prompt.partition(NOTES_VARIABLE)
        prompt = before + (notes if variable else "") + after.replace(NOTES_VARIABLE, "")
        private = self.written.get("private", "")
        parts = [prompt, render.fence(private) if private else ""]
        if self.ask.others:
            people = [self.material.owner.user] if self.material.owner.user else []
            others = ", ".join([*self.ask.others, *people])
            parts += [GROUP_SENTENCE, f"Other participants: {others}."]
        if notes and not variable:
            parts.append(NOTES_HEAD + notes)
        parts.append(self.written.get("fragment", ""))
        return "\n\n".join(part for part in parts if part)

    def _report(self, total: int) -> Report:
        agent = f"agents {self.material.owner.agent}"
        prompt = self.material.system_prompt.replace(NOTES_VARIABLE, "")
        cost = tokens.estimate(prompt) + TOKENS_PER_MESSAGE
        items = [ReportItem("system", agent, cost, "the agent's system prompt")]
        for name in LAYER_NAMES:
            items += self.items.get(name, [])
        if self.new is not None:
            items.append(ReportItem("message", "new", size(self.new), self.new_reason))
        rest = total - sum(item.tokens for item in items)
        if rest > 0:
            reason = "headings and separators between the sections"
            items.append(ReportItem("frame", "headings and fences", rest, reason))
        return Report(self.budget, total, items, self._all_left_out(), self.shares)


def _window_reason(line: WindowLine, stored: Mapping[int, Message]) -> str:
    message = line.message
    is_shortened = (line.tokens < stored[line.seq].tokens and " is left out" in message.text) or (
        message.calls and any(" is left out" in str(call.arguments) for call in message.calls)
    )
    return "recent, shortened to fit" if is_shortened else "recent"


def _shorten_placeholders(pieces: Sequence[Piece], room: int) -> Sequence[Piece]:
    """Remove the descriptions of the oldest references until the placeholders fit."""
    spare = room - sum(piece.tokens for piece in pieces)
    if spare >= 0:
        return pieces
    shortened = list(pieces)
    for index in sorted(range(len(pieces)), key=lambda index: pieces[index].worth):
        shortened[index] = _without_description(pieces[index])
        spare += pieces[index].tokens - shortened[index].tokens
        if spare >= 0:
            break
    return shortened


def _without_description(piece: Piece) -> Piece:
    source, _, _, reason, worth = piece
    text = placeholder.render(source.removeprefix("refs "), "")
    return Piece(source, text, tokens.estimate(text) + 1, reason, worth)
