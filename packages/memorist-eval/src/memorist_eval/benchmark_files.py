"""Readers of benchmark files: LoCoMo, LongMemEval and BEAM, as published or as prepared by memorist.

The format is detected from the content. Errors name the file, the record and what was expected.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid
from memorist.content.message import NewMessage

LOCOMO = "locomo"
LONGMEMEVAL = "longmemeval"
BEAM = "beam"
TITLES = {LOCOMO: "LoCoMo", LONGMEMEVAL: "LongMemEval", BEAM: "BEAM"}
"""The benchmarks, with their names in reports."""

ADVERSARIAL = "5"
"""LoCoMo's category of questions that have no answer. Its evidence is a similar statement."""
MAX_SHOWN_CHARACTERS = 60
_PLAN_MARKER = re.compile(r"\s*->->\s*[\d, ]+\s*$")
_LOCOMO_EVIDENCE = re.compile(r"D:?(\d{1,9}):(\d{1,9})")
_CHAT_FILES = ("chat_trunecated.json", "chat.json")
"""Files with a chat of BEAM's repository. If a shortened chat exists, the questions are about it."""
_QUESTIONS_FILE = "probing_questions/probing_questions.json"

Unit = str | int
"""The id of a message in a file."""


@dataclass(frozen=True)
class Turn:
    """One message of a conversation; `unit` is its id in the file."""

    unit: Unit
    message: NewMessage


@dataclass(frozen=True)
class GoldQuestion:
    """A question of a file, its time, its reference answer and the units that are its evidence."""

    id: str
    text: str
    at: datetime
    type: str
    gold: frozenset[Unit]  # empty: not labelled, so its hits are not scored
    gold_sessions: frozenset[str] = frozenset()  # LongMemEval only
    answer: str = ""  # empty: the file has none
    is_answerable: bool = True  # False: the right response is that memory has no answer

    @property
    def has_reference(self) -> bool:
        """True if a judge can grade an answer."""
        return bool(self.answer) or not self.is_answerable


@dataclass(frozen=True)
class Observation:
    """A sentence of the file about a person, and the units that say so: a stand-in for a fact."""

    subject: str
    statement: str
    units: Sequence[Unit]


@dataclass(frozen=True)
class Conversation:
    """The sessions of one user, and the questions about them."""

    user: str
    sessions: dict[str, list[Turn]] = field(default_factory=dict)
    questions: list[GoldQuestion] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def end(self, place: str) -> datetime:
        """Return the day after the last message: the time of questions without a date."""
        times = [turn.message.created_at for turns in self.sessions.values() for turn in turns]
        if not times:
            raise _invalid(place, "has no messages")
        return max(at for at in times if at) + timedelta(days=1)


