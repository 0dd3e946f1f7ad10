"""The doubles do what they are told."""

from __future__ import annotations

import threading

import pytest

from retain.errors import BadAnswer, ModelUnavailable
from retain.models import Model
from retain.testing import Asked, EchoModel, FailingModel, ScriptedModel


def test_a_scripted_model_gives_its_answers_in_order_and_the_last_again() -> None:
    model: Model = ScriptedModel("one two", "three", cost=0.5)
    said = [model.complete("be brief", "a b c", max_tokens=9) for _ in range(3)]
    assert [one.text for one in said] == ["one two", "three", "three"]
    assert (said[0].model, said[0].tokens_in, said[0].tokens_out, said[0].cost) == ("scripted", 5, 2, 0.5)


def test_a_scripted_model_raises_and_computes_and_remembers() -> None:
    error = BadAnswer(model="m", problem="it is nonsense")
    model = ScriptedModel(error, lambda asked: asked.prompt.upper())
    with pytest.raises(BadAnswer, match="it is nonsense") as raised:
        model.complete("s", "first", max_tokens=1)
    assert raised.value is not error
    assert model.complete("s", "second", max_tokens=2).text == "SECOND"
    assert model.asked == [Asked("s", "first", 1), Asked("s", "second", 2)]
    with pytest.raises(ValueError, match="needs an answer"):
        ScriptedModel()


def test_a_failing_model_and_an_echo() -> None:
    with pytest.raises(ModelUnavailable, match="'failing' does not answer"):
        FailingModel().complete("", "x", max_tokens=1)
    with pytest.raises(BadAnswer):
        FailingModel(BadAnswer(model="m", problem="p")).complete("", "x", max_tokens=1)
    assert EchoModel().complete("", "x", max_tokens=1).text == "x"
    assert EchoModel(lambda prompt: prompt * 3).complete("", "x", max_tokens=1).text == "xxx"


def test_answers_are_given_once_each_when_many_threads_ask() -> None:
    model = ScriptedModel(*[str(number) for number in range(200)])
    said: list[str] = []
    threads = [
        threading.Thread(target=lambda: said.extend(model.complete("", "", max_tokens=1).text for _ in range(20)))
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, said)) == list(range(200))
