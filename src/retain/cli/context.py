"""`retain context`: the context for a message as it would be now, and what a saved turn was given, as a table with bars."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from retain.api.rendering import as_json, plain, table
from retain.base.errors import Invalid, NotFound
from retain.cli.command import Arguments, open_memory, scope_of
from retain.context.assemble import Context
from retain.context.report import Report
from retain.memory import Scope

ABOUT = "What a model would be given for a message, or was given for a turn, and why."
EXAMPLE = 'retain context --session trip --message "Where do we go?"\n  retain context explain TURN'
ARGUMENTS: dict[str, dict[str, Any]] = {
    "what": {"nargs": "?", "choices": ["explain"], "help": "explain: what a saved turn was given"},
    "turn": {
        "nargs": "?",
        "metavar": "TURN",
        "help": "the turn's id, from `retain turns list SESSION`",
    },
    "--session": {"metavar": "ID", "help": "the session's id"},
    "--message": {"metavar": "TEXT", "default": "", "help": "the new message"},
    "--budget": {
        "metavar": "N",
        "type": int,
        "help": "the most tokens (default: the setting context_tokens)",
    },
    "--others": {
        "metavar": "NAMES",
        "default": "",
        "help": "the other agents of a group, with commas between them",
    },
    "--as": {
        "dest": "shape",
        "choices": ["report", "text", "openai", "anthropic"],
        "default": "report",
        "help": "the report, or the context itself as text or as a provider takes it",
    },
}
_BAR = 40
_SHORT = 60


def context(arguments: Arguments) -> int:
    """Show a context, or explain the one of a turn."""
    if arguments.what == "explain" and not arguments.turn:
        raise Invalid(field="TURN", problem="is needed: retain context explain TURN")
    if arguments.what is None and not arguments.session:
        raise Invalid(
            field="--session", problem="is needed: retain context --session ID --message TEXT"
        )
    with open_memory(arguments) as memory:
        scope = scope_of(arguments, memory)
        if arguments.what == "explain":
            explain(scope, arguments.turn, arguments)
            return 0
        others = [name.strip() for name in arguments.others.split(",") if name.strip()]
        found = scope.context(
            arguments.session, arguments.message, budget=arguments.budget, others=others
        )
    if arguments.shape == "report":
        _show(found.report, found.texts, arguments)
    else:
        print(plain(_shaped(found, arguments.shape)))
    return 0


def explain(scope: Scope, id: str, arguments: Arguments) -> None:
    """Show what a saved turn was given."""
    turn = scope.turns.get(id)
    if turn.report is None:
        raise NotFound(what="report of turn", id=id)
    report = Report.from_json(turn.report)
    _show(report, {} if arguments.json else _found_again(scope, turn.session, report), arguments)


def _shaped(found: Context, shape: str) -> str:
    if shape == "text":
        return found.text()
    value = found.messages if shape == "openai" else as_json(found.anthropic())
    return json.dumps(value, ensure_ascii=False, indent=2)


def _found_again(scope: Scope, session: str, report: Report) -> dict[str, str]:
    """The texts of a report's sources, as they are today: a report holds none, and what was deleted since is gone."""
    look: dict[str, Callable[[str], str]] = {
        "messages": lambda id: _message(scope, session, id),
        "knowledge": lambda id: (
            scope.knowledge.passages(id.rpartition(" ")[0], seq=int(id.rpartition(" ")[2]))
            .items[0]
            .text
        ),
        "entries": lambda id: scope.entries.get(id).content,
        "refs": lambda id: scope.refs.info(id).summary,
        "agents": lambda id: scope.agents.get(id).prompt,
        "summaries": lambda id: next(
            s.text for s in scope.summaries.list(session) if s.number == int(id)
        ),
    }
    texts = {}
    for item in report.items:
        kind, _, id = item.source.partition(" ")
        if kind in look:
            try:
                texts[item.source] = look[kind](id)
            except (NotFound, StopIteration, IndexError):
                texts[item.source] = "(no longer there)"
    return texts


def _message(scope: Scope, session: str, id: str) -> str:
    """The text of a message of this session, or of the one that is named before its number."""
    other, _, seq = id.rpartition(" ")
    return scope.messages.get(other or session, int(seq)).text


def _show(report: Report, texts: Mapping[str, str], arguments: Arguments) -> None:
    """The tokens by layer, each with a bar, then every item, then what was left out."""
    if arguments.json:
        print(json.dumps(as_json(report), ensure_ascii=False))
        return
    print(f"{report.tokens:,} of {report.budget:,} tokens")
    bars = [
        (layer, f"{cost:,}", "█" * max(round(_BAR * cost / report.budget), 1 if cost else 0))
        for layer, cost in report.by_layer().items()
    ]
    table(("layer", "tokens", "of the budget"), bars)
    rows = [
        (i.layer, i.source, f"{i.tokens:,}", i.reason, _begins(texts.get(i.source, "")))
        for i in report.items
    ]
    table(("layer", "source", "tokens", "why", "begins"), rows)
    if report.left_out:
        print("Left out:")
        out = [
            (i.layer, i.source, f"{i.tokens:,}" if i.tokens else "–", i.reason)
            for i in report.left_out
        ]
        table(("layer", "source", "tokens", "why"), out)


def _begins(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[:_SHORT].rstrip() + " …"
