"""`memorist context`: show the context for a message, or explain the context of a saved turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress

from memorist.api.rendering import as_json
from memorist.base.errors import Invalid, NotFound
from memorist.cli.command import Arguments, Command, open_memory, scope_of
from memorist.cli.options import SCOPE
from memorist.cli.output import plain, print_table
from memorist.context.assemble import Context
from memorist.context.report import Report
from memorist.memory import Scope

BAR_CHARACTERS = 40
MAX_EXCERPT_CHARACTERS = 60


def context(arguments: Arguments) -> int:
    """Show a context, or explain the context of a turn."""
    if arguments.what == "explain" and not arguments.turn:
        raise Invalid(field="TURN", problem="is required: memorist context explain TURN")
    if arguments.what is None and not arguments.session:
        raise Invalid(
            field="--session", problem="is required: memorist context --session ID --message TEXT"
        )
    with open_memory(arguments) as memory:
        scope = scope_of(arguments, memory)
        if arguments.what == "explain":
            explain(scope, arguments.turn, json_wanted=arguments.json)
            return 0
        others = [name.strip() for name in arguments.others.split(",") if name.strip()]
        assembled = scope.context(
            arguments.session, arguments.message, budget=arguments.budget, others=others
        )
    if arguments.shape == "report":
        _show_report(assembled.report, assembled.texts, json_wanted=arguments.json)
    else:
        print(plain(_format(assembled, arguments.shape)))
    return 0


def explain(scope: Scope, id: str, *, json_wanted: bool = False) -> None:
    """Show the report of a saved turn."""
    turn = scope.turns.get(id)
    if turn.report is None:
        raise NotFound(what="report of turn", id=id)
    report = Report.from_json(turn.report)
    texts = {} if json_wanted else _load_texts(scope, turn.session, report)
    _show_report(report, texts, json_wanted=json_wanted)


def _format(assembled: Context, shape: str) -> str:
    if shape == "text":
        return assembled.text()
    value = assembled.messages if shape == "openai" else as_json(assembled.anthropic())
    return json.dumps(value, ensure_ascii=False, indent=2)


def _load_texts(scope: Scope, session: str, report: Report) -> dict[str, str]:
    """Return the current texts of a report's sources; the report itself contains no text."""
    texts = {}
    for item in report.items:
        kind, _, id = item.source.partition(" ")
        try:
            text = _load_text(scope, session, kind, id)
        except (NotFound, StopIteration, IndexError):
            text = "(removed)"
        if text is not None:
            texts[item.source] = text
    return texts


def _load_text(scope: Scope, session: str, kind: str, id: str) -> str | None:
    match kind:
        case "messages":
            other_session, _, seq = id.rpartition(" ")  # empty for this session
            return scope.messages.get(other_session or session, int(seq)).text
        case "documents":
            document, _, seq = id.rpartition(" ")
            return scope.documents.passages(document, seq=int(seq)).items[0].text
        case "entries":
            return scope.entries.get(id).content
        case "refs":
            return scope.refs.info(id).summary
        case "agents":
            with suppress(NotFound):  # an agent needs no record
                return scope.agents.get(id).prompt or None
            return None
        case "facts":
            return scope.facts.get(id).statement
        case "summaries":
            summaries = scope.summaries.list(session)
            return next(summary.text for summary in summaries if summary.number == int(id))
    return None


def _show_report(report: Report, texts: Mapping[str, str], *, json_wanted: bool) -> None:
    """Print the tokens of each layer, every item, and the omitted items."""
    if json_wanted:
        print(json.dumps(as_json(report), ensure_ascii=False))
        return
    print(f"{report.tokens:,} of {report.budget:,} tokens")
    layers = []
    for layer, cost in report.by_layer().items():
        length = max(round(BAR_CHARACTERS * cost / report.budget), 1 if cost else 0)
        layers.append((layer, f"{cost:,}", "█" * length))
    print_table(("layer", "tokens", "of the budget"), layers)
    items = [
        (
            item.layer,
            item.source,
            f"{item.tokens:,}",
            item.reason,
            _excerpt(texts.get(item.source, "")),
        )
        for item in report.items
    ]
    print_table(("layer", "source", "tokens", "why", "begins"), items)
    if report.left_out:
        print("Left out:")
        left_out = [
            (item.layer, item.source, f"{item.tokens:,}" if item.tokens else "–", item.reason)
            for item in report.left_out
        ]
        print_table(("layer", "source", "tokens", "why"), left_out)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= MAX_EXCERPT_CHARACTERS:
        return line
    return line[:MAX_EXCERPT_CHARACTERS].rstrip() + " …"


COMMANDS = (
    Command(
        "context",
        context,
        'memorist context --session trip --message "Where do we go?"\n  memorist context explain TURN',
        SCOPE,
        {
            "what": {
                "nargs": "?",
                "choices": ["explain"],
                "help": "explain: the context of a saved turn",
            },
            "turn": {
                "nargs": "?",
                "metavar": "TURN",
                "help": "the id of the turn, from `memorist turns list SESSION`",
            },
            "--session": {"metavar": "ID", "help": "the id of the session"},
            "--message": {"metavar": "TEXT", "default": "", "help": "the new message"},
            "--budget": {
                "metavar": "N",
                "type": int,
                "help": "maximum number of tokens (default: the setting context_tokens, or by the model)",
            },
            "--others": {
                "metavar": "NAMES",
                "default": "",
                "help": "the other agents of a group conversation, separated by commas",
            },
            "--as": {
                "dest": "shape",
                "choices": ["report", "text", "openai", "anthropic"],
                "default": "report",
                "help": "the report, or the context itself as text or in a provider's format",
            },
        },
    ),
)
