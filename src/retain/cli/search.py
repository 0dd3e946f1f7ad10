"""`retain search`: what is remembered that answers a question, as a person reads it, with why each is there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retain.api.rendering import as_json, plain
from retain.api.table import width, wrapped
from retain.base import canonical, tokens
from retain.base.clock import parse_time
from retain.cli.command import Arguments, open_memory, scope_of
from retain.jobs.embed import lag
from retain.kinds.finding import LIKELY, SEARCHED, SearchResults
from retain.search import snippet, words
from retain.search.query import Hit

ABOUT = "Find what is remembered that answers a question, by words and by meaning; any text is a question."
EXAMPLE = """retain search "where does Ada's sister live"
  retain search "night train" --kind messages --session trip --limit 3 --why
  retain search ECONNREFUSED --kind refs --kind knowledge --since 2026-01-31 --json"""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "query": {"metavar": "QUERY", "help": "the question, or words to look for"},
    "--kind": {
        "metavar": "KIND",
        "action": "append",
        "choices": SEARCHED,
        "help": f"only this kind, and others where it is given again: {', '.join(SEARCHED)}",
    },
    "--session": {"metavar": "ID", "help": "only what belongs to this session"},
    "--since": {
        "metavar": "WHEN",
        "help": "from this day on (2026-01-31, as it began here), or this moment (with its zone)",
    },
    "--until": {"metavar": "WHEN", "help": "before this day or moment"},
    "--limit": {
        "metavar": "N",
        "type": int,
        "default": 10,
        "help": "the most to show (default: 10)",
    },
    "--min-score": {
        "metavar": "P",
        "type": float,
        "default": LIKELY,
        "help": f"leave out what is less likely wanted than this, from 0 to 1 (default: {LIKELY})",
    },
    "--why": {
        "action": "store_true",
        "help": "what each score is made of, and what was said before and after",
    },
}
_INDENT = 4
_LINES = 3
_WIDEST = 100
_NARROWEST = 40
_SHORT = 60
_STRONGEST = 6
_BOLD, _DIM, _END = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def search(arguments: Arguments) -> int:
    """Search, and show what was found."""
    with open_memory(arguments) as memory:
        scope = scope_of(arguments, memory)
        found = scope.search(
            arguments.query,
            kinds=arguments.kind,
            session=arguments.session,
            since=parse_time(arguments.since, "since", days=True),
            until=parse_time(arguments.until, "until", days=True),
            limit=arguments.limit,
            min_score=arguments.min_score,
        )
        waiting = (
            0
            if arguments.json or not _ran(found, "vectors")
            else lag(memory.services, scope.owner.tenant).pending
        )
    if arguments.json:
        print(json.dumps(as_json(found), ensure_ascii=False))
        return 0
    terminal = sys.stdout.isatty()
    room = min(shutil.get_terminal_size().columns, _WIDEST) if terminal else _WIDEST
    plainly = not terminal or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    style: Style = (lambda text, _: text) if plainly else _styled
    for line in _shown(found, arguments, max(room, _NARROWEST), style):
        print(line)
    for line in wrapped(plain(_legs(found, waiting)), max(room, _NARROWEST)):
        print(style(line, _DIM))
    return 0


Style = Callable[[str, str], str]


def _styled(text: str, style: str) -> str:
    return f"{style}{text}{_END}" if text else text


def _shown(found: SearchResults, arguments: Arguments, room: int, style: Style) -> Iterator[str]:
    """The lines of each hit, or what to do where there is none."""
    looked = words.query_words(arguments.query)
    for number, hit in enumerate(found, 1):
        yield from _hit(number, hit, arguments, looked, room, style)
        yield ""
    if not found.hits:
        yield from wrapped(_nothing(arguments), room)


def _hit(
    number: int, hit: Hit, arguments: Arguments, looked: Sequence[str], room: int, style: Style
) -> Iterator[str]:
    """One hit: what and whose it is, the part that matters, how to open it."""
    when = hit.at.astimezone().strftime("%Y-%m-%d %H:%M")
    owner = hit.author or hit.role
    head = "  ".join(
        _line(part) for part in (f"{number:>2}", hit.kind, when, owner, _titled(hit)) if part
    )
    score = f"{hit.score:.2f}"
    space = room - width(score) - 2
    head = head if width(head) <= space else wrapped(head, space - 1)[0] + "…"
    yield style(head, _BOLD) + " " * max(room - width(head) - width(score), 2) + style(score, _DIM)
    yield from (" " * _INDENT + line for line in _text(hit.text, looked, room - _INDENT, style))
    yield " " * _INDENT + style(opening(hit, arguments.tenant, arguments.user), _DIM)
    if arguments.why:
        yield from (" " * _INDENT + line for line in _why(hit, room - _INDENT))


def _text(text: str, looked: Sequence[str], room: int, style: Style) -> Iterator[str]:
    """The part of a text that the question is about, with its words made visible."""
    part = plain(" ".join(snippet.excerpt(text, looked, _LINES * room - room // 3).split()))
    for line in wrapped(part, room):
        marked, done = [], 0
        for start, end in snippet.find_matches(line, looked):
            marked += [line[done:start], style(line[start:end], _BOLD)]
            done = end
        yield "".join([*marked, line[done:]])


def _why(hit: Hit, room: int) -> Iterator[str]:
    """What the score is made of, which legs found it, and what stands around it."""
    parts = sorted(hit.why.items(), key=lambda part: -abs(part[1]))[:_STRONGEST]
    told = " · ".join(f"{name} {value:+.2f}" for name, value in parts if abs(value) >= 0.005)
    yield from wrapped(f"why: {told or 'nothing stands out'}", room)
    yield f"found by: {' and '.join(hit.legs) or 'being next to what was found'}"
    yield from (
        f"{name}: {_short(text)}"
        for name, text in (("before", hit.before), ("after", hit.after))
        if text
    )


def opening(hit: Hit, tenant: str | None = None, user: str | None = None) -> str:
    """The command that opens what was found by somebody, or by whoever the settings name."""
    first, second = json.loads(hit.id) if hit.kind in ("notes", "state") else (hit.id, "")
    match hit.kind:
        case "messages":
            command = ["messages", "get", hit.id, str(hit.seq)]
        case "notes":
            command = ["notes", "read", "--user", first, "--agent", second]
        case "state":
            area, _, whose = first.partition(":")
            command = [
                "state",
                "get",
                second,
                "--area",
                *(["user", "--user", whose] if area == "user" else [first]),
            ]
        case "items":
            area, *place, key = json.loads(hit.id)
            joined = ",".join(place)
            listed = (
                joined
                if canonical.listed(joined) == place
                else json.dumps(place, ensure_ascii=False)
            )
            command = [
                "items",
                "get",
                listed,
                key,
                *([] if area == "tenant" else ["--user", area.partition(":")[2]]),
            ]
        case "knowledge":
            command = ["knowledge", "passages", hit.id, "--seq", str(hit.seq)]
        case "graph":  # it has no commands of its own
            command = ["search", hit.title, "--kind", "graph", *(["--user", user] if user else [])]
        case _:
            command = [hit.kind, "get", hit.id]
    return plain(shlex.join(["retain", *command, *(["--tenant", tenant] if tenant else [])]))


def _titled(hit: Hit) -> str:
    if hit.kind == "messages":
        return f"in {hit.id}, {hit.seq}"
    return hit.title


def _nothing(arguments: Arguments) -> str:
    narrowed = [
        f"--{name}"
        for name in ("kind", "session", "since", "until", "user", "agent")
        if getattr(arguments, name)
    ]
    where = ", ".join(arguments.kind or SEARCHED)
    what = "other words" + (f", or without {' and '.join(narrowed)}" if narrowed else "")
    return f"Nothing was found in {where}. Try {what}."


def _ran(found: SearchResults, leg: str) -> bool:
    return found.legs[leg].startswith("ran")


def _legs(found: SearchResults, waiting: int) -> str:
    """Which legs ran; of one that did not, or not over everything, why, and what to do."""
    names = {"words": "words", "vectors": "meaning"}
    ran = [f"by {names.get(leg, leg)}" for leg in found.legs if _ran(found, leg)]
    told = [f"Searched {' and '.join(ran)}."] if ran else []
    told += [
        f"Not by {names.get(leg, leg)}: {how.rstrip('.')}."
        for leg, how in found.legs.items()
        if not _ran(found, leg)
    ]
    if waiting:
        told.append(
            f"By words alone {waiting:,} that have no vector yet: `retain jobs` gives them theirs."
        )
    return " ".join(told)


def _line(text: str) -> str:
    return plain(" ".join(text.split()))


def _short(text: str) -> str:
    line = _line(text)
    return line if len(line) <= _SHORT else line[: tokens.boundary(line, _SHORT)].rstrip() + " …"
