"""Decide what a proposed fact means for the known facts: the model proposes, this code decides.

Pure functions. A fact is retired only for a reason that code can check: the same predicate with another
object where only one can be true, the opposite of a known fact, or a model's claim that the words of
the messages support. In doubt both facts stay, and a person decides about the pair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from memorist.kinds.facts.fact import Fact, ReplacementType
from memorist.kinds.trust import is_less_trusted
from memorist.learning.proposal import Proposal

ENDED = "no longer "
"""Begins the predicate of a fact that says that something is no longer true."""
PLAN_AFTER = timedelta(days=1)
"""A change later than this is a plan, and retires nothing yet."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_PART = re.compile(r"\s*,\s*|\s+in\s+")
_NEGATION = re.compile(
    r"(?:(?:(?:is|are|was|does|do|did|has|have|will)\s+)?(?:not|no longer|never)"
    r"|(?:isn|aren|wasn|doesn|don|didn|hasn|haven)['’]t)(?:\s+|$)"
)
_AUXILIARY = re.compile(r"\b(?:(?:is|are|am|was|has been|currently|now)\s+)+(?=\w)")
_ARTICLES = frozenset({"a", "an", "the", "der", "die", "das", "ein", "eine", "einen", "einem"})
_FILLER = re.compile(
    "users?|is|are|was|were|be|has|have|had|does|do|did|not|no|longer|now|and|or|of|in|at|to|for|on"
    "|with|from|as|by|his|her|their|its|this|that|she|he|they|it|an?|the"
)
_SYNONYMS = {
    "moved to": "lives in",
    "resides in": "lives in",
    "living in": "lives in",
    "based in": "lives in",
    "works for": "works at",
    "working at": "works at",
    "working for": "works at",
    "employed by": "works at",
    "employed at": "works at",
    "working as": "works as",
    "named": "name",
    "loves": "likes",
    "enjoys": "likes",
    "love": "likes",
    "enjoy": "likes",
    "like": "likes",
    "live in": "lives in",
    "work at": "works at",
    "work for": "works at",
    "work as": "works as",
    "eat": "eats",
    "drink": "drinks",
    "have": "has",
    "own": "owns",
    "speak": "speaks",
    "take": "takes",
    "work on": "works on",
    "plan": "plans",
    "follow the diet": "follows the diet",
    "identify as": "identifies as",
    "have this condition": "has this condition",
    "have a pet": "has a pet",
    "lives": "lives in",
    "live": "lives in",
}
_OPPOSITES = {"dislikes": "likes", "dislike": "likes", "hates": "likes", "hate": "likes"}
_EXCLUSIVE = re.compile(
    "lives in|works at|name|age|aged|born in|birthday|age or birthday|married to|engaged to|dating"
    "|(?:has the )?relationship status|height|phone number|email address|address"
    "|follows the diet|asked about .+|favou?rite .+"
)
_OF_THE_LIVING = (
    "",
    "dating",
    "married to",
    "has the relationship status",
    "lives in",
    "works at",
    "works as",
)
"""Predicates that end when a person dies or leaves; the empty one stands for `is`."""
_END_WORDS = re.compile(
    r"(?i)\b(?:quit|left|leaving|resign\w*|fired|sacked|laid off|redundan\w*|sold|broke|split|cancel\w*|call\w* off|stop\w*|gave|"
    r"give|giving|drop\w*|ended|over|finished|done|not any ?more|no longer|moved out|came off|off|scrapp\w*|"
    r"gekündigt|kündig\w*|gefeuert|entlassen|verkauft|abgesetzt|abgesagt|storniert|aufgehört|aufgegeben|beendet|vorbei|"
    r"geplatzt|ausgezogen|getrennt|schluss|nicht mehr|kein\w*)\b"
)
"""Words that signal an end without naming what ended."""
_BIRTH = frozenset({"aged", "born in", "age or birthday", "birthday"})
_STEM = 5
_MULTIPLE = re.compile(
    "likes|speaks|allergic to|has|owns|knows|is|plays|eats|drinks|visited|can|has visited|wants"
    "|friends with|related to|diagnosed with|takes|uses|collects"
)
"""Predicates that are true of several objects at a time, whatever a model claims."""


class MessagePosition(NamedTuple):
    """The position of a message that states a fact."""

    session: str
    seq: int
    sent_at: datetime

    def is_before(self, other: MessagePosition) -> bool:
        """Return whether this message comes before another."""
        if self.session == other.session:
            return self.seq < other.seq
        return self.sent_at < other.sent_at


