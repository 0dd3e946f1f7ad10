"""The answer when no model is configured: what memory has about the message."""

from __future__ import annotations

from datetime import datetime

from retain.kinds.search_scope import LIKELY_SCORE
from retain.memory import Scope
from retain.search import snippet, words
from retain.search.query import Hit

NO_MODEL = "No model is set"
_HEAD = f"{NO_MODEL} (`model` and `base_url` in the settings), so this was written without one. Your message is kept."
_MAX_HITS = 10
_MAX_TOKENS_PER_HIT = 60


def answer_without_model(
    scope: Scope, session: str, question: str, asked_at: datetime | None
) -> str:
    """Return what was stored about a question before it was asked, as a list."""
    results = (
        scope.search(question, limit=4 * _MAX_HITS, min_score=LIKELY_SCORE, until=asked_at)
        if question.strip()
        else ()
    )
    hits = [
        hit for hit in results if not (hit.kind == "messages" and hit.text.startswith(NO_MODEL))
    ][:_MAX_HITS]
    if not hits:
        return f"{_HEAD}\n\nNothing was remembered about it before."
    query_words = words.query_words(question)
    return "\n".join(
        [
            f"{_HEAD}\n\nWhat is remembered about it:\n",
            *(f"- {_line(hit, query_words, session)}" for hit in hits),
        ]
    )


def _line(hit: Hit, query_words: list[str], session: str) -> str:
    text = " ".join(snippet.excerpt_tokens(hit.text, query_words, _MAX_TOKENS_PER_HIT).split())
    if hit.kind == "messages":
        where = f"{hit.author or hit.role}, {'earlier here' if hit.id == session else 'in another conversation'}"
    else:
        where = f"{hit.kind}, {hit.title}" if hit.title else hit.kind
    return f"{hit.at:%Y-%m-%d} ({where}): {text}"