@dataclass(frozen=True)
class BenchmarkFile:
    """The conversations of a file, and which benchmark they belong to."""

    path: Path
    benchmark: str
    conversations: list[Conversation]

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the chats and questions of a folder."""
        paths = [self.path]
        if self.path.is_dir():
            paths = [
                file for chat in _chats(self.path) for file in (chat, chat.parent / _QUESTIONS_FILE)
            ]
        total = hashlib.sha256()
        for path in paths:
            with path.open("rb") as file:
                total.update(hashlib.file_digest(file, "sha256").digest())
        return total.hexdigest()


class Record:
    """A JSON object of a file; reading a value that is missing or wrong raises Invalid."""

    def __init__(self, value: Any, place: str) -> None:
        if not isinstance(value, Mapping):
            raise _invalid(place, f"must be an object, not {_shown(value)}")
        self.value = value
        self.place = place

    def has(self, *names: str) -> bool:
        """Return whether the object has these keys, with values other than null."""
        return all(self.value.get(name) is not None for name in names)

    def get(self, name: str) -> Any:
        """Return a required value."""
        if name not in self.value:
            keys = ", ".join(map(repr, list(self.value)[:12])) or "no keys"
            raise _invalid(self.place, f"has no {name!r}; it has {keys}")
        return self.value[name]

    def text(self, name: str) -> str:
        """Return a value as text; numbers are converted."""
        value = self.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong(name, "must be a text")
        return str(value)

    def list(self, name: str) -> list[Any]:
        """Return a list."""
        value = self.get(name)
        if not isinstance(value, list):
            raise self._wrong(name, "must be a list")
        return value

    def unit(self, name: str) -> Unit:
        """Return the id of a message."""
        value = self.get(name)
        if not isinstance(value, str | int):
            raise self._wrong(name, "must be a text or a number")
        return value

    def units(self, name: str) -> frozenset[Unit]:
        """Return a list of ids of messages."""
        values = self.list(name)
        if not all(isinstance(value, str | int) for value in values):
            raise self._wrong(name, "must be a list of texts or numbers")
        return frozenset(values)

    def records(self, name: str) -> Iterator[Record]:
        """Yield the objects of a list."""
        for number, value in enumerate(self.list(name), 1):
            yield Record(value, f"{self.place}, {name} {number}")

    def time(self, name: str, pattern: str, example: str) -> datetime:
        """Return a time that is written as in the example."""
        return parse_time(self.text(name), pattern, example, f"{self.place}, {name}")

    def role(self) -> str:
        """Return the role of a message."""
        role = self.text("role")
        if role not in ("user", "assistant", "system"):
            raise self._wrong("role", "must be 'user' or 'assistant'")
        return role

    def _wrong(self, name: str, expected: str) -> Invalid:
        return _invalid(f"{self.place}, {name}", f"{expected}, not {_shown(self.value[name])}")


def parse_time(text: str, pattern: str, example: str, place: str) -> datetime:
    """Parse a time; a day of the week in parentheses is ignored."""
    try:
        return datetime.strptime(re.sub(r" \(\w+\)", "", text), pattern).replace(tzinfo=UTC)
    except ValueError:
        raise _invalid(place, f"must be a time such as {example!r}, not {_shown(text)}") from None


def _invalid(place: str, problem: str) -> Invalid:
    return Invalid(field=place, problem=problem)


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > MAX_SHOWN_CHARACTERS:
        return f"{text[:MAX_SHOWN_CHARACTERS]}…"
    return text


def read_benchmark(path: Path) -> BenchmarkFile:
    """Return the conversations of a file, or of a folder of BEAM's repository."""
    try:
        if path.is_dir():
            benchmark = BEAM
            conversations = [_read_beam_folder(path, chat) for chat in _chats(path)]
        else:
            benchmark, conversations = _read_file(path)
    except RecursionError:
        raise _invalid(str(path), "is nested too deeply") from None
    questions = [question for item in conversations for question in item.questions]
    if not questions:
        raise _invalid(str(path), "has no questions")
    ids: set[str] = set()
    for question in questions:
        if question.id in ids:
            raise _invalid(str(path), f"has two questions with the id {question.id!r}")
        ids.add(question.id)
    return BenchmarkFile(path, benchmark, conversations)


def _read_file(path: Path) -> tuple[str, list[Conversation]]:
    data = _read_json(path)
    name = path.name
    if isinstance(data, Mapping) and {"sessions", "questions"} <= data.keys():
        return LONGMEMEVAL, [_read_pool(Record(data, name))]
    if isinstance(data, Mapping):
        data = [data]  # a single conversation
    if not isinstance(data, list) or not data:
        raise _invalid(str(path), f"must be a list of conversations, not {_shown(data)}")
    records = [Record(item, f"{name}, record {number}") for number, item in enumerate(data, 1)]
    for keys, benchmark, read in _FORMATS:
        if records[0].has(*keys):
            return benchmark, [read(record) for record in records]
    expected = "; ".join(
        f"{TITLES[name]} has "
        + ", or ".join(
            " and ".join(map(repr, keys)) for keys, benchmark, _ in _FORMATS if benchmark == name
        )
        for name in TITLES
    )
    names = ", ".join(map(repr, list(records[0].value)[:12])) or "no fields"
    problem = f"is not a LoCoMo, LongMemEval or BEAM file: its first record has {names}. Expected: {expected}"
    raise _invalid(str(path), problem)


