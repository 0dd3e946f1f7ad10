from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memorist.base import clock
from memorist.search import ranking
from memorist.search.block import DocumentKey
from memorist.search.candidates import Candidates, Corpus
from memorist.search.question import Question, parse_question
from memorist.search.ranking import rank
from memorist.search.search_document import SearchDocument
from memorist.search.segment import analyse, word_hash

DAY = clock.DAY


class Candidate(NamedTuple):
    """A document that may be an answer."""

    number: int
    text: str
    kind: str
    id: str
    seq: int
    at: int
    role: str
    author: str = ""
    cosine: float | None = None

    @property
    def key(self) -> DocumentKey:
        """The name; its number is the part, so that no two have the same."""
        return DocumentKey(self.kind, self.id, self.seq, self.number)


class Result(NamedTuple):
    """A candidate in its place, by number."""

    number: int
    score: float
    same: tuple[int, ...]
    parts: Mapping[str, float]


def candidate(number: int, text: str, **more: object) -> Candidate:
    """Return a message as a search candidate."""
    values = {
        "kind": "messages",
        "id": "s",
        "seq": number * 10,
        "at": number * DAY,
        "role": "user",
    } | more
    return Candidate(number, text, **values)  # type: ignore[arg-type]


def by_time(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda item: (item.at, item.key))


def tabulate(candidates: Sequence[Candidate]) -> Candidates:
    """Return candidates, which are in the order of time and name, as ranking needs them."""
    analysed = [
        analyse(SearchDocument(item.kind, item.id, item.text, item.at, author=item.author))
        for item in candidates
    ]
    occurrences = []
    for each in analysed:
        counts = dict.fromkeys(each.hashes, 1)
        counts.update(zip(each.hashes, each.counts, strict=False))
        occurrences.append(counts)

    def count_words(words: Sequence[str]) -> NDArray[np.float64]:
        rows = [[counts.get(word_hash(word), 0) for word in words] for counts in occurrences]
        return np.array(rows, float).reshape(len(occurrences), len(words))

    return Candidates(
        keys=[item.key for item in candidates],
        at=[item.at for item in candidates],
        roles=[item.role for item in candidates],
        authors=[item.author for item in candidates],
        cosines=np.array([math.nan if item.cosine is None else item.cosine for item in candidates]),
        lengths=np.array([each.length for each in analysed], float),
        has_question=np.array([each.has_question for each in analysed], float),
        question_words=np.array([each.question_words for each in analysed], float),
        fingerprints=[each.fingerprint for each in analysed],
        count_words=count_words,
    )


def order_by(
    question: Question,
    candidates: Sequence[Candidate],
    family: str = "static",
    wanted: set[int] | None = None,
) -> list[Result]:
    """Return the candidates, best first, in a corpus of 100 documents.

    wanted: the numbers of candidates to return, all by default
    """
    ordered = by_time(candidates)
    numbers = [item.number for item in ordered]
    table = tabulate(ordered)
    frequencies = (table.count_words(question.words) > 0).sum(axis=0).tolist()
    places = None if wanted is None else {numbers.index(number) for number in wanted}
    ranked = rank(question, table, Corpus(100, frequencies), family=family, wanted=places)
    return [
        Result(
            numbers[each.place],
            each.score,
            tuple(numbers[place] for place in each.same),
            each.parts,
        )
        for each in ranked
    ]


def order(
    text: str, candidates: Sequence[Candidate], family: str = "static", **more: object
) -> list[Result]:
    question = parse_question(text, **more)  # type: ignore[arg-type]
    return order_by(question, candidates, family)


def first(results: list[Result]) -> int:
    return results[0].number


OTHERS = [candidate(number, f"something else about thing{number}") for number in range(20, 40)]


def test_no_candidates_give_no_ranking() -> None:
    assert order("anything", []) == []


