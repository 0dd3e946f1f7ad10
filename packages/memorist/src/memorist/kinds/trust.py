"""Trust: what text of each source may do before a person has seen it.

Every record has a source, which the code that opens the scope decides and no content changes. One
table says for each kind and source whether a new text is used at once or waits for a review. All
stored text that a model reads is fenced as data, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from memorist.text.instructions import reads_like_instruction

Source = Literal["user", "agent", "tool", "import", "admin"]
"""The writer of a record: decided by the code that opens the scope, never by the content."""
Rule = Literal["active", "screened", "setting", "waits"]
"""active: used at once. screened: waits if it reads like an instruction, or if the setting `review`
names the source. setting: waits if the setting `review` says so. waits: always waits."""
TrustedKind = Literal["facts", "core", "whiteboard", "journal", "notes"]

TRUST_ORDER: tuple[Source, ...] = ("admin", "user", "agent", "import", "tool")
"""Sources, the most trusted first, to name the least trusted one of several. A person chose an import; a tool
may return any text."""
PEOPLE: tuple[Source, ...] = ("user", "admin")
"""Sources that are people. They review what waits, and only they overrule each other."""
PEOPLE_SQL = "('user', 'admin')"
FOREIGN: tuple[Source, ...] = ("tool", "import")
"""Sources whose text may come from anyone."""
NOT_PEOPLE: tuple[Source, ...] = ("agent", "import", "tool")
"""Sources whose system messages are fenced in a prompt, as data; their author names the source."""
INSTRUCTIONS = "instructions"
"""In the setting `review`: text that reads like an instruction waits for review, unless a person wrote it."""

_BY_SETTING: Mapping[Source, Rule] = {
    "user": "active",
    "admin": "active",
    "agent": "setting",
    "import": "setting",
    "tool": "setting",
}
RULES: Mapping[TrustedKind, Mapping[Source, Rule]] = {
    "facts": {
        "user": "active",
        "admin": "active",
        "agent": "screened",
        "import": "waits",
        "tool": "waits",
    },
    "core": _BY_SETTING,
    "whiteboard": _BY_SETTING,
    "journal": _BY_SETTING,  # only if the setting has the word `journal`, too
    "notes": _BY_SETTING,
}


def is_person(source: str) -> bool:
    """Return whether a source is a person."""
    return source in PEOPLE


def is_less_trusted(source: str, other: str) -> bool:
    """Return whether facts of a source do not replace those of another one.

    People are equal, so that a user's newer word replaces what a program entered for them. So are
    the sources whose text may come from anyone.
    """
    return _level(source) > _level(other)


def least_trusted(sources: Iterable[str]) -> Source:
    """Return the least trusted of several sources: the source of text derived from all of them."""
    return max(map(_known, sources), key=TRUST_ORDER.index)


def waits(kind: TrustedKind, sources: Iterable[str], setting: str, *texts: str) -> bool:
    """Return whether new text of these sources waits until a person accepts it.

    setting: the setting `review`
    """
    words = setting.split(",")
    rules = RULES[kind]
    return any(_waits(kind, rules.get(_known(source)), source, words, texts) for source in sources)


def sources_under_review(kind: TrustedKind, setting: str) -> list[str]:
    """Return the sources whose text of a kind waits for a review, whatever it says."""
    return [source for source in get_args(Source) if waits(kind, [source], setting)]


def _waits(
    kind: TrustedKind, rule: Rule | None, source: str, words: list[str], texts: tuple[str, ...]
) -> bool:
    if rule == "active":
        return False
    if rule == "screened":
        return source in words or any(map(reads_like_instruction, texts))
    if rule == "setting":
        if kind == "journal" and kind not in words:
            return False
        is_screened = INSTRUCTIONS in words
        return source in words or (is_screened and any(map(reads_like_instruction, texts)))
    return True


def _known(source: str) -> Source:
    """Return a source; an unknown one is as trusted as a tool."""
    return next((name for name in TRUST_ORDER if name == source), "tool")


def _level(source: str) -> int:
    """Return 0 for people, 1 for agents, 2 for foreign text."""
    return 0 if is_person(source) else 2 if _known(source) in FOREIGN else 1