@dataclass(frozen=True)
class Known:
    """A fact about the subject of a proposal."""

    fact: Fact
    message: MessagePosition  # the newest message that states it; without one, the time when it was added
    is_denied: bool = False  # a person retracted, corrected or undid it


@dataclass(frozen=True)
class Decision:
    """The decision about a proposal: add it, support a known fact, or ignore it."""

    action: Literal["add", "support", "ignore"]
    reason: str
    fact: Fact | None = None  # the fact to support
    replaces: Fact | None = None
    replacement_type: ReplacementType = "changed"
    conflicts_with: Fact | None = None  # an unclear pair
    also_ends: Sequence[Fact] = ()  # what else is no longer true of somebody who died or left
    settles: Sequence[Fact] = ()  # pending facts that say the same and need no review any more
    needs_review: bool = False
    valid_from: datetime | None = None
    valid_to: datetime | None = None


class Meaning(NamedTuple):
    """A predicate and an object in a form that can be compared."""

    predicate: str
    is_positive: bool
    object: str

    @property
    def opposite(self) -> Meaning:
        """The same with the other sign."""
        return self._replace(is_positive=not self.is_positive)


def meaning(predicate: str, object: str, *, ends: bool = False) -> Meaning:
    """Return what a predicate and an object say, whatever their words."""
    text = " ".join(predicate.casefold().split())
    is_positive = not ends
    if match := _NEGATION.match(text):
        text = text[match.end() :]
        is_positive = False
    text = _AUXILIARY.sub("", text, count=1)
    if text in _OPPOSITES:
        text = _OPPOSITES[text]
        is_positive = not is_positive
    return Meaning(_SYNONYMS.get(text, text), is_positive, _object_key(object))