@pytest.mark.parametrize("family", ["static", "strong", "encoder"])
def test_one_candidate_is_ranked(family: str) -> None:
    (item,) = order("the cat", [candidate(1, "a cat", cosine=0.5)], family)
    assert item.number == 1
    assert 0 < item.score < 1


def test_matching_words_rank_first() -> None:
    assert (
        first(
            order(
                "where is the harmonica", [*OTHERS, candidate(1, "The harmonica is on the shelf.")]
            )
        )
        == 1
    )


@pytest.mark.parametrize("family", ["static", "strong", "encoder"])
def test_similar_meaning_ranks_first_without_matching_words(family: str) -> None:
    candidates = [candidate(n, f"something else about thing{n}", cosine=0.1) for n in range(2, 30)]
    assert (
        first(order("kitten", [*candidates, candidate(1, "A young cat.", cosine=0.8)], family)) == 1
    )


def test_the_named_author_is_preferred() -> None:
    ada, bob = (
        candidate(n, "I like the opera.", author=name, id=name)
        for n, name in ((1, "Ada"), (2, "Bob"))
    )
    assert (
        first(order("What does Bob like, opera?", [ada, bob, *OTHERS], authors=["Ada", "Bob"])) == 2
    )
    assert (
        first(order("What does Ada like, opera?", [ada, bob, *OTHERS], authors=["Ada", "Bob"])) == 1
    )


def test_own_messages_are_preferred_unless_answers_are_asked_for() -> None:
    mine = candidate(1, "The opera in Bern.", id="a")
    answer = candidate(2, "The opera in Bern.", id="b", role="assistant")
    assert first(order("Which opera did I like?", [mine, answer, *OTHERS])) == 1
    values = {
        item.number: item.score
        for item in order("Which opera did you recommend?", [mine, answer, *OTHERS])
    }
    mine_then = {
        item.number: item.score
        for item in order("Which opera did I like?", [mine, answer, *OTHERS])
    }
    assert values[2] / values[1] > mine_then[2] / mine_then[1]


def test_the_named_time_is_preferred() -> None:
    old = candidate(
        1,
        "We went to the opera.",
        id="a",
        at=clock.from_datetime(clock.to_datetime(400 * DAY), "at"),
    )
    new = candidate(2, "We went to that opera.", id="b", at=800 * DAY)
    when = clock.to_datetime(400 * DAY)
    assert first(order(f"opera on {when:%d %B %Y}", [old, new, *OTHERS], now=900 * DAY)) == 1


def test_an_answer_next_to_its_question_is_lifted() -> None:
    """The answer has no word of the query; the turn before it has all of them."""
    result = candidate(1, "Which harmonica did you buy in Bern?", seq=1)
    answer = candidate(2, "A chromatic one, it was expensive.", seq=2)
    far = candidate(3, "A chromatic one, it was cheap.", id="other", seq=2)
    places = [
        item.number for item in order("harmonica bought in Bern", [*OTHERS, result, answer, far])
    ]
    assert places.index(2) < places.index(3)


@pytest.mark.parametrize("family", ["words", "static", "strong", "encoder"])
@pytest.mark.parametrize("asked", ["Where does my sister live?", "where does my sister live"])
def test_a_statement_ranks_above_a_message_that_asks_the_same(family: str, asked: str) -> None:
    cosines = (None, None, None) if family == "words" else (0.1, 0.9, 0.6)
    others = [candidate(n, f"something about thing{n}", cosine=cosines[0]) for n in range(20, 40)]
    before = candidate(1, asked, id="first", cosine=cosines[1])
    fact = candidate(2, "My sister moved to Lisbon.", id="second", cosine=cosines[2])
    result = order("where does my sister live", [*others, before, fact], family)
    assert first(result) == 2
    places = {item.number: item for item in result}
    assert places[1].parts["asks the same"] < -1


@pytest.mark.parametrize(
    "search", ["what did I ask about my sister", "did I ever ask where my sister lives"]
)
def test_a_message_that_asks_is_found_by_a_search_for_questions(search: str) -> None:
    before = candidate(1, "Where does my sister live?", seq=1)
    result = order(search, [*OTHERS, before])
    assert first(result) == 1
    assert "asks the same" not in result[0].parts


