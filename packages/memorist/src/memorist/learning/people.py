"""Resolve phrases such as "my sister Clara" to the subject of a fact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from memorist.base.lazy_pattern import LazyPattern
from memorist.kinds.facts.fact import ABOUT_USER

_GERMAN = {
    "sister": "schwester",
    "brother": "bruder bruders",
    "mother": "mutter mama mutti",
    "father": "vater vaters papa papas",
    "wife": "frau ehefrau",
    "husband": "mann mannes ehemann gatte",
    "partner": "partner partnerin partners lebensgefährte lebensgefährtin lebensgefährten",
    "girlfriend": "freundin",
    "boyfriend": "freund freundes freunds",
    "fiancé": "verlobter verlobten",
    "fiancée": "verlobte",
    "son": "sohn sohnes sohns sohnemann",
    "daughter": "tochter",
    "grandmother": "oma großmutter grossmutter omi",
    "grandfather": "opa großvater grossvater",
    "aunt": "tante",
    "uncle": "onkel",
    "cousin": "cousine cousin kusine",
    "niece": "nichte",
    "nephew": "neffe neffen",
    "roommate": "mitbewohner mitbewohnerin",
    "colleague": "kollege kollegin kollegen arbeitskollege arbeitskollegin",
    "neighbour": "nachbar nachbarin nachbarn",
    "boss": "chef chefin",
    "mother-in-law": "schwiegermutter",
    "father-in-law": "schwiegervater",
    "sister-in-law": "schwägerin",
    "brother-in-law": "schwager",
    "parents": "eltern",
    "parents-in-law": "schwiegereltern",
    "grandparents": "großeltern grosseltern",
    "children": "kinder kindern kids",
    "child": "kind",
    "siblings": "geschwister",
    "twins": "zwillinge zwillingen",
    "granddaughter": "enkelin enkeltochter",
    "grandson": "enkel enkelsohn",
    "best friend": "beste_freundin bester_freund besten_freund besten_freundin",
    "ex": "ex",
    "dog": "hund hündin hundes hunde",
    "cat": "katze kater",
    "rabbit": "kaninchen",
    "horse": "pferd",
}
_ENGLISH = {
    "mother": "mom mum mam mama mummy mommy",
    "father": "dad daddy papa da",
    "grandmother": "gran nan nana granny grandma nanna",
    "grandfather": "grandad granddad grandpa gramps",
    "wife": "missus wifey",
    "husband": "hubby",
    "brother": "bro",
    "sister": "sis",
    "neighbour": "neighbor",
    "children": "kids",
    "child": "kid",
    "fiancé": "fiance",
    "girlfriend": "gf",
    "boyfriend": "bf",
    "colleague": "coworker co-worker",
    "boss": "manager",
    "roommate": "flatmate housemate",
}
_OTHERS = """stepmother stepfather stepson stepdaughter stepsister stepbrother uncle aunt auntie niece nephew
    cousin son daughter wife husband partner girlfriend boyfriend fiancé fiancée sister brother mother father
    parents grandparents twins twin baby toddler friend friends colleague boss landlord landlady therapist
    coach teacher doctor dentist mentor supervisor godson goddaughter godmother godfather ex ex-wife ex-husband
    ex-girlfriend ex-boyfriend dog puppy cat kitten rabbit horse pony parrot budgie hamster tortoise
    guinea_pig goldfish"""
RELATIONS: Mapping[str, str] = {
    **{word: word.replace("_", " ") for word in _OTHERS.split()},
    **{word: name for name, words in _ENGLISH.items() for word in (name, *words.split())},
    **{word: name for name, words in _GERMAN.items() for word in words.split()},
}
"""The English word for each word that says who somebody is to the user."""
_DETERMINERS = frozenset(
    ["the", "a", "an", "my", "our", "his", "her", "their", "der", "die", "das", "mein", "meine"]
)
_USER = LazyPattern(
    r"(?i)(?:i|i'm|im|me|my|myself|mine|we|us|our|ich|mich|mir|mein(?:e[rnms]?)?|wir|uns|unser(?:e[rnms]?)?|user)"
)
_PRONOUN = LazyPattern(
    r"(?i)(?:she|her|hers|he|him|his|they|them|their|it|its|she's|he's|shes|hes|they're|sie|ihr(?:e[rnms]?)?|ihm|ihn|"
    r"er|es|sein(?:e[rnms]?)?|der|die|das)"
)
_POSSESSIVE = LazyPattern(
    r"(?i)(?:my|our|mein(?:e[rnms]?)?|unser(?:e[rnms]?)?|unsr(?:e[rnms]?)?)\s+(?P<rest>.+)"
)
_GENITIVE = LazyPattern(r"(?P<whose>.+?)['’]s\s+(?P<rest>.+)")
_ADJECTIVES = LazyPattern(
    r"(?i)(?:older|younger|elder|little|big|baby|eldest|oldest|youngest|late|dear|lovely|new|old|best|twin|"
    r"middle|first|second|ältere[rnms]?|jüngere[rnms]?|kleine[rnms]?|große[rnms]?|neue[rnms]?|alte[rnms]?|"
    r"liebe[rnms]?|beste[rnms]?|älteste[rnms]?|jüngste[rnms]?)\s+(?=\S)"
)
_WORD = LazyPattern(r"[\w'’-]+")


class Subject(NamedTuple):
    """Whom a fact is about, and another name for the same: "the user's sister" for Clara."""

    name: str
    alias: str = ""


USER = Subject(ABOUT_USER)


def english_relation(word: str) -> str:
    """Return the English word for a relation, or an empty string if the word names none."""
    return RELATIONS.get(word.casefold().replace(" ", "_"), "") or RELATIONS.get(
        word.casefold(), ""
    )


def role_of(relation: str) -> str:
    """Return the label of a relation: "the user's sister"."""
    return f"the user's {relation}"


def parse_subject(words: str, last: Subject | None, names: Mapping[str, Subject]) -> Subject | None:
    """Return the subject that words of a message name; None if it is not clear.

    last:  the person mentioned most recently, to resolve "she"
    names: people whom the message names by a role: "the user's sister" is Clara
    """
    words = " ".join(words.strip(" ,.:;!?").split())
    if _USER.fullmatch(words):
        return USER
    if _PRONOUN.fullmatch(words):
        return last
    words = words.removesuffix("'s").removesuffix("’s")
    possessive = _POSSESSIVE.fullmatch(words)
    if possessive is None:
        genitive = _GENITIVE.fullmatch(words)
        if genitive:
            owner = parse_subject(genitive["whose"], last, names)
            return Subject(f"{owner.name}'s {genitive['rest']}") if owner else None
        relation = english_relation(words)
        if relation:  # "mum is in hospital"
            return names.get(role_of(relation), Subject(role_of(relation)))
        first = words.split()[0].casefold() if words else ""
        if first in _DETERMINERS:
            return Subject(words.partition(" ")[2]) if " " in words else None
        return Subject(_name(words))
    rest = possessive["rest"]
    while adjective := _ADJECTIVES.match(rest):
        rest = rest[adjective.end() :]
    relation, name = _split(rest)
    role = role_of(relation or rest)
    if name:
        return Subject(_name(name), role if relation else "")
    return names.get(role.casefold(), Subject(role))


def _split(words: str) -> tuple[str, str]:
    """Return the relation at the beginning of words, in English, and the name behind it."""
    parts = _WORD.findall(words)
    for count in (2, 1):
        relation = english_relation(" ".join(parts[:count])) if len(parts) >= count else ""
        if relation:
            return relation, " ".join(parts[count:])
    return "", ""


def _name(words: str) -> str:
    """Return a name with capitals, as it is written elsewhere."""
    if words.islower() and len(words.split()) <= 3:
        return " ".join(part[:1].upper() + part[1:] for part in words.split())
    return words