def is_exclusive(predicate: str) -> bool:
    """Return whether only one object can be true at a time, judged by the predicate alone."""
    return bool(_EXCLUSIVE.fullmatch(meaning(predicate, "").predicate))


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that carry its meaning."""
    words = (word.removesuffix("'s").removesuffix("’s") for word in _WORD.findall(text.casefold()))
    return frozenset(word for word in words if not _FILLER.fullmatch(word))


def stored_predicate(proposal: Proposal) -> str:
    """Return the predicate to store: one that says so if something is no longer true."""
    if not proposal.ends or not proposal.predicate or _NEGATION.match(proposal.predicate):
        return proposal.predicate
    return ENDED + proposal.predicate


def decide(
    proposal: Proposal,
    known: Sequence[Known],
    message: MessagePosition,
    *,
    source: str = "user",
    is_ambiguous: bool = False,
    needs_review: bool = False,
) -> Decision:
    """Return what to do with a proposal, given all known facts about its subject.

    message:      the newest message that the proposal comes from
    source:       who stated it
    is_ambiguous: the subject's name means more than one person
    needs_review: a person must confirm it, whatever its source
    """
    if proposal.ends:  # the end of one thing is the beginning of another
        start = proposal.valid_to or proposal.valid_from
        proposal = replace(proposal, valid_from=start, valid_to=None)
    decision = _decide(proposal, known, message, source, is_ambiguous)
    if decision.action != "add":
        return decision
    needs_review = needs_review or decision.needs_review
    own = _meaning_of_proposal(proposal)
    waiting = [
        item.fact
        for item in known
        if item.fact.status == "pending"
        and _is_current(item.fact, message.sent_at)
        and _says_the_same(item.fact, proposal, own)
    ]
    if needs_review and waiting:
        return Decision("support", "waits for review already", fact=waiting[0])
    return replace(
        decision,
        settles=waiting,
        needs_review=needs_review,
        valid_from=proposal.valid_from or decision.valid_from or _start(decision, message),
        valid_to=decision.valid_to or proposal.valid_to or _end(decision, proposal),
    )


def _start(decision: Decision, message: MessagePosition) -> datetime | None:
    """Return the start of a fact that replaces another, if its message does not name one.

    A correction or refinement has the start of the fact that it replaces.
    """
    if decision.replaces is None:
        return None
    if decision.replacement_type == "changed":
        return message.sent_at
    return decision.replaces.valid_from


def _end(decision: Decision, proposal: Proposal) -> datetime | None:
    """Return the end of a fact that replaces another, if its message does not name one."""
    if decision.replaces is None or decision.replacement_type == "changed" or proposal.ends:
        return None
    end = decision.replaces.valid_to
    is_over = end is not None and proposal.valid_from is not None and proposal.valid_from >= end
    return None if is_over else end


def _decide(
    proposal: Proposal,
    known: Sequence[Known],
    message: MessagePosition,
    source: str,
    is_ambiguous: bool,
) -> Decision:
    own = _meaning_of_proposal(proposal)
    active = [
        item
        for item in known
        if item.fact.status == "active" and _is_current(item.fact, message.sent_at)
    ]
    for item in active:
        if _says_the_same(item.fact, proposal, own) and not _adds_an_end(item.fact, proposal):
            return Decision("support", "known already", fact=item.fact)
    for item in known:
        if item.is_denied and _says_the_same(item.fact, proposal, own):
            return Decision("ignore", "a person retracted it")
    was_true = any(
        item.fact.status == "replaced" and _meaning_of(item.fact) == own.opposite for item in known
    )
    if proposal.ends and was_true and not any(_meaning_of(k.fact) == own.opposite for k in active):
        return Decision("ignore", "known to have ended")

    judge = _Judge(proposal, own, message, source, is_ambiguous, known)
    if proposal.about is not None:
        for item in active:
            if item.fact.id == proposal.about:
                claimed = judge.check_claim(item, active)
                if claimed is not None:
                    return claimed
    return judge.compare(active)


class _Judge:
    """Compares one proposal with the active facts about its subject."""

    def __init__(
        self,
        proposal: Proposal,
        own: Meaning,
        message: MessagePosition,
        source: str,
        is_ambiguous: bool,
        known: Sequence[Known],
    ) -> None:
        self._known = known
        self._proposal = proposal
        self._own = own
        self._message = message
        self._source = source
        self._is_ambiguous = is_ambiguous

    def check_claim(self, older: Known, active: Sequence[Known]) -> Decision | None:
        """Return the decision for a model's claim about a fact; None if it claims nothing."""
        relation = self._proposal.relation
        if relation == "new":
            return None
        other = _meaning_of(older.fact)
        own_words = content_words(self._proposal.statement)
        other_words = content_words(older.fact.statement)
        is_same_predicate = bool(self._own.predicate) and self._own.predicate == other.predicate
        if relation == "same":
            has_same_object = self._own.object == other.object or not (
                self._own.object and other.object
            )
            if has_same_object and self._own.is_positive == other.is_positive:
                return Decision("support", "known already", fact=older.fact)
        elif relation == "refines":
            object_words = content_words(older.fact.object) or other_words
            is_kept = object_words <= own_words and self._own.is_positive == other.is_positive
            if is_kept and len(own_words) > len(other_words & own_words):
                return self._replace(older, "refined", active)
        elif relation in ("changes", "corrects"):
            is_opposite = self._own.is_positive != other.is_positive
            has_same_object = bool(self._own.object) and self._own.object == other.object
            if is_same_predicate and is_opposite and not has_same_object:
                return None  # "no longer at Acme" says nothing about another employer
            is_one_of_one = not _MULTIPLE.fullmatch(self._own.predicate)
            is_plausible = is_same_predicate and (is_one_of_one or has_same_object)
            is_plausible = is_plausible or (
                is_opposite and bool((own_words & other_words) - content_words(older.fact.subject))
            )
            is_plausible = is_plausible or (relation == "corrects" and is_same_predicate)
            if is_plausible:
                replacement_type: ReplacementType = (
                    "changed" if relation == "changes" else "corrected"
                )
                return self._replace(older, replacement_type, active)
        return _unclear(older.fact, f"the claim that it {relation} a fact is not certain")

    def compare(self, active: Sequence[Known]) -> Decision:
        """Return the decision that the words themselves allow."""
        general = [item for item in active if self._is_part_of(item)]
        if general and not self._is_ambiguous:
            return Decision("support", "less exact than what is known", fact=general[0].fact)
        finer = [item for item in active if self._is_finer_than(item)]
        if finer:
            return self._replace(finer[0], "refined", active)
        contradicted = [item for item in active if self._contradicts(item)]
        if not contradicted and self._proposal.ends:
            contradicted = self._ended_by_words(active)
        replacement_type: ReplacementType = "changed"
        denied = [item for item in active if self._is_denied(item)]
        if denied:
            return self._replace(denied[0], "corrected", active)
        if self._proposal.relation == "corrects" and self._proposal.about is None:
            replacement_type = "corrected"
            contradicted = contradicted or [
                item
                for item in active
                if self._is_from_this_session(item) or self._is_another_form(item)
            ]
        if contradicted:
            newest = contradicted[0]
            for item in contradicted[1:]:
                if newest.message.is_before(item.message):
                    newest = item
            is_vague = self._proposal.ends and not _shared_words(self._proposal, newest.fact)
            if is_vague and len(contradicted) > 1:
                return _unclear(newest.fact, "it does not say which of them ended")
            decision = self._replace(newest, replacement_type, active)
            if self._proposal.ends_subject and decision.replaces is not None:
                others = [item.fact for item in contradicted if item is not newest]
                decision = replace(decision, also_ends=others, conflicts_with=None)
            return decision
        return Decision("add", "new")

    def _is_from_this_session(self, item: Known) -> bool:
        """Return whether this conversation stated something that is of the same kind."""
        other = _meaning_of(item.fact)
        is_same_kind = self._own.predicate == other.predicate and bool(self._own.predicate)
        return (
            is_same_kind
            and self._own.is_positive == other.is_positive
            and item.message.session == self._message.session
        )

    def _ended_by_words(self, active: Sequence[Known]) -> list[Known]:
        """Return the facts that an ended statement refers to: those that share a word, or else all.

        "Cancelled the flight" ends "plans: fly to Crete", and "quit my job" the only job.
        """
        same = []
        for item in active:
            other = _meaning_of(item.fact)
            if other.is_positive and other.predicate == self._own.predicate:
                same.append(item)
        named = [item for item in same if _shared_words(self._proposal, item.fact)]
        if named or (same and _END_WORDS.search(self._proposal.object)):
            return named or same
        # "Octavia is done" ends "works at Octavia Energy", even if the reader took it for another slot.
        own = content_words(self._proposal.object)
        return [
            item
            for item in active
            if own
            and item.fact.topic == self._proposal.topic
            and _meaning_of(item.fact).is_positive
            and (own <= content_words(item.fact.object) or content_words(item.fact.object) <= own)
            and content_words(item.fact.object)
        ]

    def _is_denied(self, item: Known) -> bool:
        """Return whether the message denies a fact of the same topic: "Katharina, not Catherine"."""
        denied = content_words(self._proposal.instead_of)
        other = content_words(item.fact.object)
        return (
            bool(denied and other)
            and other <= denied
            and item.fact.topic == self._proposal.topic
            and _meaning_of(item.fact).is_positive
            and not other & content_words(self._proposal.object)
        )

    def _is_another_form(self, item: Known) -> bool:
        """Return whether a correction targets a fact: another form of its predicate, or a shared word."""
        own, other = self._own.predicate, _meaning_of(item.fact).predicate
        is_birth = own in _BIRTH and other in _BIRTH
        return is_birth or (own == other and _shared_words(self._proposal, item.fact))

    def _contradicts(self, item: Known) -> bool:
        other = _meaning_of(item.fact)
        if self._proposal.ends_subject:
            return other.is_positive and other.predicate in _OF_THE_LIVING
        if not self._own.predicate or self._own.predicate != other.predicate:
            return False
        if self._own.is_positive != other.is_positive:
            ends_any = self._proposal.ends and self._proposal.exclusive and not self._own.object
            return ends_any or self._own.object == other.object
        return self._has_another_object(other)

    def _has_another_object(self, other: Meaning) -> bool:
        both_positive = self._own.is_positive and other.is_positive
        is_other = bool(self._own.object and other.object) and self._own.object != other.object
        return self._proposal.exclusive and both_positive and is_other

    def _is_part_of(self, item: Known) -> bool:
        """Return whether a fact says the same more exactly, as Alfama, Lisbon does for Lisbon."""
        other = _meaning_of(item.fact)
        return (
            self._own.predicate == other.predicate
            and self._has_another_object(other)
            and _parts(self._proposal.object) < _parts(item.fact.object)
        )

    def _is_finer_than(self, item: Known) -> bool:
        other = _meaning_of(item.fact)
        if self._own == other and _adds_an_end(item.fact, self._proposal):
            return True
        return (
            self._own.predicate == other.predicate
            and self._has_another_object(other)
            and _parts(item.fact.object) < _parts(self._proposal.object)
        )

    def _replace(
        self, older: Known, replacement_type: ReplacementType, active: Sequence[Known]
    ) -> Decision:
        """Replace an older fact, unless something speaks against it.

        A fact that a person confirmed is replaced only once a person confirms the newer one.
        """
        decision = self._replace_or_keep(older, replacement_type, active)
        if not older.fact.confirmed:
            return decision
        return Decision(
            "add",
            "it contradicts a fact that a person confirmed",
            replaces=decision.replaces,
            replacement_type=decision.replacement_type,
            conflicts_with=older.fact,
            needs_review=True,
        )

    def _replace_or_keep(
        self, older: Known, replacement_type: ReplacementType, active: Sequence[Known]
    ) -> Decision:
        fact = older.fact
        moment = self._proposal.valid_from or self._message.sent_at
        if self._is_ambiguous:
            return _unclear(fact, "the name means more than one person")
        if self._proposal.is_restricted:
            return Decision("add", "it is temporary or partial, alongside what is known")
        if self._proposal.relation == "unclear" or self._proposal.is_doubtful:
            return _unclear(fact, "the proposal is not certain")
        if not fact.confirmed and is_less_trusted(self._source, fact.source):
            return _unclear(fact, "its source is less trusted")
        if self._message == older.message:
            return _unclear(fact, "the same message says both")
        if self._message.is_before(older.message):
            return self._from_the_past(older, replacement_type)
        if replacement_type == "changed" and moment > self._message.sent_at + PLAN_AFTER:
            return _unclear(fact, "it is a plan")
        if (
            replacement_type == "changed"
            and fact.valid_from is not None
            and moment < fact.valid_from
        ):
            return _unclear(fact, "it is said to be true since before the older fact")
        others = [
            item.fact for item in active if item.fact.id != fact.id and self._contradicts(item)
        ]
        return Decision(
            "add",
            replacement_type,
            replaces=fact,
            replacement_type=replacement_type,
            conflicts_with=others[0] if others else None,
        )

    def _from_the_past(self, newer: Known, replacement_type: ReplacementType) -> Decision:
        """Return the decision for a message that is older than what is known."""
        if replacement_type != "changed":
            return _unclear(newer.fact, "the message is older than what is known")
        if self._proposal.ends:
            return Decision("ignore", "the message is older than what is known")
        for item in self._known:
            is_over = item.fact.status == "replaced" or item.fact.valid_to is not None
            is_stated = item.fact.status in ("active", "replaced")
            if is_over and is_stated and _says_the_same(item.fact, self._proposal, self._own):
                return Decision("support", "known to have been true", fact=item.fact)
        end = newer.fact.valid_from or newer.message.sent_at
        start = self._proposal.valid_from
        if end < (start or self._message.sent_at):
            return _unclear(newer.fact, "it is not certain which of them is newer")
        return Decision("add", "it was true before", valid_to=end)


