"""Recall: what search finds for the new message, as the last layer of a context.

The question is put in two halves, like any search: by words and embedded before the context's read transaction, and finished
inside of it. What the context says anyway is not said twice; what is not likely to be wanted is not said at all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from retain import placeholder, tokens
from retain.kinds import finding
from retain.kinds.entry import line
from retain.kinds.findable import INACTIVE
from retain.kinds.kind import Home, Who
from retain.search import find, snippet, words
from retain.search.engine import Asked
from retain.search.find import Begun, Hit, Sought
from retain.section import Ask, Piece, Section
from retain.storage.database import Transaction

HEAD = "Recalled for the new message, the oldest first:"
LEAST_SCORE, LEAST_COVERED, LEAST_NEAR = 0.02, 0.25, 0.3
"""What is recalled is at least so likely wanted, and says so much of what the message asks about, or is so near in meaning,
or stands beside what does or is.

A score alone cannot tell: it is relative to whatever else was found, and something is always the best of all.
"""
_RARE_WORDS = 1.25
"""A long message has more words than any answer covers: then more than one rare word of it is enough."""
_CHAT = frozenset(
    words.analyse(
        "hi hello hey hallo hola salut bonjour ciao greetings thanks thank thx danke merci gracias grazie please "
        "bitte ok okay yes yeah yep no nope sure fine great good nice cool awesome perfect excellent wonderful lovely "
        "amazing right exactly well done sounds bye goodbye cheers welcome sorry morning evening afternoon night day "
        "lol haha hmm oh wow ah um go continue carry proceed next more again stop wait one think agree understood see "
        "ja nein doch oui non si klar gut super prima weiter genau guten morgen tag abend"
    )
)
"""Who says only this asks for nothing that was said before."""
MOST = 12
_LOOKED_AT = 40
_DEPTH = 100
"""Rows that each leg brings: a third of what a search looks at has as much of the evidence in its first twelve."""
_PIECE_TOKENS = 150
_BEGINNING, _END = 1_500, 500
_SHARE, _SMALL = 8, 400
_OWNER = """select user_id, agent from sessions
            where tenant = :tenant and id = :session and user_id = coalesce(:user, user_id)"""
_LABEL = "select label from sessions where tenant = :tenant and id = :session"
_SIGNALS = 3


def reserve(budget: int) -> int:
    """The tokens that are kept for what may be recalled.

    They are the same whatever is found, or each message would begin the window somewhere else, and no provider's prompt
    cache could serve it.
    """
    return min(max(budget - _SMALL, 0) // _SHARE, MOST * _PIECE_TOKENS)


def seek(home: Home, who: Who, ask: Ask) -> Sought | None:
    """The first half of the search for what a message is about; None where there is nothing to search for."""
    text = ask.message if len(ask.message) <= _BEGINNING + _END else f"{ask.message[:_BEGINNING]}\n{ask.message[-_END:]}"
    if not home.settings.recall or _CHAT.issuperset(set(words.analyse(text)) - words.STOP):
        return None
    if who.user is None or who.agent is None:
        row = home.database.read(who.tenant, lambda tx: tx.one(_OWNER, session=ask.session, user=who.user))
        if row is None:
            return None  # who reads the session will say that there is none
        who = replace(who, user=row[0], agent=who.agent or row[1])
    return finding.seek(home, who, text, Asked(who.user, who.agent), None, _DEPTH)


def section(tx: Transaction, home: Home, ask: Ask, sought: Sought, said: Collection[str]) -> Section | None:
    """What is recalled, but for what is `said` anyway, by its sources."""
    found = find.finish(tx, home.index, sought, _LOOKED_AT)
    new = [hit for hit in found if hit.role != INACTIVE and hit.kind != "notes" and source(hit, ask.session) not in said]
    hits = _relevant(new, sought.begun)[: 2 * MOST]  # the recent turns may show some of them
    hits.sort(key=lambda hit: hit.at)
    sessions = dict.fromkeys(hit.id for hit in hits if hit.kind == "messages")
    labels = {id: str((tx.one(_LABEL, session=id) or ("",))[0]) for id in sessions}
    pieces = [_piece(hit, ask, sought, labels) for hit in hits]
    return Section("recall", pieces, _write) if pieces else None


def _relevant(hits: Sequence[Hit], begun: Begun) -> list[Hit]:
    """The hits that are about what is asked, and not only the best of what there is; and what stands beside them."""
    rows = begun.corpus.count + 1
    having = zip(begun.words, begun.corpus.having, strict=True)
    told = {word: max(math.log(rows / (max(count, 1) + 0.5)), 0.0) for word, count in having}
    enough = min(LEAST_COVERED * sum(told.values()), _RARE_WORDS * math.log(rows))

    def about(hit: Hit) -> bool:
        if hit.near is not None and hit.near >= LEAST_NEAR:
            return True
        has = told.keys() & words.of_item(hit.author, hit.title, hit.text, None)
        return bool(has) and sum(told[word] for word in has) >= enough

    likely = [hit for hit in hits if hit.score >= LEAST_SCORE]
    places = {(hit.kind, hit.id, hit.seq + step) for hit in likely if about(hit) for step in (-1, 0, 1)}
    return [hit for hit in likely if (hit.kind, hit.id, hit.seq) in places]


def best(pieces: Sequence[Piece], shown: Collection[str]) -> Sequence[Piece]:
    """The pieces that are worth most, in their order, without those that are shown already."""
    left = [piece for piece in pieces if piece.source not in shown]
    least = sorted((piece.worth for piece in left), reverse=True)[:MOST][-1:]
    return [piece for piece in left if piece.worth >= least[0]][:MOST]


def trouble(sought: Sought) -> str:
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
        case "state":
            area, key = json.loads(hit.id)
            owner = area if area.startswith("session:") and area != f"session:{session}" else area.partition(":")[0]
            return f"state {owner} {key}"
    return f"{hit.kind} {hit.id}"


def _piece(hit: Hit, ask: Ask, sought: Sought, labels: Mapping[str, str]) -> Piece:
    about = ", ".join(part for part in (hit.at.date().isoformat(), _about(hit, ask, sought, labels)) if part)
    if hit.kind == "refs":
        summary = hit.text.partition("\n")[0]
        text = f"- [{about}] {placeholder.write(hit.id, summary)}"
    else:
        text = line(snippet.within(hit.text.strip(), sought.begun.words, _PIECE_TOKENS), f"[{about}] ")
    parts = sorted(hit.why.items(), key=lambda part: -abs(part[1]))[:_SIGNALS]
    why = ", ".join(f"{name} {value:.2f}" for name, value in parts)
    reason = f"recalled at {hit.score:.2f}: {why}" if why else f"recalled at {hit.score:.2f}"
    return Piece(source(hit, ask.session), text, tokens.estimate(text + "\n"), reason, hit.score)


def _about(hit: Hit, ask: Ask, sought: Sought, labels: Mapping[str, str]) -> str:
    """Who said it and where, in words that nobody can put a line or a bracket into."""
    match hit.kind:
        case "messages":
            who = hit.author or (sought.asked.user if hit.role == "user" else "") or hit.role
            where = f'in the conversation "{labels[hit.id]}"' if labels.get(hit.id) else "in another conversation"
            told = f"{who} {'earlier in this conversation' if hit.id == ask.session else where}"
        case "entries":
            told = f"{hit.author} on a whiteboard" if hit.role == "whiteboard" else f"your {hit.role}"
        case "refs":
            told = "a stored output, which retrieve_memory opens"
        case "state":
            told = f"the state {hit.title}"
        case _:
            told = f"from {hit.title or hit.kind}"
    return placeholder.one_line(placeholder.neutral(told))


def _write(kept: Sequence[Piece]) -> str:
    return "\n".join([HEAD, *(piece.text for piece in kept)])
