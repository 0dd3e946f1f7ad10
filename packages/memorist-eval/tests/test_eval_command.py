"""`memorist eval`: retrieval, answers with a judge, reports, resuming, bad input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
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

from memorist.base.errors import FileInUse
from memorist.storage.files import claim
from memorist.testing import ModelRequest
from memorist_eval import judge
from memorist_eval.command import RUN_NAME
from memorist_eval.evaluate import Evaluation
from testkit.commands import Run
from testkit.databases import one_engine
from testkit.limited import Limited
from testkit.model_service import FakeService

pytestmark = one_engine

Evaluate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def evaluate(run: Run, tmp_path: Path) -> Evaluate:
    """Run `memorist eval …` with the built-in embedder, in a folder with a LoCoMo file."""
    write_locomo(tmp_path)
    return lambda arguments, **more: run(
        f"memorist eval {arguments}", MEMORIST_EMBEDDER="static", **more
    )


def model_of(service: FakeService) -> dict[str, str]:
    """Return the settings for a model of this service."""
    return {"MEMORIST_MODEL": "fake", "MEMORIST_BASE_URL": service.url}


def report_of(folder: Path) -> dict[str, Any]:
    """Return the report of a run as JSON."""
    report = json.loads((folder / "report.json").read_text())
    assert isinstance(report, dict)
    return report


def test_retrieval_of_all_three(evaluate: Evaluate, tmp_path: Path) -> None:
    """The user's own database does not change."""
    database = (tmp_path / "agent.db").read_bytes()
    write_json(tmp_path / "lme.json.gz", LONGMEMEVAL)
    write_json(tmp_path / "chats" / "1" / "chat.json", BEAM_CHAT)
    questions = tmp_path / "chats" / "1" / "probing_questions" / "probing_questions.json"
    write_json(questions, BEAM_QUESTIONS)
    done = evaluate("locomo.json lme.json.gz chats --json")
    assert done.returncode == 0, done.stderr
    assert "lme.json.gz (LongMemEval): 2 questions" in done.stderr
    assert "lme.json.gz (LongMemEval): 1 of 2" in done.stderr
    report = json.loads(done.stdout)
    assert report == report_of(tmp_path / "memorist-eval")
    assert report["complete"]
    assert report["settings"] == {"embedder": "static-256@2"}
    locomo, longmemeval, beam = report["files"]
    assert locomo["messages"] == 4
    assert [group["questions"] for group in locomo["retrieval"]] == [2, 1, 3]
    assert locomo["retrieval"][0]["R@5"] == 1.0
    assert locomo["context"]["tokens_mean"] > 0
    assert locomo["context"]["evidence"] > 0
    assert locomo["times_ms"]["search"]["p95"] >= locomo["times_ms"]["search"]["p50"] > 0
    assert [group["name"] for group in longmemeval["retrieval"]] == ["sessions", "messages"]
    assert longmemeval["retrieval"][0]["questions"] == 1  # not the abstention
    assert [group["questions"] for group in beam["retrieval"]] == [2, 3]
    assert (tmp_path / "agent.db").read_bytes() == database


def test_the_report(evaluate: Evaluate, tmp_path: Path) -> None:
    done = evaluate("locomo.json --out results")
    assert "categories 1–4" in done.stdout
    assert "The report is results/report.md." in done.stdout
    assert not list((tmp_path / "results").glob("*.new"))
    text = (tmp_path / "results" / "report.md").read_text()
    assert "| embedder | static-256@2 |" in text
    assert "## LoCoMo: locomo.json" in text
    assert "1 conversations, 4 messages, 4 questions." in text
    assert "| 1 multi-hop | 1 |" in text
    assert 'x-axis ["1 multi-hop", "4 single-hop", "5 adversarial"]' in text
    assert "| search |" in text
    assert "### Answers" not in text


def test_only_and_limit(evaluate: Evaluate, tmp_path: Path) -> None:
    write_json(tmp_path / "lme.json", LONGMEMEVAL)
    done = evaluate("locomo.json lme.json --only locomo --limit 2")
    assert "lme.json: LongMemEval, skipped because of --only." in done.stderr
    report = report_of(tmp_path / "memorist-eval")
    assert [(file["selected"], file["asked"]) for file in report["files"]] == [(2, 2)]
    (results,) = (tmp_path / "memorist-eval").glob("*.jsonl")
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["talk-1/0", "talk-1/2"]  # spread over the file
    done = evaluate("lme.json --only beam")
    assert done.returncode == 2
    assert "--only: none of the files is BEAM." in done.stderr


def reply(request: ModelRequest) -> str:
    """Answer as a model that knows about Bergen only, or as its judge."""
    if request.system == judge.JUDGE_SYSTEM:
        if "Reference answer: Bergen" in request.prompt:
            return "<think>Is it wrong? No.</think>**CORRECT**. The town is right."
        if "do not contain an answer" in request.prompt:
            return "correct"
        return "Maybe." if "Reference answer: 0" in request.prompt else "WRONG"
    return "In Bergen."


