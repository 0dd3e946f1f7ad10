from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.search import words
from memorist.search.english import stem


def finds(question: str, text: str) -> bool:
    """Return whether the index has a word of the query for the text."""
    return not set(words.query_words(question)).isdisjoint(words.item_words("", "", text, None))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("paint", "painting"),
        ("city", "cities"),
        ("hope", "hoping"),
        ("stop", "stopped"),
        ("study", "studied"),
        ("organise", "organization"),
        ("happy", "happily"),
        ("go", "went"),
        ("buy", "bought"),
        ("child", "children"),
        ("photo", "photograph"),
        ("colour", "colors"),
        ("live", "lives"),
        ("leave", "leaves"),
        ("sit", "sat"),
        ("½", "1/2"),
    ],
)
def test_english_word_forms_are_stemmed(one: str, other: str) -> None:
    assert words.analyse(one) == words.analyse(other)


@pytest.mark.parametrize("word", ["bus", "this", "glass", "sing", "red", "news1", "x1s"])
def test_apparent_suffixes_are_kept(word: str) -> None:
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sat", "saturday"),
        ("sun", "sunday"),
        ("wed", "wednesday"),
        ("mon", "monday"),
        ("½", "12"),
        ("1½", "11"),
    ],
)
def test_different_words_stay_different(one: str, other: str) -> None:
    assert set(words.analyse(one)).isdisjoint(words.analyse(other))


def test_verb_forms_match() -> None:
    assert set(words.query_words("where does my sister live")) <= set(
        words.analyse("My sister lives in Lisbon")
    )


def test_case_and_accents_are_folded() -> None:
    assert words.analyse("Café MÜLLER Straße Ёлка Ñandú") == words.analyse(
        "cafe muller strasse елка nandu"
    )


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("snake_case", "it is in snake_case here"),
        ("case", "it is in snake_case here"),
        ("parseURL", "call parseURLFast() first"),
        ("words.py", "see src/memorist/search/words.py:12"),
        ("E0308", "error[E0308]: mismatched types"),
        ("404", "it said HTTP404"),
        ("3.11.2", "Python 3.11.2 is old"),
        ("ada@example.com", "write to <ada@example.com>."),
        ("email", "send an e-mail"),
        ("Nummer", "Meine Versicherungsnummer ist neu"),
        ("Versicherung", "Die Versicherungsnummer ist nicht da"),
        ("Wie war meine Versicherungsnummer", "Die Nummer der Versicherung ist 12"),
        ("猫", "我喜欢猫和狗"),
        ("喜欢猫", "我喜欢猫和狗"),
        ("東京タワー", "昨日東京タワーに行きました"),
        ("ภาษาไทย", "ฉันเรียนภาษาไทย"),
        ("दुनिया", "नमस्ते दुनिया"),
        ("서울", "서울에서 만나요"),
    ],
)
def test_many_languages_and_code(question: str, text: str) -> None:
    """In any script, a text is found by its terms."""
    assert finds(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [("Hund", "我喜欢猫"), ("ion", "the nation"), ("v1.12", "v11.2"), ("Nummer", "number")],
)
def test_unrelated_words_do_not_match(question: str, text: str) -> None:
    assert not finds(question, text)


def test_english_text_is_not_decompounded() -> None:
    assert words.item_words(
        "", "", "The internationalization of everything", None
    ) == words.analyse("The internationalization of everything")


def test_author_title_and_month_are_indexed() -> None:
    indexed = words.item_words("Ada Lovelace", "Install › Linux", "Run it.", 1_684_000_000_000_000)
    assert {"ada", "lovelac", "install", "linux", "run", "may", "2023"} <= set(indexed)


def test_a_query_has_its_content_words_once() -> None:
    assert words.query_words("What did the cat say about the cat and the dog?") == ["cat", "dog"]


def test_a_query_of_stop_words_keeps_them() -> None:
    assert words.query_words("to be or not to be") == ["to", "be", "or", "not"]
    assert finds("to be or not to be", "To be, or not to be")


def test_quantity_and_time_words_of_questions_are_dropped() -> None:
    assert words.query_words("How many weeks ago did I visit the museum?") == ["visit", "museum"]
    assert words.query_words("Which museum did I visit in the past two months?") == [
        "museum",
        "visit",
    ]
    assert words.query_words("two weeks ago") == words.analyse("two weeks ago")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Wo wohnt meine Schwester?", "wohnt Schwester"),
        ("Wie heißt mein Hund?", "heißt Hund"),
        ("Vor wie vielen Wochen war ich im Museum?", "Museum"),
        ("Welches Museum habe ich in den letzten zwei Monaten besucht?", "Museum besucht"),
        ("Was hat mir vor drei Tagen gefallen?", "gefallen"),
    ],
)
def test_stop_words_of_german_questions_are_dropped(question: str, expected: str) -> None:
    result = [word for word in words.query_words(question) if words._MARK not in word]
    assert result == words.analyse(expected)


@pytest.mark.parametrize(
    "question",
    ["What hat did I wear in the war?", "Did they die in the den?", "Who is the man in Die Welle?"],
)
def test_german_stop_words_stay_in_english_questions(question: str) -> None:
    result = set(words.query_words(question))
    assert not result.isdisjoint({"hat", "war", "di", "die", "den", "man"})
    assert result >= {
        word for word in words.analyse(question) if word in ("hat", "war", "die", "den", "man")
    }


def test_a_german_question_of_stop_words_keeps_them() -> None:
    assert words.query_words("wie wo wann") == ["wie", "wo", "wann"]


def test_text_without_words() -> None:
    for text in ("", "  ", "?!…", "🙂🙂", "---"):
        assert words.analyse(text) == []
        assert words.query_words(text) == []


def test_an_invalid_month_is_omitted() -> None:
    assert words.item_words("", "", "x1", 10**30) == ["x1"]


@given(st.text(max_size=300))
def test_any_text_is_analysed(text: str) -> None:
    """No text is an error, and every word is safe for every index."""
    result = words.analyse(text)
    assert result == words.analyse(text)
    for word in (*result, *words.item_words("a", "b", text, 0), *words.query_words(text)):
        assert 0 < len(word.encode()) <= words.MAX_WORD_BYTES
        assert not re.search(r"[\x00-\x2f\x3a-\x60\x7b-\x7f\s]", word)
    assert len(result) <= 3 * len(text) + 1


@given(st.text(alphabet="abcXYZ019_./-'’:@ üß猫ก", max_size=200))
def test_identifiers_of_any_shape_are_analysed(text: str) -> None:
    for word in words.analyse(text):
        assert 0 < len(word.encode()) <= words.MAX_WORD_BYTES


def test_the_word_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MAX_CACHED_TOKENS", 10)
    monkeypatch.setattr(words, "_known", words._KnownTokens())
    for number in range(100):
        words.analyse(f"w{number}")
    assert len(words._known) <= 10


def test_a_long_query_uses_its_longest_words() -> None:
    """Each word is looked up, so their number is limited."""
    page = " ".join(f"thing{number:04d}{'x' * (number % 9)}" for number in range(3_000))
    result = words.query_words(page)
    assert len(result) == words.MAX_QUERY_WORDS
    assert all(word.endswith("x" * 8) for word in result)
    assert (
        len(words.query_words("字" * 10 + "".join(chr(0x4E00 + n) for n in range(2_000))))
        == words.MAX_QUERY_WORDS
    )
