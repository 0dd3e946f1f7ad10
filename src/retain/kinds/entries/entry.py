"""An entry of what an agent remembers: its record, what it may say, who is trusted, when it fades, how a prompt says it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from retain.base import canonical, clock, ids, tokens
from retain.base.errors import Invalid, TooLarge
from retain.base.masking import Mode
from retain.kinds.section import Piece, Section
from retain.text.signs import signs

EntryKind = Literal["journal", "core", "whiteboard"]
Review = Literal["accepted", "pending", "refused"]
"""Whether an entry counts; one that is pending or refused is listed, and is in no prompt, search or consolidation."""
KINDS_OF_ENTRY: tuple[EntryKind, ...] = ("journal", "core", "whiteboard")
JOURNAL_WINDOW = timedelta(days=7)
"""How long a journal entry reaches the prompt. Nothing removes it afterwards: it only is no longer said."""
WINDOW = JOURNAL_WINDOW // timedelta(microseconds=1)
MOST_CHARACTERS = 10_000
MAIN_BOARD = "main"
FAR = 2**62
"""Later than any moment."""
TRUST = ("admin", "user", "agent", "import", "tool")
"""Who writes, the most trusted first: an import was at least chosen by somebody, what a tool brings is anybody's."""
PEOPLE = ("admin", "user")
"""Those of them who can review what the others wrote."""


@dataclass(frozen=True)
class Entry:
    """Something an agent remembers; `expired` says whether a journal entry had faded when it was read.

    Only what is accepted counts. `signs` say what to look at twice in one that is not; they are no proof of anything.
    """

    id: str
    agent: str
    kind: EntryKind
    board: str | None
    content: str
    user: str | None
    source: str
    version: int
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    expired: bool
    review: Review = "accepted"
    signs: list[str] = field(default_factory=list)


def content(value: str, field: str = "content", secrets: Mode = "off") -> str:
    """Content as it is kept: stripped, not blank, and at most 10,000 characters."""
    if not isinstance(value, str):
        raise Invalid(field=field, problem=f"must be text, not {type(value).__name__}")
    stripped = value.strip()
    if len(stripped) > MOST_CHARACTERS:
        raise TooLarge(field=field, size=len(stripped), unit="characters", limit=MOST_CHARACTERS)
    kept = canonical.text(stripped, field, 4 * MOST_CHARACTERS, secrets)
    if not any(
        letter.isprintable() and not letter.isspace() for letter in kept
    ):  # spaces of no width are blank too
        raise Invalid(field=field, problem="must not be blank")
    return kept


def line(content: str, before: str = "") -> str:
    """An entry as one item of a list.

    The lines after its first are indented, so that none of them can pass for a heading, for another entry, or for
    the beginning of somebody else's turn.
    """
    return f"- {indented(before + content)}"


def indented(text: str) -> str:
    """Text whose lines after the first begin with two spaces; whatever breaks a line anywhere breaks one here."""
    if text.isprintable():
        return text  # nothing in it breaks a line
    first, *rest = text.splitlines()
    return "\n".join([first, *[f"  {part}" if part.strip() else "" for part in rest]])


def least_trusted(sources: Iterable[str]) -> str:
    """Of several who wrote, the one who is trusted least: what is made of their words is no better than that."""
    places = {name: place for place, name in enumerate(TRUST)}
    return max(sources, key=lambda name: places.get(name, len(TRUST)))


def awaits(review: str, sources: Sequence[str], kind: str) -> Review:
    """Whether what these wrote waits for a person, by the setting `review`; somebody among them may not be trusted."""
    words = review.split(",")
    return (
        "pending"
        if any(name in words for name in sources) and (kind != "journal" or kind in words)
        else "accepted"
    )


def looked_at(entry: Entry) -> Entry:
    """An entry with what whoever reviews it should look at twice; what counts already is not searched for it.

    It takes some milliseconds: not to be done where others wait for a transaction.
    """
    return entry if entry.review == "accepted" else replace(entry, signs=signs(entry.content))


def cost(content: str) -> int:
    """About how many tokens the content takes in a prompt."""
    return tokens.estimate(line(content))


