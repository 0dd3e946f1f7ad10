"""Recall: what search finds for the new message, as the last layer of a context.

The question is put in two halves, like any search: by words and embedded before the context's read transaction, and finished
inside of it. What the context says anyway is not said twice; what is not likely to be wanted is not said at all.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from retain.base import tokens
from retain.kinds import finding
from retain.kinds.entries.entry import line
from retain.kinds.findable import INACTIVE
from retain.kinds.kind import Owner, Services
from retain.kinds.section import Ask, Piece, Section
from retain.messages import content, placeholder
from retain.search import snippet, words
from retain.search.engine import SearchFilter
from retain.search.query import Hit, Query
from retain.search.static_embedder import StaticEmbedder
from retain.storage.database import Transaction

HEAD = "Recalled for the new message, the oldest first:"
LEAST_SCORE, LEAST_COVERED, LEAST_NEAR = 0.03, 0.4, 0.4
"""What is recalled is at least so likely wanted, and says so much of what the message asks about, or is so near in meaning,
or stands beside what does or is.

A score alone cannot tell: it is relative to whatever else was found, and something is always the best of all.
"""
LEAST_APART = 2.0
"""What a cosine means is known of the built-in embedder alone: by another, what is near is so many standard deviations
nearer than what else was found."""
_RARE_WORDS = 1.25
"""A long message has more words than any answer covers: then more than one rare word of it is enough."""
_LAST_LATIN = "\u024f"
_CHAT = frozenset(
    words.analyse(
        "hi hello hey hallo hola salut bonjour ciao greetings thanks thank thx danke merci gracias grazie please "
        "bitte ok okay yes yeah yep no nope sure fine great good nice cool awesome perfect excellent wonderful lovely "
        "amazing right exactly well done sounds bye goodbye cheers welcome sorry morning evening afternoon night day "
        "lol haha hmm oh wow ah um go continue carry proceed next more again stop wait one think agree understood see "
        "ja nein doch oui non si klar gut super prima weiter genau guten morgen tag abend "
        "こんにちは こんばんは おはよう おはようございます ありがとう ありがとうございます はい いいえ "
        "你好 您好 谢谢 谢谢你 好的 是的 早上好 晚上好 再见 "
        "안녕 안녕하세요 감사합니다 네 привет здравствуйте спасибо да нет хорошо"
    )
)
"""Who says only this asks for nothing that was said before."""
MOST = 12
_LOOKED_AT = 40
_DEPTH = 60
"""Rows that each leg brings: fewer than to a search, with as much of the evidence in the first twelve."""
_PIECE_TOKENS = 150
_BEGINNING, _END = 1_500, 500
_SHARE, _SMALL = 8, 400
_OWNER = """select user_id, agent from sessions
            where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)"""
_ASKED = """select content, created_at from messages
            where tenant = :tenant and session_id = :session and role = 'user' and chatter = 0 and exists (
                select 1 from sessions where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id))
            order by seq desc limit 1"""
_LABEL = "select label from sessions where tenant = :tenant and id = :session"
_SIGNALS = 3
_FEW_ROWS = 150
"""In a smaller memory no score is high, and little stands in anybody's way."""
_NO_SPREAD = 1e-6


