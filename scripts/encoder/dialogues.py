"""Generate dialogues over many sessions from templates, with questions and exact evidence.

Two friends talk, or a user and an assistant, in English or German. The facts come from `facts.txt`,
the values of their slots from `values.txt`, and the sentences around them from `smalltalk.txt`. The
same seed always generates the same dialogues. All sentences were written for this project.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from encoder.conversations import Conversation, Question, Turn

Language = Literal["en", "de"]
Person = Literal["first", "third", "second"]
Value = tuple[str, str]  # in English and in German; German nouns may carry their gender: "f:Katze"

FOLDER = Path(__file__).parent
QUESTION_CODES = "QWM"
# Slots that get a new value in a correction, even if its sentence does not name the old value.
CHANGING_SLOTS = {"ago", "soon", "clock", "many", "price"}
PERSONS: dict[Person, int] = {"first": 0, "third": 1, "second": 2}
SLOT = re.compile(r"\{([^}]*)\}")

# First, third (NAME is the person) and second person.
PRONOUNS: dict[Language, dict[str, tuple[str, str, str]]] = {
    "en": {
        "I": ("I", "NAME", "you"),
        "me": ("me", "NAME", "you"),
        "my": ("my", "NAME's", "your"),
        "do": ("do", "does", "do"),
        "have": ("have", "has", "have"),
        "had": ("had", "had", "had"),
        "am": ("am", "is", "are"),
        "was": ("was", "was", "were"),
    },
    "de": {
        "ich": ("ich", "NAME", "du"),
        "mich": ("mich", "NAME", "dich"),
        "mir": ("mir", "NAME", "dir"),
        "habe": ("habe", "hat", "hast"),
        "bin": ("bin", "ist", "bist"),
        "war": ("war", "war", "warst"),
        **{
            f"mein{ending}": (f"mein{ending}", "NAMEs", f"dein{ending}")
            for ending in ("", "e", "en", "em", "er", "es")
        },
    },
}
# Endings of "mein" by the gender of the noun.
NOMINATIVE = {"f": "e", "m": "", "n": "", "p": "e"}
DATIVE = {"f": "er", "m": "em", "n": "em", "p": "en"}
ACCUSATIVE = {"f": "e", "m": "en", "n": "", "p": "e"}
CASES = {"meine.rel": NOMINATIVE, "meiner.rel": DATIVE, "meine.rel.acc": ACCUSATIVE}


@dataclass(frozen=True)
class Fact:
    """A kind of fact with its sentences by code: upper case for English, lower case for German."""

    name: str
    by_assistant: bool
    lines: dict[str, tuple[str, ...]]

    def sentences(self, code: str, language: Language) -> tuple[str, ...]:
        """Return the sentences with a code."""
        return self.lines.get(code if language == "en" else code.lower(), ())


@dataclass
class Telling:
    """One place in a dialogue where a fact is told."""

    fact: Fact
    teller: int
    slots: dict[str, Value]
    session: int
    former: dict[str, Value] | None = None  # the values that this telling corrects
    question: str = ""  # in the second person, asked in the same or an earlier session
    turns: list[int] = field(default_factory=list)
    detail_turns: list[int] = field(default_factory=list)
    distractors: list[int] = field(default_factory=list)


def write_dialogues(count: int, seed: int) -> list[Conversation]:
    """Write dialogues: every third in German, two in five between a user and an assistant."""
    return [_Writer(index, seed).write() for index in range(count)]


@cache
def facts() -> tuple[Fact, ...]:
    """Return the kinds of facts in `facts.txt`."""
    kinds: list[Fact] = []
    name = ""
    by_assistant = False
    lines: defaultdict[str, list[str]] = defaultdict(list)

    def finish() -> None:
        if name:
            table = {code: tuple(sentences) for code, sentences in lines.items()}
            kinds.append(Fact(name, by_assistant, table))

    for line in _lines("facts.txt"):
        if line.startswith("@ "):
            finish()
            name, _, kind = line[2:].partition(" ")
            by_assistant = kind == "assistant"
            lines = defaultdict(list)
        else:
            lines[line[0]].append(line[2:])
    finish()
    return tuple(kinds)


@cache
def slot_values() -> dict[str, tuple[Value, ...]]:
    """Return the values of each slot in both languages."""
    table: dict[str, tuple[Value, ...]] = {}
    for line in _lines("values.txt"):
        slot, _, values = line.partition(": ")
        pairs = [value.partition("=") for value in values.split(", ")]
        table[slot] = tuple((english, german or english) for english, _, german in pairs)
    return table


@cache
def small_talk() -> dict[str, tuple[str, ...]]:
    """Return the sentences around the facts by code."""
    table: defaultdict[str, list[str]] = defaultdict(list)
    for line in _lines("smalltalk.txt"):
        table[line[0]].append(line[2:])
    return {code: tuple(sentences) for code, sentences in table.items()}


def render(
    sentence: str,
    language: Language,
    slots: dict[str, Value],
    *,
    former: dict[str, Value] | None = None,
    person: Person = "first",
    name: str = "",
) -> str:
    """Fill in the slots of a sentence and the words that depend on the grammatical person."""
    column = PERSONS[person]
    side = 0 if language == "en" else 1

    def fill(match: re.Match[str]) -> str:
        key = match[1]
        if "|" in key:
            return key.split("|")[column]
        if key in PRONOUNS[language]:
            word = PRONOUNS[language][key][column]
            return _with_name(word, name)
        if key in CASES:
            gender, noun = slots["rel"][1].split(":")
            determiner = ("mein", _with_name("NAMEs", name), "dein")[column]
            ending = "" if person == "third" else CASES[key][gender]
            return f"{determiner}{ending} {noun}"
        if key == "she":
            return "she" if slots["rel"][1].startswith("f:") else "he"
        if key.startswith("old:"):
            assert former is not None
            return _bare(former[key[4:]][side])
        return _bare(slots[key][side])

    text = SLOT.sub(fill, sentence)
    if language == "en":
        text = re.sub(r"\b([Aa]) (?=[aeiouAEIO])", r"\1n ", text)
    return text[:1].upper() + text[1:]


def slot_names(sentence: str) -> set[str]:
    """Return the slots of a sentence, without the words that depend on the person."""
    names: set[str] = set()
    for key in SLOT.findall(sentence):
        if key in CASES or key == "she":
            names.add("rel")
        elif key.removeprefix("old:") in slot_values():
            names.add(key.removeprefix("old:"))
    return names


def _lines(file: str) -> list[str]:
    text = (FOLDER / file).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _with_name(word: str, name: str) -> str:
    if word == "NAMEs":
        return f"{name}'" if name.endswith(("s", "x", "z")) else f"{name}s"
    return word.replace("NAME", name)


def _bare(value: str) -> str:
    return value[2:] if value[1:2] == ":" else value


class _Writer:
    """Writes one dialogue."""

    def __init__(self, index: int, seed: int) -> None:
        self.rng = random.Random(f"{seed}/{index}")
        self.language: Language = "de" if index % 3 == 2 else "en"
        self.with_assistant = index % 5 in {1, 3}
        kind = "assistant" if self.with_assistant else "friends"
        self.conversation = Conversation(f"grammar/{index}-{kind}-{self.language}", "grammar")
        self.conversation.named = not self.with_assistant or self.rng.random() < 0.5
        self.names = self._names()
        self.session = 0
        self.tellings: list[Telling] = []

    def write(self) -> Conversation:
        """Plan the facts, write the sessions, then the questions."""
        sessions = self.rng.randint(9, 16)
        self._plan(sessions)
        for session in range(sessions):
            self.session = session
            self._write_session()
        self._write_questions()
        return self.conversation

    def _names(self) -> tuple[str, str]:
        people = [english for key in ("woman", "man") for english, _ in slot_values()[key]]
        first, second = self.rng.sample(people, 2)
        if not self.with_assistant:
            return first, second
        return (first, "Assistant") if self.conversation.named else ("user", "assistant")

    # Planning

    def _plan(self, sessions: int) -> None:
        for fact in self.rng.sample(facts(), len(facts())):
            if len(self.tellings) >= sessions * 4:
                break
            if fact.by_assistant and not self.with_assistant:
                continue
            if not fact.sentences("S", self.language) or not fact.sentences("Q", self.language):
                continue
            teller = 0 if self.with_assistant else self.rng.randrange(2)
            self._plan_fact(fact, teller, sessions)

    def _plan_fact(self, fact: Fact, teller: int, sessions: int) -> None:
        session = self.rng.randrange(sessions)
        telling = Telling(fact, teller, self._draw(fact), session)
        self.tellings.append(telling)
        later = range(session + 1, sessions)
        if not later:
            return
        if fact.sentences("N", self.language) and self.rng.random() < 0.4:
            sentence = self.rng.choice(fact.sentences("N", self.language))
            changed = {key[4:] for key in SLOT.findall(sentence) if key.startswith("old:")}
            values = self._draw(fact, telling.slots, changed | CHANGING_SLOTS)
            correction = Telling(fact, teller, values, self.rng.choice(later), telling.slots)
            self.tellings.append(correction)
        elif fact.sentences("M", self.language) and self.rng.random() < 0.6:
            for _ in range(self.rng.randint(1, 2)):
                more = Telling(fact, teller, self._draw(fact), self.rng.choice(later))
                self.tellings.append(more)
        elif "rel" in telling.slots and not self.with_assistant and self.rng.random() < 0.4:
            other = Telling(fact, 1 - teller, self._draw(fact), self.rng.choice(later))
            self.tellings.append(other)

    def _draw(
        self, fact: Fact, base: dict[str, Value] | None = None, changed: set[str] | None = None
    ) -> dict[str, Value]:
        """Draw a value for each slot; with `base`, only for the changed ones."""
        slots = dict(base or {})
        names = sorted(set().union(*(slot_names(s) for ls in fact.lines.values() for s in ls)))
        for name in names:
            if base is not None and name not in (changed or set()):
                continue
            options = [value for value in slot_values()[name] if value != slots.get(name)]
            slots[name] = self.rng.choice(options)
        return slots

    # Sessions

    def _write_session(self) -> None:
        due = [telling for telling in self.tellings if telling.session == self.session]
        self.rng.shuffle(due)
        if not self.with_assistant:
            self._chat("G", self.rng.randrange(2))
        for telling in self.tellings:
            ahead = telling.session - self.session
            chance = 0.25 if ahead == 0 else 0.1 if 0 < ahead < 4 else 0.0
            if not telling.fact.by_assistant and self.rng.random() < chance:
                self._ask_too_early(telling)
        for telling in due:
            if self.rng.random() < 0.45:
                self._small_talk()
            self._tell(telling)
        if self.rng.random() < 0.5:
            self._small_talk()

    def _say(self, speaker: int, text: str) -> int:
        turns = self.conversation.turns
        turns.append(Turn(self.names[speaker], text, self.session))
        return len(turns) - 1

    def _pick(self, code: str) -> str:
        sentences = small_talk()[code if self.language == "en" else code.lower()]
        return self.rng.choice(sentences)

    def _chat(self, code: str, speaker: int) -> None:
        self._say(speaker, self._pick(code).replace("{other}", self.names[1 - speaker]))

    def _small_talk(self) -> None:
        if self.with_assistant:
            self._say(0, self._pick("X"))
            self._say(1, self._advice())
            return
        speaker = self.rng.randrange(2)
        remark, answer = self._pick("C").split(" / ")
        self._say(speaker, remark)
        self._say(1 - speaker, answer)

    def _advice(self) -> str:
        code = "Y" if self.language == "en" else "y"
        return " ".join(self.rng.sample(small_talk()[code], self.rng.randint(2, 6)))

    def _question(self, telling: Telling, code: str, person: Person) -> str:
        sentence = self.rng.choice(telling.fact.sentences(code, self.language))
        name = self.names[telling.teller]
        return render(sentence, self.language, telling.slots, person=person, name=name)

    def _ask_too_early(self, telling: Telling) -> None:
        """Ask for a fact before it is told. Neither the question nor the reply contains the answer."""
        if self.with_assistant:
            asked = self._say(0, self._question(telling, "Q", "first"))
            answered = self._say(1, self._pick("Z"))
        else:
            asked = self._say(1 - telling.teller, self._question(telling, "Q", "second"))
            answered = self._say(telling.teller, self._pick("D"))
        telling.distractors += [asked, answered]
        if self.rng.random() < 0.6:
            self._small_talk()

    def _tell(self, telling: Telling) -> None:
        fact = telling.fact
        if fact.by_assistant:
            request = self.rng.choice(fact.sentences("U", self.language))
            asked = self._say(0, render(request, self.language, telling.slots))
            telling.distractors.append(asked)
            advice = self._statement(telling, "S")
            text = f"{advice} {self._advice()}" if self.rng.random() < 0.7 else advice
            telling.turns.append(self._say(1, text))
            return
        if not self.with_assistant and self.rng.random() < 0.35:
            question = self._question(telling, "Q", "second")
            telling.distractors.append(self._say(1 - telling.teller, question))
        telling.turns.append(self._say(telling.teller, self._statement_turn(telling)))
        self._react(telling)
        has_detail = fact.sentences("F", self.language) and fact.sentences("A", self.language)
        if has_detail and telling.former is None and self.rng.random() < 0.8:
            detail = self._statement(telling, "F")
            telling.detail_turns.append(self._say(telling.teller, detail))
            self._react(telling)

    def _statement(self, telling: Telling, code: str) -> str:
        sentence = self.rng.choice(telling.fact.sentences(code, self.language))
        return render(sentence, self.language, telling.slots, former=telling.former)

    def _statement_turn(self, telling: Telling) -> str:
        text = self._statement(telling, "S" if telling.former is None else "N")
        if self.with_assistant and self.rng.random() < 0.6:
            request = self._pick("X")
            if self.rng.random() < 0.6:
                return f"{request} {_joined(self._pick('B'), text)}"
            return f"{text} {request}"
        if self.rng.random() < 0.4:
            text = _joined(self._pick("O"), text)
        if self.rng.random() < 0.4:
            text = f"{text} {self._pick('T')}"
        return text

    def _react(self, telling: Telling) -> None:
        if self.with_assistant:
            self._say(1, self._advice())
        else:
            self._say(1 - telling.teller, self._pick("R"))

    # Questions

    def _write_questions(self) -> None:
        written: set[str] = set()
        for telling in self.tellings:
            for code in QUESTION_CODES:
                self._write_question(telling, code, written)
            if telling.detail_turns:
                self._write_question(telling, "A", written)

    def _write_question(self, telling: Telling, code: str, written: set[str]) -> None:
        language = self.language
        if self.rng.random() < 0.08:
            language = "de" if language == "en" else "en"
        sentences = telling.fact.sentences(code, language)
        if not sentences:
            return
        for sentence in self.rng.sample(sentences, min(2 if code == "Q" else 1, len(sentences))):
            evidence, distractors = self._evidence(telling, code, slot_names(sentence))
            if code == "M" and len(evidence) < 2:
                continue
            text = self._question_text(telling, sentence, language)
            if evidence and text not in written:
                written.add(text)
                question = Question(text, tuple(evidence), tuple(distractors))
                self.conversation.questions.append(question)

    def _evidence(
        self, telling: Telling, code: str, names: set[str]
    ) -> tuple[list[int], list[int]]:
        """Return the turns that answer the question, and the turns that only ask it."""
        evidence: set[int] = set()
        distractors: set[int] = set()
        for other in self.tellings:
            same = other.fact is telling.fact and other.teller == telling.teller
            if not same or any(other.slots[name] != telling.slots[name] for name in names):
                continue
            evidence.update(other.detail_turns if code == "A" else other.turns)
            distractors.update(other.distractors)
        return sorted(evidence), sorted(distractors)

    def _question_text(self, telling: Telling, sentence: str, language: Language) -> str:
        person: Person = "third" if self.conversation.named else "first"
        name = self.names[telling.teller]
        text = render(sentence, language, telling.slots, person=person, name=name)
        if self.conversation.named and telling.fact.by_assistant:
            text = _name_assistant(text)
        if person == "first" and self.rng.random() < 0.3:
            text = text[0].lower() + text[1:].rstrip("?")
        return text


def _joined(opening: str, sentence: str) -> str:
    """Put an opening before a sentence, which continues in lower case after a comma."""
    first = sentence.split(" ", 1)[0]
    if opening.endswith(",") and first in {"My", "We", "The", "There's", "They", "It's", "Every"}:
        sentence = sentence[0].lower() + sentence[1:]
    return f"{opening} {sentence}"


def _name_assistant(question: str) -> str:
    """Rewrite a question to the assistant as a question about the assistant."""
    replacements = [
        (" you ", " the assistant "),
        ("your advice", "the assistant's advice"),
        ("hast du", "hat der Assistent"),
        ("hattest du", "hatte der Assistent"),
        ("laut dir", "laut dem Assistenten"),
    ]
    for old, new in replacements:
        question = question.replace(old, new)
    return question
