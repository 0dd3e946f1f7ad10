"""A run of an evaluation: interrupted and continued."""

from __future__ import annotations

from pathlib import Path

import pytest
from invented_benchmarks import LOCOMO, write_json, write_locomo

from memorist.base.errors import Invalid, ModelError
from memorist.base.settings import Settings
from memorist_eval.benchmark_files import read_benchmark
from memorist_eval.evaluate import Evaluation, Result, ResultFile, choose_questions


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
    with pytest.raises(Invalid, match=r"results.jsonl: line 1 is not a result of `memorist eval`"):
        ResultFile(path)


def test_a_result_that_was_cut_inside_a_character(tmp_path: Path) -> None:
    """It is left out; a file without such a line is not written again."""
    path = tmp_path / "results.jsonl"
    results = ResultFile(path)
    for id in ("a", "b"):
        results.add(Result(id, ["D1:1"], 1.0, 2.0, 100, [], answer="Café"))
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.rindex("é".encode()) + 1])
    assert list(ResultFile(path).results) == ["a"]
    assert path.read_bytes() == whole[: len(whole) // 2]
    inode = path.stat().st_ino
    changed_at = path.stat().st_mtime_ns
    ResultFile(path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (inode, changed_at)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("value", ["null", "[[1]]", "7"])
def test_a_result_with_a_wrong_value(tmp_path: Path, value: str) -> None:
    path = tmp_path / "results.jsonl"
    ResultFile(path).add(Result("a", [], 1.0, 2.0, 100, []))
    path.write_text(path.read_text().replace('"ranked": []', f'"ranked": {value}') + "\n")
    with pytest.raises(Invalid, match="line 1 is not a result of `memorist eval`"):
        ResultFile(path)


def test_facts_are_learned_as_the_settings_say(tmp_path: Path) -> None:
    talk = {**LOCOMO[0]["conversation"]}
    talk["session_1"] = [
        {"speaker": "Nora", "dia_id": "D1:1", "text": "My name is Nora and I live in Bergen."}
    ]
    path = write_json(tmp_path / "f.json", [{**LOCOMO[0], "conversation": talk}])
    file = read_benchmark(path)
    tokens = []
    for facts in ("off", "explicit"):
        results = ResultFile(tmp_path / f"{facts}.jsonl")
        evaluation = Evaluation(Settings(embedder="none", facts=facts))
        evaluation.run(file, choose_questions(file, 1), results, lambda done, total: None)
        tokens.append(results.results["talk-1/0"].context_tokens)
    assert tokens[0] < tokens[1]
    evaluation = Evaluation(Settings(embedder="none", facts="model"))
    results = ResultFile(tmp_path / "model.jsonl")
    with pytest.raises(ModelError, match="No model is set"):
        evaluation.run(file, choose_questions(file, 1), results, lambda done, total: None)
