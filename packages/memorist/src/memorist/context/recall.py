"""Recall: the hits of a search for the new message, as the last layer of a context.

Like any search it has two steps: words and embedding before the read transaction of the context,
ranking inside the transaction. Memories that the context already shows are not repeated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from memorist.base import masking, tokens
from memorist.content import message_content, placeholder
from memorist.kinds import KINDS, scope_search
from memorist.kinds.entries.entry import list_item
from memorist.kinds.kind import Kind, Owner, Services
from memorist.kinds.newer_statement import message_name
from memorist.kinds.refs import Refs
from memorist.kinds.refs.reference import INACTIVE_ROLE
from memorist.kinds.section import (
    Ask,
    Piece,
    RecallScope,
    Section,
    join_lines,
    most_valuable,
)
from memorist.search import words
from memorist.search.query import Hit, Query
from memorist.search.search_view import SearchFilter
from memorist.search.static_embedder import StaticEmbedder
from memorist.storage.database import Transaction

HEAD = "Recalled for the new message, the oldest first:"
MAX_RECALLED = 12
CANDIDATES = 40
ROWS_PER_LEG = 60  # fewer than a search uses; the first twelve hits are measured to be as good
PIECE_TOKENS = 150
BUDGET_FRACTION = 8  # one eighth of the budget
SMALL_BUDGET = 400  # no recall in a smaller budget
QUESTION_START_CHARACTERS = 1_500
QUESTION_END_CHARACTERS = 500
REASON_SIGNALS = 3

MIN_SCORE = 0.03
"""A score alone does not show relevance: it is relative to the other hits, and one hit is always the
best. So one hit must also contain words of the question or be near in meaning."""
MIN_COVERED = 0.4
MIN_COSINE = 0.4
MIN_DEVIATIONS = 2.0
"""Only the cosines of memorist's own embedders have a known scale. With another embedder, a near hit
is this many standard deviations nearer than the others."""
MIN_SPREAD = 1e-6
RARE_WORDS = 1.25
"""No answer contains all words of a long message; then this many rare words are enough."""
SMALL_MEMORY_ROWS = 150  # in a smaller memory, all scores are low
LAST_LATIN = "\u024f"
SMALL_TALK = frozenset(
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
"""A message that consists only of these words needs no memories."""
KIND_OF: Mapping[str, type[Kind]] = {kind.name: kind for kind in KINDS}
PERSONAL_KINDS = tuple(kind.name for kind in KINDS if kind.findable and not kind.is_document)


@dataclass(frozen=True)
class Recalled:
    """The hits for a message, best first."""

    hits: Sequence[Hit]
    query: Query
    labels: Mapping[str, str]  # session id → label, for the sessions of the hits
    facts: Sequence[Hit] = ()
    evidence: Mapping[str, Collection[tuple[str, int]]] = field(default_factory=dict)
    """The messages that facts rest on, by the fact's id: session and number."""