def test_a_question_with_words_of_its_own_is_no_repetition() -> None:
    """It says something: where the hotel is, and when it is needed."""
    before = candidate(1, "Which hotel in Lisbon is free in May for my sister and three children?")
    result = order("which hotel", [*OTHERS, before])
    assert first(result) == 1
    assert result[0].parts.get("asks the same", 0) > -2


def test_a_reply_to_a_person_who_asks_the_question_is_lifted() -> None:
    """An answer of an assistant, or of a user to an assistant, is no reply."""
    asked = candidate(1, "Where does Clara live now?", seq=1, author="Ada")
    reply = candidate(2, "In Lisbon, by the sea.", seq=2, author="Bob")
    assert contribution(order("where does Clara live", [*OTHERS, asked, reply]), 2, "replies") > 0
    for roles in (("user", "assistant"), ("assistant", "user")):
        turns = [asked._replace(role=roles[0]), reply._replace(role=roles[1])]
        result = order("where does Clara live", [*OTHERS, *turns])
        assert contribution(result, 2, "replies") <= 0


def contribution(result: list[Result], number: int, feature: str) -> float:
    """Return what a feature contributes to the score of a candidate."""
    return next(item for item in result if item.number == number).parts.get(feature, 0.0)


def test_a_question_for_many_things_ranks_other_sessions_higher() -> None:
    visits = [
        candidate(n, f"We visited the museum of town{n}.", id="first", seq=10 * n)
        for n in range(1, 6)
    ]
    other = candidate(7, "We visited a museum, and I came home late and tired.", id="second")
    many = order("how many museums were visited", [*visits, other, *OTHERS])
    single = order("was a museum visited", [*visits, other, *OTHERS])
    assert place(many, 7) < place(single, 7)
    assert contribution(many, many[0].number, "same session") == 0
    assert contribution(many, many[1].number, "same session") < 0
    assert "same session" not in single[1].parts
    assert [item.score for item in many] == sorted((item.score for item in many), reverse=True)


def place(result: list[Result], number: int) -> int:
    """Return the place of a candidate, 0 for the first."""
    return [item.number for item in result].index(number)


def test_near_duplicates_are_folded_unless_many_are_wanted() -> None:
    twice = [
        candidate(1, "The harmonica is on the shelf.", id="a"),
        candidate(2, "the harmonica is on the shelf!", id="b"),
    ]
    result = order("where is the harmonica", [*twice, *OTHERS])
    assert first(result) in (1, 2)
    assert result[0].same == ((2,) if result[0].number == 1 else (1,))
    assert len(result) == len(OTHERS) + 1
    assert (
        len(order("how many times was the harmonica there", [*twice, *OTHERS])) == len(OTHERS) + 2
    )


def test_only_repetitions_of_one_author_are_duplicates() -> None:
    """Two keys may have one value; two customers may differ in a number alone."""
    keys = [candidate(n, "true", kind="state", id=f"flag {n}", seq=0) for n in (1, 2)]
    customers = [
        candidate(n, f"Customer {n} pays by invoice and has a discount of ten percent.", seq=n)
        for n in (3, 4, 5)
    ]
    assert {item.number for item in order("customer invoice true", [*keys, *customers])} == {
        1,
        2,
        3,
        4,
        5,
    }


def test_unwanted_candidates_still_count_as_neighbours() -> None:
    twice = [candidate(n, "The harmonica is on the shelf.", seq=n) for n in (1, 2)]
    question = parse_question("harmonica shelf")
    result = order_by(question, [*twice, *OTHERS], wanted={1})
    alone = order_by(question, [twice[0], *OTHERS], wanted={1})
    assert result[0].parts != alone[0].parts
    assert [item.number for item in result] == [1]


