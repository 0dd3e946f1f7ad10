"""The data of the encoder's training: dialogues of the grammar, and the samples made of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

from encoder import dialogues, samples, sources
from encoder.conversations import Conversation, Question, Turn, shared_word_runs


@pytest.fixture(scope="module")
def written() -> list[Conversation]:
    return dialogues.write_dialogues(10, seed=3)


class WordTokenizer:
    """Stands in for a tokenizer of word pieces: one token a word."""

    class Encoding:
        def __init__(self, text: str) -> None:
            words = list(re.finditer(r"\S+", text))
            self.ids = [len(match[0]) for match in words]
            self.offsets = [match.span() for match in words]

    def encode(self, text: str, add_special_tokens: bool = True) -> Any:
        return self.Encoding(text)

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[Any]:
        return [self.Encoding(text) for text in texts]

    def token_to_id(self, token: str) -> int:
        return {"[CLS]": 1001, "[SEP]": 1002}[token]


def test_the_same_seed_writes_the_same_dialogues(written: list[Conversation]) -> None:
    again = dialogues.write_dialogues(10, seed=3)
    other = dialogues.write_dialogues(10, seed=4)
    assert [talk.turns for talk in again] == [talk.turns for talk in written]
    assert [talk.questions for talk in again] == [talk.questions for talk in written]
    assert [talk.turns for talk in other] != [talk.turns for talk in written]


def test_there_are_many_kinds_of_facts_in_both_languages() -> None:
    table = dialogues.facts()
    assert len({fact.name for fact in table}) == len(table) >= 150
    for fact in table:
        for language in ("en", "de"):
            assert fact.sentences("S", language), fact.name
            assert fact.sentences("Q", language), fact.name


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("person", ["first", "third", "second"])
def test_every_sentence_of_every_fact_can_be_rendered(
    language: dialogues.Language, person: dialogues.Person
) -> None:
    values = {slot: options[0] for slot, options in dialogues.slot_values().items()}
    for fact in dialogues.facts():
        for code, sentences in fact.lines.items():
            if code.isupper() != (language == "en"):
                continue
            for sentence in sentences:
                text = dialogues.render(
                    sentence, language, values, former=values, person=person, name="Lukas"
                )
                assert not re.search(r"[{}|]|NAME", text), text


def test_questions_change_with_the_person() -> None:
    slots = {"rel": ("sister", "f:Schwester")}
    english = "Where does {my} {rel} live?"
    assert dialogues.render(english, "en", slots) == "Where does my sister live?"
    third = dialogues.render(english, "en", slots, person="third", name="Maria")
    assert third == "Where does Maria's sister live?"
    german = "Wo wohnt {meine.rel}?"
    assert dialogues.render(german, "de", slots, person="second") == "Wo wohnt deine Schwester?"
    third = dialogues.render(german, "de", slots, person="third", name="Lukas")
    assert third == "Wo wohnt Lukas' Schwester?"


def test_evidence_answers_and_distractors_only_ask(written: list[Conversation]) -> None:
    for talk in written:
        assert talk.questions
        for question in talk.questions:
            assert question.evidence
            assert not set(question.evidence) & set(question.distractors)
            assert max(*question.evidence, 0) < len(talk.turns)
    asked_before = [
        question
        for talk in written
        for question in talk.questions
        if question.distractors and min(question.distractors) < min(question.evidence)
    ]
    assert len(asked_before) > 50


def test_shared_word_runs_ignore_case_and_punctuation() -> None:
    ours = ["One two three, four five six seven eight nine."]
    theirs = ["zero one two THREE four five six seven eight"]
    assert shared_word_runs(ours, theirs) == {"one two three four five six seven eight"}
    assert not shared_word_runs(ours, ["one two three four five six seven"])


def test_a_question_can_be_asked_about_a_named_person() -> None:
    text = sources.in_third_person("Where do I keep my keys, and what have I lost?", "Nora")
    assert text == "Where does Nora keep Nora's keys, and what has Nora lost?"


def test_samples_have_the_evidence_and_hard_negatives() -> None:
    talk = Conversation("talk", "canard")
    texts = ["Hello", "Where does your sister live?", "In Porto", "Nice", "My sister sings"]
    talk.turns = [Turn("Ann", text, session=int(place > 3)) for place, text in enumerate(texts)]
    talk.questions = [Question("Where does Ann's sister live?", (2,), (1,))]
    builder = samples.SampleBuilder(WordTokenizer(), seed=1)
    builder.add(talk)
    (sample,) = builder.result.samples
    stored = builder.result.turns

    def said(places: list[int]) -> set[str]:
        return {stored[place].start for place in places}

    assert said(sample.evidence) == {"In Porto"}
    assert said(sample.distractors) == {"Where does your sister live?"}
    assert "My sister sings" in said(sample.negatives)
    assert not set(sample.negatives) & {*sample.evidence, *sample.distractors}
    answer = stored[sample.evidence[0]]
    assert stored[answer.before].start == "Where does your sister live?"
    last = next(turn for turn in stored if turn.start == "My sister sings")
    assert last.before == -1


def test_samples_are_read_as_they_were_written(tmp_path: Path) -> None:
    talk = dialogues.write_dialogues(1, seed=1)[0]
    builder = samples.SampleBuilder(WordTokenizer(), seed=1)
    builder.add(talk)
    builder.result.write(tmp_path / "samples.json.xz")
    assert samples.Samples.read(tmp_path / "samples.json.xz") == builder.result


def test_a_turn_is_composed_with_its_neighbours() -> None:
    turns = [Turn("Ann", "a bb"), Turn("Ben", "ccc dddd"), Turn("Ann", "eeeee", session=1)]
    both = samples.Composer(WordTokenizer(), "both").conversation(turns)
    assert both[0] == [1001, 4, 1, 2, 2, 6, 3, 4, 1002]
    assert both[1] == [1001, 4, 3, 4, 2, 7, 1, 2, 1002]
    assert both[2] == [1001, 4, 5, 1002]
    alone = samples.Composer(WordTokenizer(), "none").conversation(turns)
    assert alone[0] == [1001, 4, 1, 2, 1002]


def test_questions_that_share_a_session_are_in_the_same_fold() -> None:
    pool = Conversation("lme", "lme")
    pool.turns = [Turn("user", "text", session=number) for number in range(20)]
    pool.questions = [Question("?", (number, number + 1)) for number in range(0, 18, 3)]
    pool.questions.append(Question("?", (1, 3)))
    folds = samples.lme_folds(pool)
    assert folds[0] == folds[1] == folds[-1]
    assert len(set(folds)) == 5