def _read_json(path: Path) -> Any:
    """Return the JSON of a file, which may be compressed, or a list of its lines (JSON Lines)."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _invalid(str(path), f"is not a complete gzip file: {error}") from None
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start}); convert Parquet files to JSON first"
        raise _invalid(str(path), problem) from None
    except OSError as error:
        raise _invalid(str(path), f"cannot be read: {error.strerror or error}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise _not_json(path, error, error.lineno) from None
    except ValueError as error:
        raise _not_json(path, error) from None
    values = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values.append(json.loads(line))
            except ValueError as error:
                raise _not_json(path, error, number) from None
    return values


def _not_json(path: Path, error: ValueError, line: int | None = None) -> Invalid:
    problem = "a number is too long"  # the only other ValueError of the parser
    if isinstance(error, json.JSONDecodeError):
        problem = f"column {error.colno}: {error.msg}"
    place = "" if line is None else f"line {line}, "
    return _invalid(str(path), f"is not JSON: {place}{problem}")


# LoCoMo: two people talk in dated sessions; images have captions.

_LOCOMO_TIME = ("%I:%M %p on %d %B, %Y", "1:56 pm on 8 May, 2023")


def _read_locomo(record: Record) -> Conversation:
    """Read LoCoMo as published (`locomo10.json`)."""
    conversation = Conversation(record.text("sample_id"))
    sessions = Record(record.get("conversation"), f"{record.place}, conversation")
    numbers = (re.fullmatch(r"session_(\d{1,9})", name) for name in sessions.value)
    for number in sorted(int(match[1]) for match in numbers if match):
        turns = sessions.records(f"session_{number}")
        at = sessions.time(f"session_{number}_date_time", *_LOCOMO_TIME)
        conversation.sessions[f"{conversation.user}/{number}"] = [
            _locomo_turn(turn, "dia_id", "blip_caption", at) for turn in turns
        ]
    end = conversation.end(record.place)
    units = {turn.unit for turns in conversation.sessions.values() for turn in turns}
    for index, question in enumerate(record.records("qa")):
        evidence = units.intersection(_locomo_units(question.value.get("evidence")))
        id = f"{conversation.user}/{index}"
        conversation.questions.append(_locomo_question(question, id, frozenset(evidence), end))
    return conversation


def _read_prepared_locomo(record: Record) -> Conversation:
    """Read LoCoMo as prepared by memorist: turns with dates, and repaired evidence."""
    conversation = Conversation(record.text("sample_id"))
    for turn in record.records("turns"):
        session = f"{conversation.user}/{turn.text('session')}"
        at = turn.time("date", *_LOCOMO_TIME)
        conversation.sessions.setdefault(session, []).append(
            _locomo_turn(turn, "id", "caption", at)
        )
    for observation in record.list("observations") if record.has("observations") else ():
        if not isinstance(observation, list) or len(observation) != 4:
            problem = "must be lists of a session, a subject, a statement and evidence"
            raise _invalid(f"{record.place}, observations", f"{problem}, not {_shown(observation)}")
        _, subject, statement, evidence = observation
        units = re.findall(r"D\d+:\d+", str(evidence))
        conversation.observations.append(Observation(str(subject), str(statement), units))
    end = conversation.end(record.place)
    for question in record.records("questions"):
        evidence = question.units("evidence")
        id = question.text("id")
        conversation.questions.append(_locomo_question(question, id, evidence, end))
    return conversation


def _locomo_turn(turn: Record, id: str, caption: str, at: datetime) -> Turn:
    content: dict[str, Any] = {"text": turn.text("text") if turn.has("text") else ""}
    if turn.value.get(caption):
        content["attachments"] = [{"type": "image", "description": turn.text(caption)}]
    message = NewMessage("user", content, author=turn.text("speaker"), created_at=at)
    return Turn(turn.text(id), message)


def _locomo_question(
    question: Record, id: str, evidence: frozenset[Unit], at: datetime
) -> GoldQuestion:
    category = question.text("category")
    is_answerable = category != ADVERSARIAL
    answer = question.text("answer") if is_answerable else ""
    text = question.text("question")
    return GoldQuestion(
        id, text, at, category, evidence, answer=answer, is_answerable=is_answerable
    )


def _locomo_units(evidence: Any) -> set[Unit]:
    """Return the units that evidence names; some of it is written as `D8:6; D9:17` or `D:11:26`."""
    pairs = _LOCOMO_EVIDENCE.findall(str(evidence))
    return {f"D{int(session)}:{int(turn)}" for session, turn in pairs}


# LongMemEval: sessions of a user with an assistant, and dated questions.

_LONGMEMEVAL_TIME = ("%Y/%m/%d %H:%M", "2023/05/28 (Sun) 06:47")


def _read_longmemeval(record: Record) -> Conversation:
    """Read one question of LongMemEval as published, which has its own haystack of sessions."""
    id = record.text("question_id")
    place = f"{record.place} (question_id {id!r})"
    record = Record(record.value, place)
    conversation = Conversation(id)
    names = [str(name) for name in record.list("haystack_session_ids")]
    dates = record.list("haystack_dates")
    sessions = record.list("haystack_sessions")
    if not len(names) == len(dates) == len(sessions):
        counts = f"{len(names)} ids, {len(dates)} dates and {len(sessions)} sessions"
        raise _invalid(place, f"must have as many ids and dates as sessions, but has {counts}")
    gold: set[Unit] = set()
    for name, date, session in zip(names, dates, sessions, strict=True):
        at = parse_time(str(date), *_LONGMEMEVAL_TIME, f"{place}, haystack_dates")
        turns = conversation.sessions.setdefault(name, [])  # a name may occur again
        for turn in Record({name: session}, place).records(name):
            unit = f"{name}#{len(turns)}"
            message = NewMessage(turn.role(), turn.text("content"), created_at=at)
            turns.append(Turn(unit, message))
            if turn.value.get("has_answer"):
                gold.add(unit)
    is_answerable = not id.endswith("_abs")
    conversation.questions.append(
        GoldQuestion(
            id=id,
            text=record.text("question"),
            at=record.time("question_date", *_LONGMEMEVAL_TIME),
            type=record.text("question_type") if is_answerable else "abstention",
            gold=frozenset(gold) if is_answerable else frozenset(),
            gold_sessions=frozenset(map(str, record.list("answer_session_ids")))
            if is_answerable
            else frozenset(),
            answer=record.text("answer"),
            is_answerable=is_answerable,
        )
    )
    return conversation


def _read_pool(record: Record) -> Conversation:
    """Read LongMemEval as prepared by memorist: one pool of sessions for all questions."""
    conversation = Conversation("pool")
    for session in record.records("sessions"):
        id = session.text("id")
        if id in conversation.sessions:
            raise _invalid(session.place, f"has the id {id!r} of an earlier session")
        at = session.time("date", *_LONGMEMEVAL_TIME)
        conversation.sessions[id] = [
            Turn(f"{id}#{index}", NewMessage(turn.role(), turn.text("content"), created_at=at))
            for index, turn in enumerate(session.records("turns"))
        ]
    for question in record.records("questions"):
        conversation.questions.append(
            GoldQuestion(
                question.text("id"),
                question.text("question"),
                question.time("question_date", *_LONGMEMEVAL_TIME),
                question.text("type"),
                question.units("gold_turns"),
                frozenset(map(str, question.list("gold_sessions"))),
                question.text("answer") if question.has("answer") else "",
            )
        )
    return conversation


# BEAM: one very long chat of a user with an assistant.

_BEAM_TIME = ("%B-%d-%Y", "March-15-2024")
_BEAM_ANSWERS = ("answer", "ideal_response", "ideal_answer", "ideal_summary")


def _read_prepared_beam(record: Record) -> Conversation:
    """Read BEAM as prepared by memorist: messages with dates, and questions with evidence."""
    conversation = Conversation(record.text("name"))
    conversation.sessions[f"chat {conversation.user}"] = [
        Turn(
            message.unit("id"),
            NewMessage(
                message.role(),
                message.text("text"),
                created_at=message.time("date", *_BEAM_TIME),
            ),
        )
        for message in record.records("messages")
    ]
    end = conversation.end(record.place)
    for question in record.records("questions"):
        type = question.text("type")
        conversation.questions.append(
            GoldQuestion(
                question.text("id"),
                question.text("question"),
                end,
                type,
                question.units("evidence"),
                answer=question.text("answer") if question.has("answer") else "",
                is_answerable=type != "abstention",
            )
        )
    return conversation


def _read_beam(record: Record) -> Conversation:
    """Read a row of BEAM's dataset as JSON: `chat` and `probing_questions`."""
    name = record.text("conversation_id") if record.has("conversation_id") else record.place
    questions = record.get("probing_questions")
    if isinstance(questions, str):
        questions = _literal(questions, f"{record.place}, probing_questions")
    return _beam_conversation(name, record.get("chat"), questions, record.place)


