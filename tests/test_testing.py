"""The models of memorist.testing, which stand in for a real one in tests."""

from __future__ import annotations

import threading

import pytest

from memorist.base.errors import BadAnswer, ModelUnavailable
from memorist.models import Model
from memorist.testing import EchoModel, FailingModel, ModelRequest, ScriptedModel
from testkit.failures import raised


def test_a_scripted_model_repeats_its_last_answer() -> None:
    model: Model = ScriptedModel("one two", "three", cost=0.5)
    values = [model.complete("be brief", "a b c", max_tokens=9) for _ in range(3)]
    assert [item.text for item in values] == ["one two", "three", "three"]
    assert (values[0].model, values[0].tokens_in, values[0].tokens_out) == ("scripted", 5, 2)
    assert values[0].cost == 0.5


def test_a_scripted_model_raises_calls_functions_and_records_requests() -> None:
    error = BadAnswer(model="m", problem="it is nonsense")
    model = ScriptedModel(error, lambda request: request.prompt.upper())
    with pytest.raises(BadAnswer, match="it is nonsense") as raised:
        model.complete("s", "first", max_tokens=1)
    assert raised.value is not error
    assert model.complete("s", "second", max_tokens=2).text == "SECOND"
    assert model.requests == [ModelRequest("s", "first", 1), ModelRequest("s", "second", 2)]
    with pytest.raises(ValueError, match="needs an answer"):
        ScriptedModel()


def test_the_failing_and_the_echo_model() -> None:
    with pytest.raises(ModelUnavailable, match="'failing' does not answer"):
        FailingModel().complete("", "x", max_tokens=1)
    raised(
        BadAnswer, FailingModel(BadAnswer(model="m", problem="p")).complete, "", "x", max_tokens=1
    )
    assert EchoModel().complete("", "x", max_tokens=1).text == "x"
    assert EchoModel(lambda prompt: prompt * 3).complete("", "x", max_tokens=1).text == "xxx"


def test_concurrent_requests_get_each_answer_once() -> None:
    model = ScriptedModel(*[str(number) for number in range(200)])
    values: list[str] = []
    threads = [
        threading.Thread(
            target=lambda: values.extend(
                model.complete("", "", max_tokens=1).text for _ in range(20)
            )
        )
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, values)) == list(range(200))