def reserve(budget: int) -> int:
    """Return the tokens that are reserved for recall.

    They do not depend on the hits. Otherwise the window would start at another message each time,
    and the provider's prompt cache could not serve it.
    """
    return min(max(budget - SMALL_BUDGET, 0) // BUDGET_FRACTION, MAX_RECALLED * PIECE_TOKENS)


def last_question(services: Services, owner: Owner, session: str) -> tuple[str, int | None]:
    """Return the last user message and its time, for a context without a new message."""

    def read(tx: Transaction) -> Sequence[object] | None:
        return tx.one(
            """select content, created_at from messages
               where tenant = :tenant and session_id = :session and role = 'user' and chatter = 0
               and exists (
                   select 1 from sessions where tenant = :tenant and id = :session
                   and user_id = coalesce(:user, user_id))
               order by seq desc limit 1""",
            session=session,
            user=owner.user,
        )

    row = services.database.read(owner.tenant, read)
    if row is None:
        return "", None
    return message_content.spoken_text(json.loads(str(row[0]))), int(str(row[1]))


def start(services: Services, owner: Owner, ask: Ask, before: int | None = None) -> Query | None:
    """Run the first step of the search; return None if there is nothing to search for.

    For a message that is already stored, search only memories from `before` it: otherwise the best
    hit would be the message itself.
    """
    text = ask.message
    if len(text) > QUESTION_START_CHARACTERS + QUESTION_END_CHARACTERS:
        text = f"{text[:QUESTION_START_CHARACTERS]}\n{text[-QUESTION_END_CHARACTERS:]}"
    if SMALL_TALK.issuperset(set(words.analyse(text)) - words.STOP):
        return None
    if owner.user is None or owner.agent is None:
        row = services.database.read(
            owner.tenant,
            lambda tx: tx.one(
                """select user_id, agent from sessions
                   where tenant = :tenant and id = :session
                   and user_id = coalesce(:user, user_id)""",
                session=ask.session,
                user=owner.user,
            ),
        )
        if row is None:
            return None  # the read of the session raises NotFound
        owner = replace(owner, user=row[0], agent=owner.agent or row[1])
    scope = SearchFilter(owner.user, owner.agent, until=before)
    query = scope_search.start_search(services, owner, text, scope, None, ROWS_PER_LEG)
    return replace(query, hit_reach=0)


def finish(tx: Transaction, services: Services, owner: Owner, query: Query) -> Recalled:
    """Run the second step of the search and keep the relevant hits.

    If documents leave too few personal memories, search again in those only.
    """
    ranked = scope_search.finish_search(tx, services, owner, query, CANDIDATES)
    hits = ranked.hits
    documents = [hit for hit in hits if KIND_OF[hit.kind].is_document]
    if documents and len(hits) - len(documents) < MAX_RECALLED:
        personal = replace(query.filter, kinds=PERSONAL_KINDS)
        again = query.narrowed(personal, ROWS_PER_LEG)
        memories = scope_search.finish_search(tx, services, owner, again, CANDIDATES)
        relevant = [*_keep_if_relevant(documents, query), *_keep_if_relevant(memories.hits, again)]
        hits = sorted(relevant, key=lambda hit: -hit.score)
    else:
        hits = _keep_if_relevant(hits, query)
    hits = [hit for hit in hits if hit.role != INACTIVE_ROLE]
    labels = {}
    for session in {hit.session for hit in hits if hit.session}:
        row = tx.one(
            "select label from sessions where tenant = :tenant and id = :session", session=session
        )
        labels[session] = str(row[0]) if row else ""
    # Their score also says who confirmed them and when they are true, not only what they are about.
    facts = _about(ranked.facts, query, min_score=0.0)
    evidence: dict[str, Collection[tuple[str, int]]] = {}
    for kind in {hit.kind for hit in facts}:
        ids = [hit.id for hit in facts if hit.kind == kind]
        evidence.update(KIND_OF[kind].messages_of(tx, ids))
    return Recalled(hits, query, labels, facts, evidence)


def relevant_hits(services: Services, owner: Owner, ask: Ask, before: int | None) -> list[Hit]:
    """Return the hits that are about a message, best first; none for a greeting."""
    query = start(services, owner, ask, before)
    if query is None:
        return []
    ranked = services.database.read(
        owner.tenant,
        lambda tx: scope_search.finish_search(tx, services, owner, query, CANDIDATES),
        allow_replica=True,
    )
    about = _about(ranked.hits, query)
    newer = {
        name
        for hit in about
        if (said := ranked.newer.get((hit.id, hit.seq)))
        for name in said.messages
    }
    return [hit for hit in ranked.hits if hit in about or message_name(hit) in newer]


def recalled_text(
    services: Services, owner: Owner, ask: Ask, budget: int, shown: Collection[str] = ()
) -> str:
    """Return what is remembered about a message, within a budget of tokens; empty for a greeting.

    For a program that assembles its prompt itself. It need not have stored the session of `ask`.

    shown: the sources that the prompt shows already, such as `messages 7` of the session
    """
    query = start(services, owner, ask)
    if query is None:
        return ""

    def read(tx: Transaction) -> tuple[Recalled, Mapping[str, str]]:
        recalled = finish(tx, services, owner, query)
        return recalled, Refs(services, owner).known(tx, references(recalled))

    recalled, known = services.database.read(owner.tenant, read, allow_replica=True)
    not_shown = {kind.whole_in_layer: "" for kind in KINDS if kind.whole_in_layer}
    pieces = most_valuable(section(recalled, ask, shown, not_shown).pieces, budget)
    text = placeholder.verify(join_lines(pieces), known)
    policy = services.settings.output_masking
    return text if policy is masking.OFF else masking.mask_personal(text, policy)


def section(
    recalled: Recalled, ask: Ask, shown: Collection[str], cut_texts: Mapping[str, str]
) -> Section:
    """Return the best hits that the context does not show yet, oldest first.

    shown:     the sources that the context shows
    cut_texts: layer → its text, for the layers that were cut
    """

    def is_new(hit: Hit) -> bool:
        if source(hit, ask.session) in shown:
            return False
        layer = KIND_OF[hit.kind].whole_in_layer
        return layer is None or (layer in cut_texts and hit.text not in cut_texts[layer])

    hits = _alternate([hit for hit in recalled.hits if is_new(hit)])
    facts = [fact for fact in recalled.facts if is_new(fact)]
    best = _with_facts(hits, facts, recalled.evidence)
    scope = RecallScope(ask.session, recalled.query.filter.user, recalled.labels)
    pieces = [
        _piece(hit, scope, recalled.query.matches.words)._replace(worth=1 / (1 + rank))
        for rank, hit in enumerate(best)
    ]
    oldest_first = sorted(zip(best, pieces, strict=True), key=lambda pair: pair[0].at)
    pieces = [piece for _, piece in oldest_first]
    return Section("recall", pieces, lambda selected: f"{HEAD}\n{join_lines(selected)}")


def _alternate(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits to recall, best first: personal memories and documents alternate.

    So each group gets half of the hits, unless it has fewer.
    """
    groups: dict[bool, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(KIND_OF[hit.kind].is_document, []).append(hit)
    alternating: list[Hit] = []
    for pair in zip_longest(*groups.values()):  # the group of the best hit comes first
        alternating += [hit for hit in pair if hit is not None]
    return alternating


def _with_facts(
    hits: Sequence[Hit], facts: Sequence[Hit], evidence: Mapping[str, Collection[tuple[str, int]]]
) -> list[Hit]:
    """Return the hits to recall, best first; facts take the last places.

    A fact comes after a message that it rests on, if that is one of the hits.
    """
    places = MAX_RECALLED - len(facts)
    best = list(hits[:places])
    for fact in facts:
        messages = [
            hit for hit in hits if hit.kind == "messages" and (hit.id, hit.seq) in evidence[fact.id]
        ]
        if messages and not any(message in best for message in messages):
            best.append(messages[0])
        best.append(fact)
    return best[:MAX_RECALLED]


def _keep_if_relevant(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return all hits if one of them is about the question, otherwise none.

    An answer often has other words than the question, and only the ranking finds it. So the check
    decides whether anything is recalled, not which hits are.
    """
    return list(hits) if _about(hits, query) else []


def _about(hits: Sequence[Hit], query: Query, min_score: float = MIN_SCORE) -> list[Hit]:
    """Return the hits that contain words of the question or are near in meaning.

    A message is also kept if the message before it matches: that one may have asked the same
    question, which this one answers in other words.
    """
    matches = query.matches
    # A search until the time of a stored message must not count the words of the message itself.
    own = 0 if query.filter.until is None else 1
    rows = max(matches.corpus.count + 1 - own, 1)
    min_cosine = _min_cosine(hits, query)
    weights = {
        word: max(math.log(rows / (max(count - own, 1) + 0.5)), 0.0)
        for word, count in zip(matches.words, matches.corpus.document_frequencies, strict=True)
    }
    min_weight = min(MIN_COVERED * sum(weights.values()), RARE_WORDS * math.log(rows))
    min_score *= min(rows / SMALL_MEMORY_ROWS, 1.0)

    def matches_question(hit: Hit) -> bool:
        if hit.near is not None and hit.near >= min_cosine:
            return True
        covered = weights.keys() & words.item_words(hit.author, hit.title, hit.text, None)
        return bool(covered) and sum(weights[word] for word in covered) >= min_weight

    matching = {(hit.kind, hit.id, hit.seq) for hit in hits if matches_question(hit)}

    def is_about(hit: Hit) -> bool:
        if hit.score < min_score:
            return False
        before = (hit.kind, hit.id, hit.seq - 1)
        return (hit.kind, hit.id, hit.seq) in matching or (
            hit.kind == "messages" and before in matching
        )

    return [hit for hit in hits if is_about(hit)]


def _min_cosine(hits: Sequence[Hit], query: Query) -> float:
    """Return the cosine above which a hit is near.

    memorist's embedders know only words in Latin letters; texts in other scripts all look alike.
    """
    import statistics  # not needed at start

    cosines = [hit.near for hit in hits if hit.near is not None]
    letters = [character for character in query.question.text if character.isalpha()]
    is_latin = 2 * sum(letter > LAST_LATIN for letter in letters) <= len(letters)
    is_own = query.model == StaticEmbedder.identity or query.family == "encoder"
    if not cosines or (is_own and is_latin):
        return MIN_COSINE
    spread = max(MIN_DEVIATIONS * statistics.pstdev(cosines), MIN_SPREAD)
    return statistics.fmean(cosines) + spread


def references(recalled: Recalled) -> set[str]:
    """Return the keys of references among the hits, and of references that the hits mention."""
    hits = [*recalled.hits, *recalled.facts]
    return {key for hit in hits for key in KIND_OF[hit.kind].hit_references(hit)}


def vector_failure(query: Query) -> str:
    """Return why the search by meaning failed; empty if it did not."""
    state = query.legs["vectors"]
    return state if state.startswith("failed") else ""


def source(hit: Hit, session: str) -> str:
    """Return the source of a hit in the report; it is the same in every layer that shows it."""
    return KIND_OF[hit.kind].hit_source(hit, session)


def _piece(hit: Hit, scope: RecallScope, question_words: Sequence[str]) -> Piece:
    kind = KIND_OF[hit.kind]
    # The origin is stored text: it must not contain a line break or a bracket.
    origin = placeholder.one_line(placeholder.neutralize(kind.hit_origin(hit, scope)))
    label = ", ".join(part for part in (hit.at.date().isoformat(), origin) if part)
    if hit.newer_statement:
        label += f"; {placeholder.one_line(placeholder.neutralize(hit.newer_statement))}"
    text = list_item(kind.hit_text(hit, question_words, PIECE_TOKENS), f"[{label}] ")
    cost = tokens.estimate(text + "\n")
    return Piece(source(hit, scope.session), text, cost, reason(hit), hit.score)


def reason(hit: Hit) -> str:
    """Return why a hit was recalled: its score, the legs that found it, its strongest signals."""
    legs = f"by {' and '.join(hit.legs)}" if hit.legs else "beside another"
    strongest = sorted(hit.why.items(), key=lambda part: -abs(part[1]))[:REASON_SIGNALS]
    signals = ", ".join(f"{name} {value:.2f}" for name, value in strongest)
    return f"recalled at {hit.score:.2f} {legs}" + (f": {signals}" if signals else "")