def day(micros: int) -> str:
    """The day of a moment, in UTC, as YYYY-MM-DD."""
    return _day(micros // clock.DAY)


@functools.lru_cache(1024)
def _day(days: int) -> str:
    return clock.to_datetime(days * clock.DAY).date().isoformat()


def values(
    id: str,
    agent: str,
    kind: EntryKind,
    board: str | None,
    content: str,
    user: str | None,
    source: str,
    review: Review = "accepted",
) -> dict[str, Any]:
    """A new entry as the values of its row, but for its times."""
    return {
        "id": id,
        "agent": agent,
        "kind": kind,
        "board": board,
        "content": content,
        "tokens": cost(content),
        "user": user,
        "source": source,
        "review": review,
    }


def everything(
    agent: str | None,
    user: str | None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> dict[str, Any]:
    """What a list is asked for, before any filter."""
    return {
        "agent": agent,
        "user": user,
        "review": None,
        "since": 0 if since is None else clock.from_datetime(since, "since"),
        "until": FAR if until is None else clock.from_datetime(until, "until"),
        "at": FAR,
        "id": "",
        "least": 0,
        "most": 1,
    }


def imported(
    given: Mapping[str, Any],
    field: str,
    agent: str,
    user: str | None,
    source: str,
    review: str,
    secrets: Mode = "off",
) -> dict[str, Any]:
    """An entry from elsewhere, checked, as the values of its row; a source is believed if it is trusted less than imports.

    Neither is that it was accepted, where its source, imports or whoever brings it in would wait; that it was not always is.
    """
    if not isinstance(given, Mapping):
        raise Invalid(field=field, problem=f"must be an object, not {type(given).__name__}")
    names = [known.name for known in fields(Entry)]
    if unknown := [name for name in given if name not in names]:
        raise Invalid(
            field=f"{field}.{unknown[0]}",
            problem=f"is no field of an entry; it has {', '.join(names)}",
        )
    kind = given.get("kind", "journal")
    if kind not in ("journal", "core"):
        raise Invalid(field=f"{field}.kind", problem=f"must be journal or core, not {kind!r}")
    id = canonical.name(given["id"], f"{field}.id", secrets) if "id" in given else ids.uuid7()
    whose = (
        user
        if user is not None or given.get("user") is None
        else canonical.key(given["user"], f"{field}.user")
    )
    said = content(given.get("content", ""), f"{field}.content", secrets)
    state = given.get("review", "accepted")
    if state not in get_args(Review):
        raise Invalid(
            field=f"{field}.review",
            problem=f"must be one of {', '.join(get_args(Review))}, not {state!r}",
        )
    least = least_trusted(
        ("import", source, *[name for name in TRUST if name == given.get("source")])
    )
    if state == "accepted":
        state = awaits(review, ("import", source, least), kind)
    row = values(id, agent, kind, None, said, whose, least, state)
    return {
        **row,
        **{
            name: _moment(given.get(name), f"{field}.{name}")
            for name in ("created_at", "updated_at")
        },
    }


def _moment(given: Any, field: str) -> int | None:
    """A time out of a record, or out of its JSON."""
    if given is None:
        return None
    try:
        moment = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise Invalid(
            field=field, problem=f"must be a moment like 2026-01-31T12:00:00Z, not {given!r}"
        ) from None
    return clock.from_datetime(moment, field)


def private_section(core: Sequence[Sequence[Any]], journal: Sequence[Sequence[Any]]) -> Section:
    """An agent's private memory: rows of id, agent, content, tokens, time, the oldest first."""
    pieces = [
        Piece(f"entries {id}", line(content), tokens, "a core memory", 1 + place / len(core))
        for place, (id, _, content, tokens, _) in enumerate(core)
    ]
    permanent = {piece.source for piece in pieces}
    pieces += [
        Piece(
            f"entries {id}",
            line(content, f"[{day(at)}] "),
            tokens + _DATE,
            "a journal entry of the last week",
            place / len(journal),
        )
        for place, (id, _, content, tokens, at) in enumerate(journal)
    ]

    def write(kept: Sequence[Piece]) -> str:
        parts = [
            (
                "## Core Memories (permanent)",
                [piece.text for piece in kept if piece.source in permanent],
            ),
            (
                "## Recent Journal Entries",
                [piece.text for piece in kept if piece.source not in permanent],
            ),
        ]
        return _written("# Your Private Memory", parts)

    return Section("private", pieces, write)


def shared_section(rows: Sequence[Sequence[Any]]) -> Section:
    """The boards that an agent shares: rows of id, author, content, tokens, time, board, the oldest first."""
    pieces = [
        Piece(
            f"entries {id}",
            line(content, f"[{day(at)}] {author}: "),
            tokens + _DATE + cost(author),
            f"a line on the whiteboard {board}",
            place / len(rows),
        )
        for place, (id, author, content, tokens, at, board) in enumerate(rows)
    ]
    places = {f"entries {row[0]}": str(row[5]) for row in rows}

    def write(kept: Sequence[Piece]) -> str:
        names = sorted({places[piece.source] for piece in kept})
        parts = [
            (f"## {name}", [piece.text for piece in kept if places[piece.source] == name])
            for name in names
        ]
        return _written("# Shared Whiteboards", parts)

    return Section("whiteboard", pieces, write)


def _written(title: str, parts: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Lists under their headings; a list without items has no heading, and no lists have no title."""
    written = ["\n".join([heading, *items]) for heading, items in parts if items]
    return "\n\n".join([title, *written]) if written else ""


_DATE = tokens.estimate("[2026-01-31] ")
