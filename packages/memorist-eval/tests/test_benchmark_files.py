"""Benchmark files: every format is read, and errors name the file and the place in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from invented_benchmarks import (
    BEAM_CHAT,
    BEAM_QUESTIONS,
    LOCOMO,
    LONGMEMEVAL,
    write_json,
    write_locomo,
)

from memorist.base.errors import Invalid
from memorist_eval.benchmark_files import read_benchmark


def test_locomo_as_published(tmp_path: Path) -> None:
    file = read_benchmark(write_locomo(tmp_path))
    assert file.benchmark == "locomo"
    (conversation,) = file.conversations
    assert list(conversation.sessions) == ["talk-1/1", "talk-1/2"]
    first, second = conversation.sessions["talk-1/2"]
    assert first.unit == "D2:1"
    assert first.message.author == "Nora"
    assert first.message.created_at == datetime(2024, 6, 3, 9, 5, tzinfo=UTC)
    assert "a red lighthouse" in str(second.message.content)
    where, what, unlabelled, adversarial = conversation.questions
    assert where.gold == {"D1:1"}
    assert where.at == datetime(2024, 6, 4, 9, 5, tzinfo=UTC)
    assert what.gold == {"D1:1", "D2:1"}  # repaired; there is no D4:36
    assert (unlabelled.gold, unlabelled.answer) == (frozenset(), "0")
    assert (adversarial.is_answerable, adversarial.answer) == (False, "")


def test_longmemeval_as_published(tmp_path: Path) -> None:
    file = read_benchmark(write_json(tmp_path / "s.json.gz", LONGMEMEVAL))
    assert file.benchmark == "longmemeval"
    first, second = file.conversations
    (question,) = first.questions
    assert question.gold == {"s1#0", "s2#0"}
    assert question.gold_sessions == {"s1", "s2"}
    assert question.answer == "7"
    (abstention,) = second.questions
    assert abstention.type == "abstention"
    assert (abstention.gold, abstention.gold_sessions) == (frozenset(), frozenset())
    assert not abstention.is_answerable


@pytest.mark.parametrize("as_text", [str, json.dumps, lambda value: value])
def test_beam_as_rows(tmp_path: Path, as_text: Callable[[Any], Any]) -> None:
    """The dataset stores the questions as the text of a Python object."""
    row = {"conversation_id": "7", "chat": BEAM_CHAT, "probing_questions": as_text(BEAM_QUESTIONS)}
    path = tmp_path / "beam.jsonl"
    path.write_text(f"{json.dumps(row)}\n{json.dumps(row | {'conversation_id': '8'})}\n")
    file = read_benchmark(path)
    assert file.benchmark == "beam"
    assert [conversation.user for conversation in file.conversations] == ["7", "8"]
    conversation = file.conversations[0]
    (turns,) = conversation.sessions.values()
    assert turns[0].message.content == "The sprint ends on March 29."
    assert {turn.message.created_at for turn in turns} == {datetime(2024, 3, 15, tzinfo=UTC)}
    abstention, order, instruction, update = conversation.questions
    assert not abstention.is_answerable
    assert order.gold == {0, 2}
    assert instruction.answer == "names versions"
    assert update.id == "7/knowledge_update/0"
    assert update.gold == {0}


def test_beam_as_a_folder_of_its_repository(tmp_path: Path) -> None:
    for number in ("2", "10"):
        folder = tmp_path / "100K" / number
        write_json(folder / "chat.json", BEAM_CHAT)
        write_json(folder / "probing_questions" / "probing_questions.json", BEAM_QUESTIONS)
    write_json(tmp_path / "100K" / "10" / "chat_trunecated.json", BEAM_CHAT[0]["turns"][0])
    file = read_benchmark(tmp_path / "100K")
    lengths = [len(turns) for item in file.conversations for turns in item.sessions.values()]
    assert lengths == [4, 2]  # the shorter chat is the one that the questions are about
    assert [conversation.user for conversation in file.conversations] == ["100K/2", "100K/10"]
    assert len(file.digest()) == 64


def test_prepared_files(tmp_path: Path) -> None:
    turn = {
        "id": "D1:1",
        "session": 1,
        "date": "7:30 pm on 28 May, 2024",
        "speaker": "Nora",
        "text": "I bought a kayak.",
        "caption": "a kayak",
    }
    question = {"id": "a/0", "category": 2, "question": "When?", "answer": 3, "evidence": ["D1:1"]}
    observation = [1, "Nora", "Nora bought a kayak.", "['D1:1']"]
    talk = {
        "sample_id": "a",
        "turns": [turn],
        "questions": [question],
        "observations": [observation],
    }
    (conversation,) = read_benchmark(write_json(tmp_path / "a.json", [talk])).conversations
    assert conversation.questions[0].gold == {"D1:1"}
    assert conversation.observations[0].units == ["D1:1"]

    session = {
        "id": "s1",
        "date": "2024/06/01 (Sat) 08:00",
        "turns": [{"role": "user", "content": "I have five hens."}],
    }
    question = {
        "id": "q1",
        "type": "multi-session",
        "question": "How many hens?",
        "question_date": "2024/06/20 (Thu) 10:00",
        "answer": "five",
        "gold_sessions": ["s1"],
        "gold_turns": ["s1#0"],
    }
    pool = {"sessions": [session], "questions": [question]}
    file = read_benchmark(write_json(tmp_path / "pool.json.gz", pool))
    assert file.benchmark == "longmemeval"
    assert file.conversations[0].questions[0].gold == {"s1#0"}

    message = {"id": 0, "role": "user", "date": "March-15-2024", "text": "The sprint ends."}
    question = {
        "id": "b/0",
        "type": "summarization",
        "question": "?",
        "answer": None,
        "evidence": [0],
    }
    chat = {"name": "b", "messages": [message], "questions": [question]}
    file = read_benchmark(write_json(tmp_path / "b.json", [chat]))
    assert file.benchmark == "beam"
    assert file.conversations[0].questions[0].gold == {0}


TURN = {"id": "D1:1", "session": 1, "date": "7:30 pm on 28 May, 2024", "speaker": "Nora"}
TALK = {"sample_id": "a", "turns": [TURN], "questions": []}
SESSION = {"id": "s1", "date": "2024/06/01 (Sat) 08:00", "turns": []}


def _changed(change: Callable[[Any], object], data: Any) -> Any:
    changed = copy.deepcopy(data)
    change(changed)
    return changed


QUESTIONS = {"probing_questions": BEAM_QUESTIONS}
WITHOUT_TIME = [{"role": "user", "id": 7, "content": "Hello."}, *BEAM_CHAT]
TRUNCATED: dict[str, Any] = {"questions": [{"id": "a", "evidence": [["D1:1"]]}]}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ([], "conversations"),
        ([{"rows": 1}], "'rows'"),
        ({}, "no fields"),
        (["text"], "f.json, record 1: "),
        (_changed(lambda data: data[0]["qa"][1].pop("question"), LOCOMO), "record 1, qa 2: "),
        (
            _changed(lambda data: data[0]["conversation"].update(session_2="x"), LOCOMO),
            "session_2: ",
        ),
        (
            _changed(lambda data: data[0]["conversation"].update(session_1_date_time=""), LOCOMO),
            "session_1_date_time: ",
        ),
        (
            _changed(lambda data: data[1]["haystack_dates"].clear(), LONGMEMEVAL),
            "record 2 (question_id",
        ),
        (
            _changed(lambda data: data[0]["haystack_sessions"][1][0].update(role=""), LONGMEMEVAL),
            "s2 1, role: ",
        ),
        ([{"chat": BEAM_CHAT, "probing_questions": "{'abstention': ["}], "probing_questions: "),
        ([{"chat": [], **QUESTIONS}], "record 1, chat: "),
        ([{"chat": WITHOUT_TIME, **QUESTIONS}], "record 1, chat: "),
        ([{**TALK, **TRUNCATED}], "record 1, questions 1, evidence: "),
        ([{**TALK, "observations": [[1, "Nora"]]}], "record 1, observations: "),
        ({"sessions": [SESSION, SESSION], "questions": []}, "sessions 2: "),
        (LOCOMO * 2, "'talk-1/0'"),
        (_changed(lambda data: data[0].update(qa=[]), LOCOMO), "questions"),
    ],
)
def test_an_error_names_the_file_and_the_place(tmp_path: Path, data: Any, place: str) -> None:
    with pytest.raises(Invalid) as error:
        read_benchmark(write_json(tmp_path / "f.json", data))
    assert place in str(error.value)
    assert "f.json" in str(error.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'[{"a": 1},\n {"b": }]', "is not JSON: line 2, column 8: Expecting value"),
        (b'{"a": 1}\n{"b": \n', "is not JSON: line 2, column 7"),
        (b"PAR1\xff\xfe", "is not UTF-8 text (byte 4); convert Parquet files to JSON first"),
        (b"\x1f\x8b\x08\x00", "is not a complete gzip file"),
        (b"9" * 5_000, "is not JSON: a number is too long"),
        (b"{}\n" + b"9" * 5_000, "is not JSON: line 2, a number is too long"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_is_not_json(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(Invalid) as error:
        read_benchmark(path)
    assert str(error.value).startswith(f"{path}: {expected}")


def test_line_separators_inside_json_lines(tmp_path: Path) -> None:
    row = {"chat": BEAM_CHAT, "probing_questions": BEAM_QUESTIONS}
    lines = [
        json.dumps({**row, "conversation_id": f"{number}\u2028"}, ensure_ascii=False)
        for number in range(2)
    ]
    path = tmp_path / "beam.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    assert len(read_benchmark(path).conversations) == 2


def test_two_sessions_with_one_id(tmp_path: Path) -> None:
    question = {**LONGMEMEVAL[0], "haystack_session_ids": ["s1", "s1", "s3"]}
    (conversation,) = read_benchmark(write_json(tmp_path / "f.json", [question])).conversations
    assert [turn.unit for turn in conversation.sessions["s1"]] == ["s1#0", "s1#1", "s1#2", "s1#3"]
    assert conversation.questions[0].gold == {"s1#0", "s1#2"}


def test_a_missing_file_and_a_folder_without_chats(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="missing.json"):
        read_benchmark(tmp_path / "missing.json")
    with pytest.raises(Invalid, match="folder"):
        read_benchmark(tmp_path)