def test_the_latest_ranks_first_if_asked_for() -> None:
    """Recency counts only if the query asks for it."""
    old = candidate(1, "My favourite colour is blue.", at=100 * DAY, id="a")
    new = candidate(2, "My favourite colour is green.", at=400 * DAY, id="b")
    for text in ("what is my current favourite colour", "the latest favourite colour"):
        assert first(order(text, [old, new, *OTHERS], now=401 * DAY)) == 2
    assert (
        first(order("what was my favourite colour at first", [old, new, *OTHERS], now=401 * DAY))
        == 1
    )


def test_the_best_of_poor_matches_has_a_low_score() -> None:
    """There is always a best candidate."""
    alone = [candidate(1, "Ada is happiest near the sea.", cosine=0.09)]
    assert order("how do I configure nginx", alone)[0].score < 0.2
    assert (
        order("where is Ada happiest", [candidate(1, "Ada is happiest near the sea.", cosine=0.8)])[
            0
        ].score
        > 0.5
    )


def test_chunks_of_a_long_message_are_one_place() -> None:
    parts = [candidate(n, f"part {n} of the harmonica book", seq=5) for n in (1, 2, 3)]
    assert {item.number for item in order("harmonica", [*parts, *OTHERS])} >= {1, 2, 3}


def test_objects_without_neighbours_are_not_penalised() -> None:
    alone = candidate(
        1, "The harmonica is on the shelf.", kind="entries", id="e", seq=0, role="core"
    )
    assert first(order("where is my harmonica", [alone, *OTHERS])) == 1


def test_signals_add_up_to_the_order() -> None:
    result = order("the harmonica of Ada", [*OTHERS, candidate(1, "The harmonica.")])
    sums = [sum(item.parts.values()) for item in result]
    assert all(a >= b - 0.05 for a, b in zip(sums, sums[1:], strict=False))
    assert "coverage" in result[0].parts


def test_every_family_has_weights() -> None:
    names = {
        family: set(ranking.weights(family).signals)
        for family in ("words", "static", "strong", "encoder")
    }
    assert names["static"] == names["strong"] == names["encoder"] > names["words"]
    for family in names:
        assert all(math.isfinite(weight) for weight in ranking.weights(family).signals.values())
        assert ranking.weights(family).chance["share"] > 0
        assert ranking.weights(family).signals["recent"] > 0, (
            "who asks for the latest gets the later"
        )


candidates_of_any_sort = st.lists(
    st.builds(
        lambda number, text, seq, at, role, author, cosine, id: candidate(
            number, text, seq=seq, at=at, role=role, author=author, cosine=cosine, id=id
        ),
        st.integers(1, 10**12),
        st.text(alphabet="ab cd ef gh?", max_size=30),
        st.integers(0, 6),
        st.integers(0, 10**16),
        st.sampled_from(["user", "assistant", "tool", "", "core"]),
        st.sampled_from(["", "Ada", "Bob"]),
        st.one_of(st.none(), st.floats(-1, 1)),
        st.sampled_from(["s", "t", "u"]),
    ),
    max_size=12,
    unique_by=lambda one: one.number,
)


@settings(max_examples=60, deadline=None)
@given(
    candidates_of_any_sort,
    st.text(alphabet="ab cd ef Ada 2023 I you first?", max_size=30),
    st.randoms(),
)
def test_the_ranking_does_not_depend_on_the_input_order(
    candidates: list[Candidate], text: str, chance: random.Random
) -> None:
    """P12: rows with and without a vector are ranked together, none is lost, and no score is NaN."""
    result = order(text, candidates, now=10**16, authors=["Ada"])
    mixed = candidates.copy()
    chance.shuffle(mixed)
    assert order(text, mixed, now=10**16, authors=["Ada"]) == result
    assert sorted(n for item in result for n in (item.number, *item.same)) == sorted(
        item.number for item in candidates
    )
    assert all(math.isfinite(item.score) and 0 <= item.score <= 1 for item in result)
    assert [item.score for item in result] == sorted((item.score for item in result), reverse=True)
