"""The shape of a sentence that the extractor reads, in any language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.fact import Topic

Kind = Literal["verb", "noun", "plan", "stay", "lasting"]


@dataclass(frozen=True)
class Form:
    """A way to say a fact. Its pattern reads the words that follow the subject.

    The group `object` of the pattern is the object of the fact. A `verb` makes the statement
    "The user lives in Lisbon.", a `noun` "The user's name is Ana.". A `plan` is a verb that counts
    only with a time in the future, a `stay` only with an end, and a `lasting` only with a beginning.
    """

    predicate: str  # "lives in"; {kind} stands for the words of the group `kind`
    topic: Topic
    pattern: LazyPattern
    kind: Kind = "verb"
    exclusive: bool = False  # one object at a time
    ends: bool = False  # the words say that it is over: "quit"
    keeps_times: bool = False  # the object has a date, so the times are not cut from the sentence
    is_free: bool = False  # the object is any words, so it is checked with more care
    allows_article: bool = False  # an object of free words may begin with "a" or "the"
    is_absolute: bool = False  # with a condition ("not after noon") it would say something else
    is_introduction: bool = False  # "I'm Ana", read only where people introduce themselves
    only_me: bool = False  # read of the speaker only
    is_event: bool = False  # "in May" says when it began: "I moved", not "I am training"
    statement: str = ""  # "{subject} is {object} years old.", where the predicate makes no sentence


def form(predicate: str, topic: Topic, pattern: str, **options: object) -> Form:
    """Return a form; the pattern ignores case except in the parts that name a letter's case."""
    return Form(predicate, topic, LazyPattern(pattern), **options)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Language:
    """The tables of one language."""

    greeting: LazyPattern  # after it, "I'm Ana" is a name
    hint: LazyPattern  # a word that only this language has
    spellings: tuple[tuple[LazyPattern, str], ...]  # contractions and their long forms
    split: LazyPattern  # what stands between two clauses
    lead: LazyPattern  # words before the subject that change nothing: "by the way", "since"
    subject: LazyPattern  # groups: me, my, relation, name, plural
    i: str  # "I"
    i_am: str  # "I am"
    inverted: LazyPattern | None  # a verb before its subject; groups: verb, subject
    verb_last: LazyPattern | None  # a verb at the end; groups: subject, middle, verb
    adverbs: LazyPattern  # "currently", after the subject or its auxiliary verb
    implied_subject: LazyPattern  # a clause that takes its subject from the one before: "work as"
    implied_be: LazyPattern  # a clause that also takes its verb from there: "a nurse", "living in"
    as_role: LazyPattern  # a role of the speaker: "as a nurse, I …"
    relative: LazyPattern  # a clause about the name before it: "who is 25"
    new_clause: LazyPattern  # after a comma, the beginning of a clause and not of another object
    open_question: LazyPattern  # how a question begins
    # These three read lower-case text, which is three times as fast as ignoring case.
    imagined: LazyPattern  # from here on, the sentence is imagined or reported: "if", "she said"
    doubted: LazyPattern  # a clause with one of these words states nothing
    fiction: LazyPattern  # a message with one of these words is a play, a joke or a text to write
    ended: tuple[tuple[LazyPattern, str], ...]  # "no longer live in" and the words without it
    verb_forms: tuple[Form, ...]
    noun_forms: tuple[Form, ...]
    named: tuple[LazyPattern, ...]  # "my sister Clara"; groups: relation, name
    owned_name: LazyPattern  # "have a dog named Max"; groups: relation, name
    is_relation: LazyPattern  # "Clara is my sister"; groups: name, relation
    call_me: LazyPattern  # "call me Max"; group: name
    is_favourite: LazyPattern  # "Sushi is my favourite food"; groups: object, kind
    english: dict[str, str]  # words of this language that the statements have in English
    remember: LazyPattern  # "remember that"; group: object
    instruction: LazyPattern  # "from now on"; group: object
    correction: LazyPattern  # "it's Porto, not Lisbon"; groups: new, old
    restriction: LazyPattern  # a word that limits what is said: "after", "when"
    object_end: LazyPattern  # where an object of free words ends
    next_verb: LazyPattern  # after the object of a thing that was done, "and" what was done next
    bad_object: LazyPattern  # a word that no object of free words has
    article: LazyPattern  # "a", "the"
    bad_start: LazyPattern  # a word with which no object of free words begins
    own_words: tuple[tuple[LazyPattern, str], ...]  # "my" is "their" in a statement


def any_of(words: str) -> str:
    """Return a pattern for one of several words; `_` in a word stands for a space or a hyphen."""
    names = sorted(words.split(), key=len, reverse=True)
    return "(?:" + "|".join(re.escape(name).replace("_", "[ -]") for name in names) + ")"