def _read_beam_folder(root: Path, chat: Path) -> Conversation:
    """Read a chat of BEAM's repository, and its questions."""
    questions = chat.parent / _QUESTIONS_FILE
    name = chat.parent.relative_to(root.parent).as_posix()
    return _beam_conversation(name, _read_json(chat), _read_json(questions), str(questions))


def _chats(root: Path) -> list[Path]:
    """Return the chats of a folder that have questions, in the order of their numbers."""
    folders = {path.parent.parent for path in root.rglob(_QUESTIONS_FILE)}
    chats = []
    for folder in sorted(folders, key=lambda folder: (len(folder.name), str(folder))):
        files = [folder / name for name in _CHAT_FILES if (folder / name).is_file()]
        chats += files[:1]
    if not chats:
        problem = f"is a folder without chats of BEAM: N/chat.json and N/{_QUESTIONS_FILE}"
        raise _invalid(str(root), problem)
    return chats


def _beam_conversation(name: str, chat: Any, questions: Any, place: str) -> Conversation:
    conversation = Conversation(name)
    turns = []
    at: datetime | None = None
    for message in _beam_messages(chat, f"{place}, chat"):
        if message.value.get("time_anchor"):  # of the messages until the next one
            at = message.time("time_anchor", *_BEAM_TIME)
        if at is None:
            break
        text = _PLAN_MARKER.sub("", message.text("content"))
        turns.append(Turn(message.unit("id"), NewMessage(message.role(), text, created_at=at)))
    if not turns:
        raise _invalid(f"{place}, chat", "must have messages, the first one with a 'time_anchor'")
    conversation.sessions[f"chat {name}"] = turns
    end = conversation.end(place)
    types = Record(questions, f"{place}, probing_questions")
    for type in types.value:
        for index, question in enumerate(types.records(type)):
            conversation.questions.append(
                GoldQuestion(
                    f"{name}/{type}/{index}",
                    question.text("question"),
                    end,
                    type,
                    frozenset(_numbers(question.value.get("source_chat_ids"))),
                    answer=_beam_answer(question),
                    is_answerable=type != "abstention",
                )
            )
    return conversation


