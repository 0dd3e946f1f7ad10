"""The answer when no model is configured: a list of memories about the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memorist.base import clock, tokens
from memorist.content.message_content import NO_MODEL_NOTICE
from memorist.context import recall
from memorist.context.assemble import Context
from memorist.context.report import ReportItem
from memorist.kinds.section import Ask
from memorist.memory import Scope
from memorist.search import snippet, words
from memorist.search.query import Hit

NO_MODEL = "No model is set"
_HEAD = f"{NO_MODEL_NOTICE} Your message is stored."
_MAX_HITS = 10
_HEADING = re.compile(r"^#{1,6} +(.*?):?[ \t]*$", re.MULTILINE)
_MAX_TOKENS_PER_HIT = 60


def answer_without_model(
    scope: Scope, session: str, question: str, asked_at: datetime | None
) -> tuple[str, list[Hit]]:
    """Return an answer that lists memories about the question and older than it, and the hits."""
    before = None if asked_at is None else clock.from_datetime(asked_at, "asked_at")
    ask = Ask(session, question)
    hits = recall.relevant_hits(scope.services, scope.owner, ask, before)[:_MAX_HITS]
    if not hits:
        return f"{_HEAD}\n\nThere are no related memories yet.", hits
    query_words = words.query_words(question)
    lines = [f"- {_line(hit, query_words, session)}" for hit in hits]
    return "\n".join([f"{_HEAD}\n\nRelated memories:\n", *lines]), hits


def with_cited(context: Context, hits: Sequence[Hit], session: str) -> Context:
    """Return the context with the memories that the answer cites added to its report."""
    report = context.report
    explained = {item.source for item in report.items}
    items = []
    texts = dict(context.texts)
    for hit in hits:
        source = recall.source(hit, session)
        if source not in explained:
            cost = min(tokens.estimate(hit.text), _MAX_TOKENS_PER_HIT)
            items.append(ReportItem("recall", source, cost, f"cited, {recall.reason(hit)}"))
            texts[source] = hit.text
            explained.add(source)
    cited_tokens = sum(item.tokens for item in items)
    report = replace(report, items=[*report.items, *items], tokens=report.tokens + cited_tokens)
    return replace(context, report=report, texts=texts)


def _line(hit: Hit, query_words: list[str], session: str) -> str:
    excerpt = snippet.excerpt_tokens(hit.text, query_words, _MAX_TOKENS_PER_HIT)
    text = " ".join(_HEADING.sub(r"\1:", excerpt).split())  # one line has no Markdown headings
    if hit.kind == "messages":
        where = "earlier here" if hit.id == session else "in another conversation"
        where = f"{hit.author or hit.role}, {where}"
    else:
        where = f"{hit.kind}, {hit.title}" if hit.title else hit.kind
        text = text.removeprefix(f"{hit.title}: ")
    newer = f" ({hit.newer_statement})" if hit.newer_statement else ""
    return f"{hit.at:%Y-%m-%d} ({where}): {text}{newer}"