def test_answers_with_a_judge(evaluate: Evaluate, tmp_path: Path) -> None:
    with FakeService(reply) as service, FakeService(reply) as other:
        done = evaluate(
            f"locomo.json --answers --judge-model strict --judge-url {other.url} "
            "--judge-key-variable JUDGE_KEY",
            **model_of(service),
            MEMORIST_API_KEY="sk-model",
            JUDGE_KEY="sk-judge",
        )
        assert done.returncode == 0, done.stderr
        assert len(service.requests) == len(other.requests) == 4
        prompt = str(service.requests[0].body)
        assert "I bought a kayak in Bergen." in prompt
        assert "Today is 4 June 2024." in prompt
        assert other.requests[0].headers["authorization"] == "Bearer sk-judge"
        assert other.requests[0].body["model"] == "strict"
    (file,) = report_of(tmp_path / "memorist-eval")["files"]
    rows = {group["name"]: group for group in file["answers"]}
    assert rows["4 single-hop"]["correct"] == 1
    assert rows["5 adversarial"]["correct"] == 1
    assert rows["1 multi-hop"]["wrong"] == 1
    assert rows["3 open"]["unclear"] == 1
    assert rows["all"]["accuracy"] == 0.5
    text = (tmp_path / "memorist-eval" / "report.md").read_text()
    assert judge.JUDGE_PROMPT in text
    assert "The judge strict got the system prompt:" in text
    assert "| all | 4 | 2 | 1 | 1 | 0 | 0 | 0.500 |" in text
    assert "sk-" not in text
    for file_of_run in (tmp_path / "memorist-eval").iterdir():
        assert "sk-" not in file_of_run.read_text()


def test_failed_answers_are_counted_and_asked_again(evaluate: Evaluate, tmp_path: Path) -> None:
    with FakeService(reply) as service:
        model = model_of(service)
        service.misbehave("junk", times=1)
        done = evaluate("locomo.json --answers", **model)
        assert done.returncode == 7
        assert "1 of 4 questions failed" in done.stderr
        assert "No result was saved. The same command asks them again." in done.stderr
        assert "Not finished" not in done.stderr
        report = report_of(tmp_path / "memorist-eval")
        assert not report["complete"]
        (file,) = report["files"]
        assert file["answers"][-1]["failed"] == 1
        assert file["answers"][-1]["questions"] == 4
        service.requests.clear()
        done = evaluate("locomo.json --answers", **model)
        assert done.returncode == 0, done.stderr
        assert len(service.requests) == 2  # the failed question and its verdict
        (file,) = report_of(tmp_path / "memorist-eval")["files"]
        assert file["answers"][-1]["failed"] == 0
    # The accuracy is that of the file; the rows of the table are groups of questions.
    (line,) = [line for line in done.stdout.splitlines() if "0.500 of 4 questions" in line]
    assert line.startswith("locomo.json: search p95 ")
    (heads,) = [line for line in done.stdout.splitlines() if "R@10" in line]
    assert "accuracy" not in heads


@pytest.mark.parametrize(
    ("misbehaviour", "counted", "status"),
    [("", "unclear", 0), ("injection", "unclear", 0), ("junk", "failed", 7)],
)
def test_an_unusable_reply_of_the_judge_is_counted(
    evaluate: Evaluate, tmp_path: Path, misbehaviour: str, counted: str, status: int
) -> None:
    with FakeService("An answer.") as service, FakeService("I like cake.") as other:
        other.misbehave(misbehaviour)
        done = evaluate(
            f"locomo.json --answers --judge-url {other.url}",
            **model_of(service),
            MEMORIST_API_KEY="sk-model",
        )
        assert done.returncode == status, done.stderr
        assert "sk-model" not in str(other.requests)  # another address
    (file,) = report_of(tmp_path / "memorist-eval")["files"]
    row = file["answers"][-1]
    assert (row[counted], row["accuracy"]) == (4, 0.0)


def test_sigterm_ends_the_run_with_a_report(
    evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The temporary database is removed."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    def stop(*_: object) -> None:
        assert list(temporary.iterdir())
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Evaluation, "_result", stop)
    previous_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(99))
    try:
        done = evaluate("locomo.json")
    finally:
        signal.signal(signal.SIGTERM, previous_handler)
    assert done.returncode == 130
    assert "**Incomplete**" in (tmp_path / "memorist-eval" / "report.md").read_text()
    assert not list(temporary.iterdir())


def test_verdicts_of_another_judge_are_not_mixed(evaluate: Evaluate, tmp_path: Path) -> None:
    with FakeService(reply) as service:
        address = service.url.replace("//", "//me:secret@") + "?key=secret"
        model = model_of(service)
        assert evaluate(f"locomo.json --answers --judge-url {service.url}", **model).returncode == 0
        settings = report_of(tmp_path / "memorist-eval")["settings"]
        assert settings["base_url"] == settings["judge_url"] == service.url
        other = evaluate("locomo.json --answers --judge-url http://127.0.0.1:1/v1", **model)
        assert other.returncode == 2
        assert "other settings" in other.stderr
        same = evaluate(f"locomo.json --answers --judge-url {address}", **model)
    assert same.returncode == 0, same.stderr
    for file in (tmp_path / "memorist-eval").iterdir():
        assert "secret" not in file.read_text()