def _shared_words(proposal: Proposal, fact: Fact) -> bool:
    """Return whether two objects share the beginning of a word that carries meaning."""
    own, other = (
        {
            word[:_STEM]
            for word in content_words(text)
            if len(word) > 2 and not _END_WORDS.match(word)
        }
        for text in (proposal.object, fact.object)
    )
    return bool(own & other)


def _unclear(fact: Fact, reason: str) -> Decision:
    return Decision("add", reason, conflicts_with=fact)


def _is_current(fact: Fact, moment: datetime) -> bool:
    """Return whether a fact is true, or waits for review, as far as is known."""
    if fact.status not in ("active", "pending"):
        return False
    return fact.valid_to is None or fact.valid_to > moment


def _says_the_same(fact: Fact, proposal: Proposal, own: Meaning) -> bool:
    if _statement_key(fact.statement) == _statement_key(proposal.statement):
        return True
    return bool(own.predicate and own.object) and _meaning_of(fact) == own


def _adds_an_end(fact: Fact, proposal: Proposal) -> bool:
    """Return whether a proposal says until when a known fact is true."""
    return proposal.valid_to is not None and fact.valid_to is None


def _meaning_of_proposal(proposal: Proposal) -> Meaning:
    return meaning(proposal.predicate, proposal.object, ends=proposal.ends)


def _meaning_of(fact: Fact) -> Meaning:
    return meaning(fact.predicate, fact.object)


def _statement_key(text: str) -> str:
    return " ".join(text.split()).rstrip(".!").casefold()


def _object_key(text: str) -> str:
    words = [word for word in _WORD.findall(text.casefold()) if word not in _ARTICLES]
    return " ".join(words)


def _parts(text: str) -> frozenset[str]:
    """Return the parts of a place or another object: Alfama and Lisbon for `Alfama, Lisbon`."""
    return frozenset(key for part in _PART.split(text) if (key := _object_key(part)))
