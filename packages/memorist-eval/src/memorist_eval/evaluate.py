"""Run the questions of benchmark files against memorist, each conversation in a new database.

Only `search` and `context` see the questions. The results are written question by question, so that an
interrupted run can be continued.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memorist.base import clock
from memorist.base.errors import Invalid, ModelError
from memorist.base.settings import Settings
from memorist.context.report import Report
from memorist.jobs import learn, reindex
from memorist.jobs.embed import EmbedJob
from memorist.jobs.job import Job
from memorist.jobs.runner import JobRunner
from memorist.kinds.kind import Services
from memorist.memory import Memory, Scope
from memorist.models import ChatModel, Model
from memorist.models.circuit_breaker import PAUSE_HINT
from memorist.models.provider import KEY_HINT
from memorist.storage.files import writing
from memorist_eval.benchmark_files import BenchmarkFile, Conversation, GoldQuestion, Unit
from memorist_eval.judge import answer_question, judge_answer

HITS_PER_QUESTION = 60
MESSAGES_PER_WRITE = 500
MAX_FAILURES_IN_A_ROW = 5
"""The run stops after this many failed model calls: the service or its settings are wrong."""
AGENT = "assistant"
QUESTION_SESSION = "memorist eval: the question"

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Result:
    """The result of one question."""

    id: str
    ranked: list[Unit]  # the units of the hits, best first
    search_ms: float
    context_ms: float
    context_tokens: int
    context_units: list[Unit]  # the units in the context
    answer: str = ""
    verdict: str = ""  # correct, wrong or unclear; empty: not judged
    verdict_reply: str = ""
    error: str = ""  # of the model or the judge


class ResultFile:
    """The results of one benchmark file, as JSON Lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[str, Result] = {}
        if path.is_file():
            self._read()

    def _read(self) -> None:
        data = self.path.read_bytes()
        lines = data.split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                result = _parse_result(line)
            except (ValueError, TypeError, RecursionError):
                if number == len(lines):
                    continue  # the run was killed while it wrote this line
                problem = f"line {number} is not a result of `memorist eval`; choose another --out"
                raise Invalid(field=str(self.path), problem=problem) from None
            self.results[result.id] = result
        # Rewrite the file without an unfinished line and with one line per question.
        text = "".join(f"{_json(asdict(result))}\n" for result in self.results.values())
        if text.encode() != data:
            with writing(self.path, replace=True) as file:
                file.write(text.encode())

    def add(self, result: Result) -> None:
        """Append a result to the file."""
        self.results[result.id] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{_json(asdict(result))}\n")


def _parse_result(line: bytes) -> Result:
    """Return the result of a line; raise ValueError or TypeError if it is none."""
    result = Result(**json.loads(line.decode()))
    texts = (result.id, result.answer, result.verdict, result.verdict_reply, result.error)
    numbers = (result.search_ms, result.context_ms, result.context_tokens)
    units = [*result.ranked, *result.context_units]
    if not (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, int | float) for number in numbers)
        and all(isinstance(unit, str | int) for unit in units)
    ):
        raise TypeError
    return result


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@dataclass
class QuestionClock:
    """A clock that returns the time of the current question, or the real time before the first one."""

    at: datetime | None = None

    def __call__(self) -> int:
        """Return the time in microseconds."""
        return clock.now() if self.at is None else clock.from_datetime(self.at, "at")