def reserve(budget: int) -> int:
    """The tokens that are kept for what may be recalled.

    They are the same whatever is found, or each message would begin the window somewhere else, and no provider's prompt
    cache could serve it. Fewer of them serve a cache no better: it is what is recalled that is new each time.
    """
    return min(max(budget - _SMALL, 0) // _SHARE, MOST * _PIECE_TOKENS)


def asked_last(services: Services, owner: Owner, session: str) -> tuple[str, int | None]:
    """What the user said last, and when: what a context is for that has no new message, because that is stored already."""
    row = services.database.read(
        owner.tenant, lambda tx: tx.one(_ASKED, session=session, user=owner.user)
    )
    return (content.spoken_text(json.loads(row[0])), int(row[1])) if row else ("", None)


def seek(services: Services, owner: Owner, ask: Ask, before: int | None = None) -> Query | None:
    """The first half of the search for what a message is about; None where there is nothing to search for.

    For a message that is stored already, only what was there `before` it: nothing else is as much like it as itself.
    """
    text = (
        ask.message
        if len(ask.message) <= _BEGINNING + _END
        else f"{ask.message[:_BEGINNING]}\n{ask.message[-_END:]}"
    )
    if _CHAT.issuperset(set(words.analyse(text)) - words.STOP):
        return None
    if owner.user is None or owner.agent is None:
        row = services.database.read(
            owner.tenant, lambda tx: tx.one(_OWNER, session=ask.session, user=owner.user)
        )
        if row is None:
            return None  # who reads the session will say that there is none
        owner = replace(owner, user=row[0], agent=owner.agent or row[1])
    return finding.seek(
        services, owner, text, SearchFilter(owner.user, owner.agent, until=before), None, _DEPTH
    )


@dataclass(frozen=True)
class Recalled:
    """What was found for a message, best first, and the labels of the conversations that it is from."""

    hits: Sequence[Hit]
    sought: Query
    labels: Mapping[str, str]


def look(tx: Transaction, services: Services, owner: Owner, sought: Query) -> Recalled:
    """The second half of the search: what is about what the message asks."""
    found = [
        hit
        for hit in finding.finish(tx, services, owner, sought, _LOOKED_AT)
        if hit.role != INACTIVE
    ]
    hits = _relevant(found, sought)
    sessions = dict.fromkeys(hit.id for hit in hits if hit.kind == "messages")
    return Recalled(
        hits, sought, {id: str((tx.one(_LABEL, session=id) or ("",))[0]) for id in sessions}
    )


def section(recalled: Recalled, ask: Ask, shown: Collection[str], notes: str | None) -> Section:
    """The best of what is not `shown` already, by its sources, nor in what is said of the `notes`: None for all of them."""
    new = (
        hit
        for hit in recalled.hits
        if (
            source(hit, ask.session) not in shown
            and (hit.kind != "notes" or (notes is not None and hit.text not in notes))
        )
    )
    hits = sorted(islice(new, MOST), key=lambda hit: hit.at)
    return Section(
        "recall", [_piece(hit, ask, recalled.sought, recalled.labels) for hit in hits], _write
    )


def _relevant(hits: Sequence[Hit], sought: Query) -> list[Hit]:
    """The hits that are about what is asked, and not only the best of what there is; and what stands beside them."""
    begun, near = sought.begun, _near(hits, sought)
    rows = begun.corpus.count + 1
    having = zip(begun.words, begun.corpus.having, strict=True)
    told = {word: max(math.log(rows / (max(count, 1) + 0.5)), 0.0) for word, count in having}
    enough = min(LEAST_COVERED * sum(told.values()), _RARE_WORDS * math.log(rows))

    def about(hit: Hit) -> bool:
        if hit.near is not None and hit.near >= near:
            return True
        has = told.keys() & words.item_words(hit.author, hit.title, hit.text, None)
        return bool(has) and sum(told[word] for word in has) >= enough

    least = LEAST_SCORE * min(rows / _FEW_ROWS, 1.0)
    likely = [hit for hit in hits if hit.score >= least]
    places = {
        (hit.kind, hit.id, hit.seq + step) for hit in likely if about(hit) for step in (-1, 0, 1)
    }
    return [hit for hit in likely if (hit.kind, hit.id, hit.seq) in places]


def _near(hits: Sequence[Hit], sought: Query) -> float:
    """How large a cosine is large: the built-in embedder knows words in Latin letters, and finds other scripts all alike."""
    cosines = [hit.near for hit in hits if hit.near is not None]
    letters = [char for char in sought.question.text if char.isalpha()]
    foreign = 2 * sum(char > _LAST_LATIN for char in letters) > len(letters)
    if not cosines or (sought.model == StaticEmbedder.identity and not foreign):
        return LEAST_NEAR
    return statistics.fmean(cosines) + max(LEAST_APART * statistics.pstdev(cosines), _NO_SPREAD)


def mentioned(recalled: Recalled) -> set[str]:
    """The keys of the references that are recalled, or named in what is."""
    named = {key for hit in recalled.hits for key in placeholder.find_keys(hit.text)}
    return named | {hit.id for hit in recalled.hits if hit.kind == "refs"}


def trouble(sought: Query) -> str:
    """Why the search was not by meaning too, where that was wanted."""
    how = sought.legs["vectors"]
    return how if how.startswith("failed") else ""


def source(hit: Hit, session: str) -> str:
    """What a report calls a hit; where another layer has it too, by the name that it has there."""
    match hit.kind:
        case "messages":
            return f"messages {hit.seq}" if hit.id == session else f"messages {hit.id} {hit.seq}"
        case "knowledge":
            return f"knowledge {hit.id} {hit.seq}"
        case "notes":
            return f"notes, section {hit.seq + 1}"
        case "state":
            area, key = json.loads(hit.id)
            owner = (
                area
                if area.startswith("session:") and area != f"session:{session}"
                else area.partition(":")[0]
            )
            return f"state {owner} {key}"
    return f"{hit.kind} {hit.id}"


def _piece(hit: Hit, ask: Ask, sought: Query, labels: Mapping[str, str]) -> Piece:
    about = ", ".join(
        part for part in (hit.at.date().isoformat(), _about(hit, ask, sought, labels)) if part
    )
    if hit.kind == "refs":
        summary = hit.text.partition("\n")[0]
        text = f"- [{about}] {placeholder.render(hit.id, summary)}"
    else:
        text = line(
            snippet.excerpt_tokens(hit.text.strip(), sought.begun.words, _PIECE_TOKENS),
            f"[{about}] ",
        )
    return Piece(
        source(hit, ask.session), text, tokens.estimate(text + "\n"), reason(hit), hit.score
    )


def reason(hit: Hit) -> str:
    """Why a hit is here, always in this form: its score, by which legs, and the signals that told most."""
    by = f"by {' and '.join(hit.legs)}" if hit.legs else "beside another"
    parts = sorted(hit.why.items(), key=lambda part: -abs(part[1]))[:_SIGNALS]
    why = ", ".join(f"{name} {value:.2f}" for name, value in parts)
    return f"recalled at {hit.score:.2f} {by}" + (f": {why}" if why else "")


def _about(hit: Hit, ask: Ask, sought: Query, labels: Mapping[str, str]) -> str:
    """Who said it and where, in words that nobody can put a line or a bracket into."""
    match hit.kind:
        case "messages":
            owner = hit.author or (sought.asked.user if hit.role == "user" else "") or hit.role
            where = (
                f'in the conversation "{labels[hit.id]}"'
                if labels.get(hit.id)
                else "in another conversation"
            )
            told = f"{owner} {'earlier in this conversation' if hit.id == ask.session else where}"
        case "entries":
            told = (
                f"{hit.author} on a whiteboard" if hit.role == "whiteboard" else f"your {hit.role}"
            )
        case "notes":
            told = f"your notes › {hit.title}" if hit.title else "your notes"
        case "refs":
            told = "a stored output, which retrieve_memory opens"
        case "state":
            told = f"the state {hit.title}"
        case "items":
            told = f"from {' › '.join(json.loads(hit.id)[1:-1])}"
        case _:
            told = f"from {hit.title or hit.kind}"
    return placeholder.one_line(placeholder.neutralize(told))


def _write(kept: Sequence[Piece]) -> str:
    return "\n".join([HEAD, *(piece.text for piece in kept)])