def _beam_messages(value: Any, place: str) -> Iterator[Record]:
    """Yield the messages of a chat, which are nested in batches and turns."""
    if isinstance(value, list):
        for item in value:
            yield from _beam_messages(item, place)
    elif isinstance(value, Mapping) and "turns" in value:
        yield from _beam_messages(value["turns"], place)
    else:
        yield Record(value, place)


def _beam_answer(question: Record) -> str:
    for name in _BEAM_ANSWERS:
        if question.value.get(name):
            return question.text(name)
    return "\n".join(map(str, question.list("rubric"))) if question.has("rubric") else ""


def _numbers(value: Any) -> Iterator[int]:
    """Yield the message ids in evidence: a list, or an object of lists."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int):
        yield value


def _literal(text: str, place: str) -> Any:
    """Parse an object that the dataset stores as a Python literal or as JSON."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(text)
        except (ValueError, SyntaxError, TypeError, MemoryError):
            continue
    raise _invalid(place, f"must be an object, not {_shown(text)}")


_FORMATS: Sequence[tuple[tuple[str, ...], str, Callable[[Record], Conversation]]] = (
    (("conversation", "qa"), LOCOMO, _read_locomo),
    (("haystack_sessions", "question"), LONGMEMEVAL, _read_longmemeval),
    (("chat", "probing_questions"), BEAM, _read_beam),
    (("turns", "questions"), LOCOMO, _read_prepared_locomo),
    (("messages", "questions"), BEAM, _read_prepared_beam),
)
"""The keys of a record, the benchmark and the reader of each format."""