@dataclass
class Evaluation:
    """The settings and models of a run.

    model and judge: None to measure retrieval only
    """

    settings: Settings
    model: ChatModel | None = None
    judge: Model | None = None
    failures: list[ModelError] = field(default_factory=list, init=False)  # in a row

    def run(
        self,
        file: BenchmarkFile,
        questions: Sequence[GoldQuestion],
        results: ResultFile,
        progress: Progress,
    ) -> None:
        """Ask the questions that have no result yet, and add their results."""
        open_ids = {
            question.id
            for question in questions
            if not self._is_done(question, results.results.get(question.id))
        }
        finished = len(questions) - len(open_ids)
        progress(finished, len(questions))
        for conversation in file.conversations:
            own = [question for question in conversation.questions if question.id in open_ids]
            if not own:
                continue
            for result in self._ask(conversation, own):
                results.add(result)
                finished += 1
                progress(finished, len(questions))

    def _is_done(self, question: GoldQuestion, result: Result | None) -> bool:
        if result is None:
            return False
        if self.model is None or not question.has_reference:
            return True
        return bool(result.answer) and not result.error

    def _ask(
        self, conversation: Conversation, questions: Sequence[GoldQuestion]
    ) -> Iterator[Result]:
        """Load a conversation into a new database, and yield the result of each question."""
        now = QuestionClock()
        with (
            tempfile.TemporaryDirectory(prefix="memorist-eval-") as folder,
            Memory.open(
                settings=replace(
                    self.settings,
                    database=f"sqlite:///{folder}/eval.db",
                    ref_folder="",
                    events="off",
                ),
                clock=now,
            ) as memory,
        ):
            scope = memory.scope(user=conversation.user, agent=AGENT)
            units = load_conversation(scope, conversation)
            learn_and_embed(memory)
            scope.sessions.add(QUESTION_SESSION)
            scope.search(questions[0].text)  # loads models and caches
            for question in questions:
                now.at = question.at
                yield self._result(scope, question, units)

    def _result(
        self, scope: Scope, question: GoldQuestion, units: Mapping[tuple[str, int], Unit]
    ) -> Result:
        started = time.perf_counter()
        hits = scope.search(
            question.text, kinds=["messages"], at=question.at, limit=HITS_PER_QUESTION
        )
        searched = time.perf_counter()
        context = scope.context(QUESTION_SESSION, question.text)
        assembled = time.perf_counter()
        result = Result(
            question.id,
            list(dict.fromkeys(units[hit.id, hit.seq] for hit in hits)),
            round((searched - started) * 1000, 3),
            round((assembled - searched) * 1000, 3),
            context.report.tokens,
            _units_of(context.report, units),
        )
        if self.model is None or not question.has_reference:
            return result
        return self._answered(result, question, context.messages)

    def _answered(
        self, result: Result, question: GoldQuestion, messages: Sequence[Mapping[str, Any]]
    ) -> Result:
        """Return a result with an answer and a verdict, or with the error of a model."""
        assert self.model is not None
        assert self.judge is not None
        try:
            result = replace(result, answer=answer_question(self.model, messages, question.at))
            verdict, reply = judge_answer(self.judge, question, result.answer)
        except ModelError as error:
            self.failures.append(error)
            if KEY_HINT.format("") in str(error):
                raise
            if len(self.failures) >= MAX_FAILURES_IN_A_ROW:
                causes = [cause for cause in self.failures if PAUSE_HINT not in str(cause)]
                raise (causes or self.failures)[-1] from None
            return replace(result, error=str(error))
        self.failures.clear()
        return replace(result, verdict=verdict, verdict_reply=reply)


def _units_of(report: Report, units: Mapping[tuple[str, int], Unit]) -> list[Unit]:
    """Return the units that a context contains."""
    contained: dict[Unit, None] = {}
    for item in report.items:
        kind, _, id = item.source.partition(" ")
        session, _, seq = id.rpartition(" ")
        if kind == "messages" and seq.isdigit() and (session, int(seq)) in units:
            contained[units[session, int(seq)]] = None
    return list(contained)


def load_conversation(scope: Scope, conversation: Conversation) -> dict[tuple[str, int], Unit]:
    """Store the messages of a conversation; return the unit of each, by session and number."""
    units: dict[tuple[str, int], Unit] = {}
    for id, turns in conversation.sessions.items():
        scope.sessions.add(id)
        for start in range(0, len(turns), MESSAGES_PER_WRITE):
            part = turns[start : start + MESSAGES_PER_WRITE]
            stored = scope.messages.extend(id, [turn.message for turn in part])
            for message, turn in zip(stored, part, strict=True):
                units[id, message.seq] = turn.unit
    return units


def learn_and_embed(memory: Memory) -> None:
    """Learn facts as the settings say, and embed all texts; raise ModelError if some fail."""
    services = memory.services
    settings = services.settings
    model = settings.summary_model or settings.model
    left = _finish_job(services, Job("facts", learn.run), model)
    if left:
        problem = f"is too low to learn the facts of {left} sessions; set it to 0, or facts to off"
        raise Invalid(field="facts_tokens_per_day", problem=problem)
    embedder = services.embedder
    model = embedder.identity if embedder else "none"
    _finish_job(services, Job("index", reindex.run), model)
    _finish_job(services, Job("vectors", EmbedJob().run), model)


def _finish_job(services: Services, job: Job, model: str) -> int:
    """Run a job until it does no more; return how many items are left."""
    runner = JobRunner(services, [job])
    while True:
        result = runner.run().jobs[job.name]
        if result.failed or result.errors:
            reason = "; ".join(result.errors) or f"{result.failed} texts failed"
            raise ModelError(model=model, problem=f"the job {job.name!r} failed: {reason}")
        if not result.left or not result.done:
            return result.left


def choose_questions(file: BenchmarkFile, limit: int | None) -> list[GoldQuestion]:
    """Return the questions of a file, or `limit` of them, evenly spread over the file."""
    questions = [question for item in file.conversations for question in item.questions]
    if limit is None or limit >= len(questions):
        return questions
    return [questions[index * len(questions) // limit] for index in range(limit)]
