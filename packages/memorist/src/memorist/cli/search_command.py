"""`memorist search`: search the memory and explain each hit."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from memorist.api.rendering import as_json
from memorist.base import canonical, tokens
from memorist.base.clock import parse_time
from memorist.cli.command import Arguments, Command, open_memory, scope_of
from memorist.cli.options import PROJECT_OPTION, SCOPE
from memorist.cli.output import display_width, plain, styled, wrap
from memorist.jobs.embed import lag
from memorist.kinds import SEARCHABLE_KINDS
from memorist.kinds.scope_search import LIKELY_SCORE, SearchResults
from memorist.search import snippet, words
from memorist.search.query import Hit

INDENT = "    "
MAX_SNIPPET_LINES = 3
MAX_WIDTH = 100
MIN_WIDTH = 40
MAX_CONTEXT_CHARACTERS = 60
MAX_SCORE_PARTS = 6

_LEG_NAMES = {"words": "words", "vectors": "meaning"}


def search(arguments: Arguments) -> int:
    """Search, and print the hits."""
    with open_memory(arguments) as memory:
        scope = scope_of(arguments, memory)
        results = scope.search(
            arguments.query,
            kinds=arguments.kind,
            session=arguments.session,
            since=parse_time(arguments.since, "since", days=True),
            until=parse_time(arguments.until, "until", days=True),
            limit=arguments.limit,
            min_score=arguments.min_score,
        )
        pending = 0
        if not arguments.json and _has_run(results, "vectors"):
            pending = lag(memory.services, scope.owner.tenant).pending
    if arguments.json:
        print(json.dumps(as_json(results), ensure_ascii=False))
        return 0
    width = MAX_WIDTH
    if sys.stdout.isatty():
        width = max(min(shutil.get_terminal_size().columns, MAX_WIDTH), MIN_WIDTH)
    for line in _result_lines(results, arguments, width):
        print(line)
    for line in wrap(plain(_describe_legs(results, pending)), width):
        print(styled(line, "dim"))
    return 0


def _result_lines(results: SearchResults, arguments: Arguments, width: int) -> Iterator[str]:
    query_words = words.query_words(arguments.query)
    for number, hit in enumerate([*results.hits, *results.facts], 1):
        yield from _hit_lines(number, hit, arguments, query_words, width)
        yield ""
    if not results.hits and not results.facts:
        yield from wrap(_advice(arguments), width)


def _hit_lines(
    number: int,
    hit: Hit,
    arguments: Arguments,
    query_words: Sequence[str],
    width: int,
) -> Iterator[str]:
    """Yield the heading of a hit, the matching part of its text, and the command that opens it."""
    when = hit.at.astimezone().strftime("%Y-%m-%d %H:%M")
    title = f"in {hit.id}, {hit.seq}" if hit.kind == "messages" else hit.title
    parts = (f"{number:>2}", hit.kind, when, hit.author or hit.role, title)
    heading = "  ".join(_one_line(part) for part in parts if part)
    score = f"{hit.score:.2f}"
    room = width - len(score) - 2
    if display_width(heading) > room:
        heading = wrap(heading, room - 1)[0] + "…"
    gap = " " * max(width - display_width(heading) - len(score), 2)
    yield styled(heading, "bold") + gap + styled(score, "dim")
    inner_width = width - len(INDENT)
    for line in _snippet_lines(hit.text, query_words, inner_width):
        yield INDENT + line
    if hit.newer_statement:
        for line in wrap(plain(f"({hit.newer_statement})"), inner_width):
            yield INDENT + line
    yield INDENT + styled(open_command(hit, arguments.tenant, arguments.user), "dim")
    if arguments.why:
        for line in _explanation(hit, inner_width):
            yield INDENT + line


def _snippet_lines(text: str, query_words: Sequence[str], width: int) -> Iterator[str]:
    """Yield the part of a text that matches the query, with the matching words in bold."""
    size = MAX_SNIPPET_LINES * width - width // 3
    excerpt = plain(" ".join(snippet.excerpt(text, query_words, size).split()))
    for line in wrap(excerpt, width):
        pieces = []
        position = 0
        for start, end in snippet.find_matches(line, query_words):
            pieces.append(line[position:start])
            pieces.append(styled(line[start:end], "bold"))
            position = end
        yield "".join([*pieces, line[position:]])


def _explanation(hit: Hit, width: int) -> Iterator[str]:
    """Yield the parts of the score, how the hit was found, and the messages around it."""
    parts = sorted(hit.why.items(), key=lambda part: -abs(part[1]))[:MAX_SCORE_PARTS]
    reasons = " · ".join(f"{name} {value:+.2f}" for name, value in parts if abs(value) >= 0.005)
    yield from wrap(f"why: {reasons or 'no single reason'}", width)
    yield f"found by: {' and '.join(hit.legs) or 'being next to another hit'}"
    if hit.before:
        yield f"before: {_shorten(hit.before)}"
    if hit.after:
        yield f"after: {_shorten(hit.after)}"


def open_command(hit: Hit, tenant: str | None = None, user: str | None = None) -> str:
    """Return the command that opens a hit."""
    match hit.kind:
        case "messages":
            command = ["messages", "get", hit.id, str(hit.seq)]
        case "notes":
            owner, agent = json.loads(hit.id)
            command = ["notes", "read", "--user", owner, "--agent", agent]
        case "state":
            area, key = json.loads(hit.id)
            command = ["state", "get", key, "--area"]
            kind, _, owner = area.partition(":")
            command += ["user", "--user", owner] if kind == "user" else [area]
        case "items":
            area, *place, key = json.loads(hit.id)
            place_text = ",".join(place)
            if canonical.split_list(place_text) != place:
                place_text = json.dumps(place, ensure_ascii=False)
            command = ["items", "get", place_text, key]
            if area != "tenant":
                command += ["--user", area.partition(":")[2]]
        case "documents":
            command = ["documents", "passages", hit.id, "--seq", str(hit.seq)]
        case "graph":  # there are no graph commands
            command = ["search", hit.title, "--kind", "graph"]
            if user:
                command += ["--user", user]
        case _:
            command = [hit.kind, "get", hit.id]
    if tenant:
        command += ["--tenant", tenant]
    return plain(shlex.join(["memorist", *command]))


def _advice(arguments: Arguments) -> str:
    """Return a suggestion for a search without hits."""
    names = ("kind", "session", "since", "until", "user", "agent")
    filters = [f"--{name}" for name in names if getattr(arguments, name)]
    where = ", ".join(arguments.kind or SEARCHABLE_KINDS)
    without = f", or without {' and '.join(filters)}" if filters else ""
    return f"Nothing was found in {where}. Try other words{without}."


def _has_run(results: SearchResults, leg: str) -> bool:
    return results.legs[leg].startswith("ran")


def _describe_legs(results: SearchResults, pending: int) -> str:
    """Describe the search methods that were used, and why others were not."""
    used = [f"by {_LEG_NAMES.get(leg, leg)}" for leg in results.legs if _has_run(results, leg)]
    sentences = [f"Searched {' and '.join(used)}."] if used else []
    for leg, status in results.legs.items():
        if leg == "index":
            sentences.append(f"Not everything was searched: {status}.")
        elif not _has_run(results, leg):
            sentences.append(f"Not by {_LEG_NAMES.get(leg, leg)}: {status.rstrip('.')}.")
    if pending:
        sentences.append(
            f"{pending:,} texts have no vector yet and are found by words only; "
            "`memorist jobs` computes their vectors."
        )
    return " ".join(sentences)


def _one_line(text: str) -> str:
    return plain(" ".join(text.split()))


def _shorten(text: str) -> str:
    line = _one_line(text)
    if len(line) <= MAX_CONTEXT_CHARACTERS:
        return line
    return line[: tokens.boundary(line, MAX_CONTEXT_CHARACTERS)].rstrip() + " …"


ARGUMENTS: dict[str, dict[str, Any]] = {
    "query": {"metavar": "QUERY", "help": "a question, or words to look for"},
    "--kind": {
        "metavar": "KIND",
        "action": "append",
        "choices": SEARCHABLE_KINDS,
        "help": f"only this kind; may be repeated: {', '.join(SEARCHABLE_KINDS)}",
    },
    "--session": {"metavar": "ID", "help": "only this session"},
    "--since": {
        "metavar": "WHEN",
        "help": "from this day (2026-01-31, local time) or this time (with its time zone) on",
    },
    "--until": {"metavar": "WHEN", "help": "before this day or time"},
    "--limit": {
        "metavar": "N",
        "type": int,
        "default": 10,
        "help": "maximum number of hits (default: 10)",
    },
    "--min-score": {
        "metavar": "P",
        "type": float,
        "default": LIKELY_SCORE,
        "help": f"leave out hits with a lower score, from 0 to 1 (default: {LIKELY_SCORE})",
    },
    "--why": {
        "action": "store_true",
        "help": "explain each score, and show the messages before and after",
    },
}
COMMANDS = (
    Command(
        "search",
        search,
        """memorist search "where does Ada's sister live"
  memorist search "night train" --kind messages --session trip --limit 3 --why
  memorist search ECONNREFUSED --kind refs --kind documents --since 2026-01-31 --json""",
        SCOPE,
        {**ARGUMENTS, **PROJECT_OPTION},
    ),
)
