"""`memorist eval`: measure search, contexts and answers on LoCoMo, LongMemEval and BEAM files."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorist.base.errors import Invalid, ModelError
from memorist.base.settings import FIELDS, Settings
from memorist.base.version import VERSION
from memorist.cli.command import Arguments, Command, load_settings
from memorist.cli.jobs_command import stop_on_sigterm
from memorist.cli.output import plain, print_table, progress
from memorist.models import Model, Models
from memorist.models.model import NO_KEY
from memorist.search import embedders
from memorist.storage.files import claim, umask, writing
from memorist_eval.benchmark_files import TITLES, BenchmarkFile, GoldQuestion, read_benchmark
from memorist_eval.evaluate import (
    Evaluation,
    Progress,
    ResultFile,
    choose_questions,
)
from memorist_eval.judge import as_chat_model
from memorist_eval.report import render_report
from memorist_eval.scores import summarize

RUN_FILE = "run.json"
RUN_NAME = "run"
"""The name in the folder that a run claims, so that there is one at a time."""
_SETTINGS_OF_ANSWERS = ("model", "base_url")
_IGNORED_SETTINGS = {"database", "tenant", "user", "agent", "ref_folder"}
_JUDGE_OPTIONS = ("judge_model", "judge_url", "judge_key_variable")


def evaluate(arguments: Arguments) -> int:
    """Run the questions, and write the results and the report."""
    if arguments.database is not None:
        problem = "is not used: `memorist eval` creates a temporary database for each conversation"
        raise Invalid(field="--database", problem=problem)
    if arguments.limit is not None and arguments.limit < 1:
        raise Invalid(field="--limit", problem="must be at least 1")
    settings = replace(load_settings(arguments), database="memory:")
    evaluation = _evaluation(arguments, settings)
    files = list(_read_files(arguments))
    folder = Path(arguments.out)
    description = _describe(settings, evaluation, arguments.judge_url)
    _create_folder(folder)
    with claim(folder / RUN_NAME):
        return _continue(arguments, evaluation, files, description, folder)


def _continue(
    arguments: Arguments,
    evaluation: Evaluation,
    files: Sequence[BenchmarkFile],
    description: dict[str, Any],
    folder: Path,
) -> int:
    """Run the questions that have no result in the folder yet."""
    _check_description(folder / RUN_FILE, description)
    runs_by_path: dict[Path, _Run] = {}
    for file in files:
        run = _Run(file, choose_questions(file, arguments.limit), folder)
        runs_by_path[run.results.path] = run  # a file that is named twice is measured once
    runs = list(runs_by_path.values())
    with stop_on_sigterm():
        return _measure(arguments, evaluation, runs, description, folder)


def _measure(
    arguments: Arguments,
    evaluation: Evaluation,
    runs: Sequence[_Run],
    description: dict[str, Any],
    folder: Path,
) -> int:
    is_finished = False
    try:
        for run in runs:
            label = f"{run.file.path.name} ({TITLES[run.file.benchmark]})"
            print(f"{label}: {len(run.questions):,} questions", file=sys.stderr, flush=True)
            with _progress(label) as show:
                evaluation.run(run.file, run.questions, run.results, show)
        is_finished = True
    finally:
        errors = [error for run in runs for error in run.errors()]
        report = _report(description, evaluation, runs, is_complete=is_finished and not errors)
        text = json.dumps(report, indent=2, ensure_ascii=False)
        _write(folder / "report.json", f"{text}\n")
        _write(folder / "report.md", render_report(report))
        if not is_finished:
            where = folder / "report.md"
            print(
                f"Not finished. {where} has the results so far. Run the same command to continue.",
                file=sys.stderr,
            )
    if arguments.json:
        print(text)
    else:
        _print_summary(report)
        print(f"\nThe report is {folder / 'report.md'}.")
    if errors:
        total = sum(len(run.questions) for run in runs)
        counts = f"{len(errors):,} of {total:,} questions failed"
        message = f"{counts}: {errors[-1]} The same command asks them again."
        print(f"memorist: {plain(message)}", file=sys.stderr)
        return ModelError.exit_code
    return 0


@contextmanager
def _progress(label: str) -> Iterator[Progress]:
    """Show a progress bar on a terminal; elsewhere print a line for every tenth of the questions."""

    def print_tenth(done: int, total: int) -> None:
        if done and done * 10 // total > (done - 1) * 10 // total:
            print(f"{label}: {done:,} of {total:,}", file=sys.stderr, flush=True)

    if sys.stderr.isatty():
        with progress(label) as bar:
            yield bar
    else:
        yield print_tenth


class _Run:
    """A file, its selected questions and its results."""

    def __init__(
        self, file: BenchmarkFile, questions: Sequence[GoldQuestion], folder: Path
    ) -> None:
        self.file = file
        self.questions = questions
        name = file.path.name.removesuffix(".gz").removesuffix(".json")
        self.results = ResultFile(folder / f"{name}-{file.digest()[:8]}.jsonl")

    def errors(self) -> list[str]:
        """Return the errors of the questions that failed."""
        results = [self.results.results.get(question.id) for question in self.questions]
        return [result.error for result in results if result and result.error]


def _evaluation(arguments: Arguments, settings: Settings) -> Evaluation:
    """Return the evaluation, with the models if answers are wanted."""
    if not arguments.answers:
        for name in _JUDGE_OPTIONS:
            if getattr(arguments, name) is not None:
                option = f"--{name.replace('_', '-')}"
                raise Invalid(field=option, problem="requires --answers")
        return Evaluation(settings)
    models = Models(settings)
    model = as_chat_model(models.main, "--answers")
    return Evaluation(settings, model, _judge(arguments, settings, models))


def _judge(arguments: Arguments, settings: Settings, models: Models) -> Model | None:
    """Return the judge. With its own address, it gets only the key of --judge-key-variable."""
    variable = arguments.judge_key_variable
    if variable is not None and not os.environ.get(variable):
        problem = f"names the environment variable {variable}, which is not set"
        raise Invalid(field="--judge-key-variable", problem=problem)
    if variable is None and arguments.judge_url is None:
        return models.named(arguments.judge_model or "")
    other = replace(
        settings,
        model=arguments.judge_model or settings.model,
        base_url=settings.base_url if arguments.judge_url is None else arguments.judge_url,
        api_key=os.environ[variable] if variable else NO_KEY,
    )
    return Models(other).main


def _read_files(arguments: Arguments) -> Iterator[BenchmarkFile]:
    """Yield the files of the selected benchmarks."""
    count = 0
    for path in arguments.files:
        file = read_benchmark(path)
        if arguments.only is not None and file.benchmark != arguments.only:
            print(f"{path}: {TITLES[file.benchmark]}, skipped because of --only.", file=sys.stderr)
            continue
        count += 1
        yield file
    if not count:
        raise Invalid(field="--only", problem=f"none of the files is {TITLES[arguments.only]}")


def _describe(settings: Settings, evaluation: Evaluation, judge_url: str | None) -> dict[str, Any]:
    """Return what results depend on: the version, and settings that are not the default."""
    embedder = embedders.choose(settings)
    values: dict[str, str] = {"embedder": embedder.identity if embedder else "none"}
    ignored = _IGNORED_SETTINGS
    if settings.facts != "model":
        ignored = ignored.union(_SETTINGS_OF_ANSWERS)
    for setting in FIELDS:
        value = getattr(settings, setting.name)
        is_shown = not setting.metadata["secret"] and setting.name not in ignored
        if is_shown and setting.name not in values and value != setting.default:
            values[setting.name] = str(value)
    if evaluation.model is not None and evaluation.judge is not None:
        values["model"] = evaluation.model.name
        values["judge"] = evaluation.judge.name
        values["base_url"] = settings.base_url
        values["judge_url"] = settings.base_url if judge_url is None else judge_url
    for name, value in values.items():
        if name.endswith("url"):
            values[name] = _without_credentials(value)
    return {"memorist": VERSION, "settings": values}


def _without_credentials(url: str) -> str:
    return re.sub("//[^/]*@", "//", re.sub(r"[?#].*", "", url))


def _create_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = f"{folder} cannot be written: {error.strerror}"
        raise Invalid(field="--out", problem=problem) from None


def _check_description(path: Path, description: dict[str, Any]) -> None:
    """Write the description of the run; raise Invalid if the folder has another one."""
    text = json.dumps(description, indent=2, ensure_ascii=False)
    if not path.is_file():
        _write(path, f"{text}\n")
    elif path.read_bytes().strip() != text.encode():
        problem = (
            f"{path.parent} has results of another version or with other settings ({path}); "
            "choose another folder"
        )
        raise Invalid(field="--out", problem=problem)


def _write(path: Path, text: str) -> None:
    with writing(path, replace=True, mode=0o666 & ~umask()) as file:
        file.write(text.encode())


def _report(
    description: dict[str, Any],
    evaluation: Evaluation,
    runs: Sequence[_Run],
    *,
    is_complete: bool,
) -> dict[str, Any]:
    return {
        **description,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "complete": is_complete,
        "model": evaluation.model.name if evaluation.model else "",
        "judge": evaluation.judge.name if evaluation.judge else "",
        "files": [summarize(run.file, run.questions, run.results.results) for run in runs],
    }


def _print_summary(report: dict[str, Any]) -> None:
    heads = ["file", "evidence", "n", "R@10", "All@10", "MRR"]
    rows = []
    for file in report["files"]:
        for group in file["retrieval"]:
            scores = [f"{group[name]:.3f}" for name in heads[3:]]
            rows.append([file["file"], group["name"], f"{group['questions']:,}", *scores])
        if not file["retrieval"]:
            rows.append([file["file"], "–", "0", "–", "–", "–"])
    print_table(heads, rows)
    print()
    for file in report["files"]:
        line = f"{file['file']}: search p95 {file['times_ms']['search']['p95']:.1f} ms"
        if "answers" in file:
            answers = file["answers"][-1]
            line += f", accuracy {answers['accuracy']:.3f} of {answers['questions']:,} questions"
        print(plain(line))


COMMAND = Command(
    "eval",
    evaluate,
    "memorist eval locomo10.json --set embedder=static\n"
    "  memorist eval longmemeval_s.json beam/chats/100K --limit 100 --out results\n"
    "  memorist eval locomo10.json --answers --set model=gpt-5-mini --judge-model gpt-5",
    (),
    {
        "files": {
            "metavar": "FILE",
            "nargs": "+",
            "type": Path,
            "help": "a file of LoCoMo, LongMemEval or BEAM (JSON or JSON Lines, also as .gz), or "
            "a folder of chats of BEAM's repository",
        },
        "--only": {"choices": list(TITLES), "help": "skip files of other benchmarks"},
        "--limit": {
            "metavar": "N",
            "type": int,
            "help": "ask only N questions of each file, evenly spread",
        },
        "--out": {
            "metavar": "FOLDER",
            "default": "memorist-eval",
            "help": "where to write report.md, report.json and a file of results for each "
            "benchmark file (default: memorist-eval)",
        },
        "--answers": {
            "action": "store_true",
            "help": "also answer the questions from their contexts with the model of the "
            "settings, and have a judge grade the answers; every question costs two calls",
        },
        "--judge-model": {
            "metavar": "NAME",
            "help": "the judge (default: the model of the settings)",
        },
        "--judge-url": {
            "metavar": "URL",
            "help": "the OpenAI-compatible address of the judge (default: that of the model)",
        },
        "--judge-key-variable": {
            "metavar": "VARIABLE",
            "help": "the environment variable with the API key of the judge; without it, "
            "--judge-url gets no key",
        },
    },
    "memorist does not include the files: download them from their authors. Each conversation is\n"
    "loaded into a temporary database; yours is not opened. Settings apply as for other commands.\n"
    "Run the same command again to continue an interrupted run.",
)
