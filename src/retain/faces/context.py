"""`retain context`: the context for a message as it would be now, and what a saved turn was given, as a table with bars."""

from __future__ import annotations

import json
from typing import Any

from retain.context.assemble import Context
from retain.context.explain import Report
from retain.errors import Invalid, NotFound
from retain.faces.command import Arguments, open_memory, whose
from retain.faces.render import as_json, table

ABOUT = "What a model would be given for a message, or was given for a turn, and why."
EXAMPLE = 'retain context --session trip --message "Where do we go?"\n  retain context explain TURN'
ARGUMENTS: dict[str, dict[str, Any]] = {
    "what": {"nargs": "?", "choices": ["explain"], "help": "explain: what a saved turn was given"},
    "turn": {"nargs": "?", "metavar": "TURN", "help": "the turn's id, from `retain turns list SESSION`"},
    "--session": {"metavar": "ID", "help": "the session's id"},
    "--message": {"metavar": "TEXT", "default": "", "help": "the new message"},
    "--budget": {"metavar": "N", "type": int, "help": "the most tokens (default: the setting context_tokens)"},
    "--others": {"metavar": "NAMES", "default": "", "help": "the other agents of a group, with commas between them"},
    "--as": {
        "dest": "shape",
        "choices": ["report", "text", "openai", "anthropic"],
        "default": "report",
        "help": "the report, or the context itself as text or as a provider takes it",
    },
}
_BAR = 40


def context(arguments: Arguments) -> int:
    """Show a context, or explain the one of a turn."""
    if arguments.what == "explain" and not arguments.turn:
        raise Invalid(field="TURN", problem="is needed: retain context explain TURN")
    if arguments.what is None and not arguments.session:
        raise Invalid(field="--session", problem="is needed: retain context --session ID --message TEXT")
    with open_memory(arguments) as memory:
        scope = memory.scope(*whose(arguments, memory.settings))
        if arguments.what == "explain":
            stored = scope.turns.get(arguments.turn).report
            if stored is None:
                raise NotFound(what="report of turn", id=arguments.turn)
            _show(Report.of_json(stored), arguments)
            return 0
        others = [name.strip() for name in arguments.others.split(",") if name.strip()]
        found = scope.context(arguments.session, arguments.message, budget=arguments.budget, others=others)
    if arguments.shape == "report":
        _show(found.report, arguments)
    else:
        print(_shaped(found, arguments.shape))
    return 0


def _shaped(found: Context, shape: str) -> str:
    if shape == "text":
        return found.text()
    value = found.messages if shape == "openai" else as_json(found.anthropic())
    return json.dumps(value, ensure_ascii=False, indent=2)


def _show(report: Report, arguments: Arguments) -> None:
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
    table(("layer", "source", "tokens", "why"), [(i.layer, i.source, f"{i.tokens:,}", i.reason) for i in report.items])
    if report.left_out:
        print("Left out:")
        rows = [(i.layer, i.source, f"{i.tokens:,}" if i.tokens else "–", i.reason) for i in report.left_out]
        table(("layer", "source", "tokens", "why"), rows)
