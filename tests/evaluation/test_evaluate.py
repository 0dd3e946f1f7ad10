"""A run of an evaluation: interrupted and continued."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.base.errors import Invalid
from retain.base.settings import Settings
from retain.evaluation.benchmark_files import read_benchmark
from retain.evaluation.evaluate import Evaluation, ResultFile, choose_questions
from tests.evaluation.invented import write_locomo


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    file = read_benchmark(write_locomo(tmp_path))
    questions = choose_questions(file, None)
    path = tmp_path / "results.jsonl"
    steps: list[int] = []

    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    settings = Settings(embedder="none")
    with pytest.raises(KeyboardInterrupt):
        Evaluation(settings).run(file, questions, ResultFile(path), stop)
    assert len(path.read_text().splitlines()) == 2
    with path.open("a") as lines:
        lines.write('{"id": "talk-1/2", "ran')  # killed while it wrote
    results = ResultFile(path)
    Evaluation(settings).run(file, questions, results, lambda done, total: steps.append(done))
    assert steps == [2, 3, 4]
    assert list(results.results) == [question.id for question in questions]
    assert ResultFile(path).results == results.results
    path.write_text("no result\n{}\n")
    with pytest.raises(Invalid, match=r"results.jsonl: line 1 is not a result of `retain eval`"):
        ResultFile(path)