def test_a_file_without_evidence(evaluate: Evaluate, tmp_path: Path) -> None:
    talk = {**LOCOMO[0], "qa": [LOCOMO[0]["qa"][2]]}
    write_json(tmp_path / "locomo.json", [talk])
    done = evaluate("locomo.json")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines() if "–" in line] == [
        ["locomo.json", "–", "0", "–", "–", "–"]
    ]
    text = (tmp_path / "memorist-eval" / "report.md").read_text()
    assert "| – | 0 | – |" in text
    assert "of the evidence." not in text


def test_a_question_without_a_reference_and_a_file_named_twice(
    evaluate: Evaluate, tmp_path: Path
) -> None:
    """Neither is measured twice."""
    question = {**LOCOMO[0]["qa"][0], "answer": ""}
    write_json(tmp_path / "locomo.json", [{**LOCOMO[0], "qa": [question]}])
    texts = []
    for _ in range(2):
        done = evaluate("locomo.json locomo.json --answers --set model=m")
        assert done.returncode == 0, done.stderr
        assert len(report_of(tmp_path / "memorist-eval")["files"]) == 1
        (results,) = (tmp_path / "memorist-eval").glob("*.jsonl")
        texts.append(results.read_text())
    assert len(texts[0].splitlines()) == 1
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        ("missing.json", 2, "missing.json: cannot be read: No such file or directory."),
        ("bad.json", 2, "bad.json: is not a LoCoMo, LongMemEval or BEAM file"),
        ("locomo.json --limit 0", 2, "--limit: must be at least 1."),
        ("locomo.json --judge-model x", 2, "--judge-model: requires --answers."),
        ("locomo.json --answers", 2, "--answers: requires a model: set `model`"),
        ("locomo.json --database memory:", 2, "--database: is not used"),
        ("locomo.json --user ada", 2, "--user"),
        (
            "locomo.json --answers --set model=m --judge-key-variable NO_SUCH",
            2,
            "names the environment variable NO_SUCH, which is not set.",
        ),
        ("locomo.json --out locomo.json", 2, "--out: locomo.json cannot be written"),
    ],
)
def test_bad_input(
    evaluate: Evaluate, tmp_path: Path, arguments: str, status: int, expected: str
) -> None:
    write_json(tmp_path / "bad.json", [{"rows": []}])
    done = evaluate(arguments)
    assert done.returncode == status
    assert expected in done.stderr
    assert not (tmp_path / "memorist-eval").exists()


def test_results_with_other_settings_are_not_mixed(evaluate: Evaluate, tmp_path: Path) -> None:
    assert evaluate("locomo.json").returncode == 0
    done = evaluate("locomo.json --set embedder=none")
    assert done.returncode == 2
    assert "memorist-eval has results" in done.stderr
    (tmp_path / "memorist-eval" / "run.json").write_bytes(b'{"memorist": "\xc3')  # damaged
    done = evaluate("locomo.json")
    assert done.returncode == 2
    assert "memorist-eval has results" in done.stderr


def test_a_second_run_into_one_folder_says_that_one_is_running(
    evaluate: Evaluate, tmp_path: Path
) -> None:
    folder = tmp_path / "memorist-eval"
    folder.mkdir()
    with claim(folder / RUN_NAME):
        done = evaluate("locomo.json")
        assert done.returncode == FileInUse.exit_code
        assert [path.name for path in folder.iterdir()] == [".run.lock"]
    assert evaluate("locomo.json").returncode == 0
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("misbehaviour", "most", "cause"),
    [
        ("junk", 2, "Not finished. memorist-eval/report.md has the results so far"),
        ("refused", 20, "check api_key"),
        (
            "away",
            4,
            "its service cannot be reached",
        ),  # not the circuit breaker that ends later calls
        ("500 after a bad answer", 3, "its service responded with 500"),
    ],
)
def test_a_service_that_fails_ends_the_run_and_is_named_as_the_cause(
    evaluate: Evaluate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limited: Limited,
    misbehaviour: str,
    most: int,
    cause: str,
) -> None:
    """The results so far are in the report."""
    monkeypatch.setattr("memorist_eval.evaluate.MAX_FAILURES_IN_A_ROW", most)
    if "500" in misbehaviour:
        limited(MODEL_RETRIES=0)

    def answer_once(request: ModelRequest) -> str:
        service.misbehave("500")
        return ""

    with FakeService(answer_once if "500" in misbehaviour else reply) as service:
        if misbehaviour in ("junk", "refused"):
            service.misbehave(misbehaviour)
        if misbehaviour != "away":
            done = evaluate("locomo.json --answers", **model_of(service))
    if misbehaviour == "away":
        done = evaluate("locomo.json --answers", **model_of(service))
    assert done.returncode == 7
    assert cause in done.stderr
    if misbehaviour == "junk":
        text = (tmp_path / "memorist-eval" / "report.md").read_text()
        assert "**Incomplete**" in text
        assert "4 questions; 1 have results." in text
    else:
        assert "in a row" not in done.stderr
    if misbehaviour == "refused":
        assert len(service.requests) == 1
