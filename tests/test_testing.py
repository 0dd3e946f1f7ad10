"""The test doubles: models of memorist.testing, a fake service, and a database with faults."""

from __future__ import annotations

import base64
import http.client
import json
import math
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import BadAnswer, Full, InDoubt, ModelUnavailable, Unreachable
from memorist.models import Model
from memorist.storage.database import Transaction, Work
from memorist.testing import EchoModel, FailingModel, ModelRequest, ScriptedModel
from testkit.failures import raised
from testkit.faults import FaultyDatabase, with_faults
from testkit.memories import scope_of
from testkit.model_service import HUGE, INJECTION, JUNK, MISBEHAVIOURS, FakeService, ServiceRequest


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as running:
        yield running


def post(
    service: FakeService, path: str, body: Any, timeout: float = 20
) -> http.client.HTTPResponse:
    data = json.dumps(body).encode()
    request = urllib.request.Request(
        f"{service.url}/{path}", data, {"Authorization": "Bearer key-of-a-test"}
    )
    result = urllib.request.urlopen(request, timeout=timeout)
    assert isinstance(result, http.client.HTTPResponse)
    return result


def chat(
    service: FakeService, prompt: str = "one two", timeout: float = 20, **more: Any
) -> http.client.HTTPResponse:
    body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **more}
    return post(service, "chat/completions", body, timeout)


def said(response: http.client.HTTPResponse) -> Any:
    return json.loads(response.read())["choices"][0]["message"]["content"]


def vectors(service: FakeService, **more: Any) -> list[Any]:
    body = {"model": "m", "input": ["a", "b", "a"], **more}
    return [
        row["embedding"] for row in json.loads(post(service, "embeddings", body).read())["data"]
    ]


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


def test_the_service_answers_and_records_requests(service: FakeService) -> None:
    answer = json.loads(chat(service).read())
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "An answer."},
            "finish_reason": "stop",
        }
    ]
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}
    (request,) = service.requests
    assert isinstance(request, ServiceRequest)
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer key-of-a-test"
    assert request.body["messages"] == [{"role": "user", "content": "one two"}]
    cut = json.loads(chat(service, max_tokens=1).read())["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"]) == ("An", "length")
    with urllib.request.urlopen(f"{service.url}/models") as listed:
        assert [model["id"] for model in json.loads(listed.read())["data"]] == ["fake"]
    service.answer = lambda request: request.prompt.upper()
    assert said(chat(service)) == "ONE TWO"
    service.body = b"anything"
    assert chat(service).read() == b"anything"


def test_the_service_embeds_text(service: FakeService) -> None:
    """Equal texts have equal vectors of length 1, as numbers or as base64."""
    first, second, again = vectors(service)
    assert (len(first), first == again, first == second) == (8, True, False)
    assert math.isclose(math.hypot(*first), 1)
    packed = vectors(service, encoding_format="base64")[0]
    assert struct.unpack("<8f", base64.b64decode(packed)) == pytest.approx(first, rel=1e-6)


def test_every_misbehaviour_of_f7_has_a_name() -> None:
    """The fifteen, and five more."""
    fifteen = "500 429 hang drip reset invalid-json empty html huge wrong-dimension nan wrong-count junk injection babble"
    assert set(MISBEHAVIOURS) == {
        *fifteen.split(),
        "refused",
        "redirect",
        "packed",
        "early",
        "stream-error",
    }


def test_an_unknown_misbehaviour_is_rejected(service: FakeService) -> None:
    with pytest.raises(
        ValueError, match="unknown misbehaviour 'explode'; choose from 500, 429, hang"
    ):
        service.misbehave("explode")


def test_a_misbehaviour_for_some_requests(service: FakeService) -> None:
    service.misbehave("500", times=2)
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError, match="500"):
            chat(service)
    assert said(chat(service)) == "An answer."
    service.misbehave("500")
    with pytest.raises(urllib.error.HTTPError, match="500"):
        chat(service)
    service.misbehave("")
    assert said(chat(service)) == "An answer."


@pytest.mark.parametrize(
    ("how", "status"), [("500", 500), ("429", 429), ("refused", 401), ("redirect", 307)]
)
def test_http_errors(service: FakeService, how: str, status: int) -> None:
    service.misbehave(how)
    with pytest.raises(urllib.error.HTTPError) as error:
        chat(service)
    assert error.value.code == status
    if how == "429":
        assert error.value.headers["retry-after"] == "1"
    if how == "refused":
        assert b"key-of-a-test" in error.value.read()
    if how == "redirect":
        assert error.value.headers["location"] == f"{service.url}/elsewhere"


def test_invalid_bodies(service: FakeService) -> None:
    for how, start in (("empty", b""), ("html", b"<!doctype html>"), ("invalid-json", b'{"id"')):
        service.misbehave(how)
        body = chat(service).read()
        assert body.startswith(start)
        with pytest.raises(ValueError, match="Expecting|Unterminated"):
            json.loads(body)


def test_an_oversized_body(service: FakeService) -> None:
    service.misbehave("huge")
    response, size = chat(service), 0
    while part := response.read(1 << 20):
        size += len(part)
    assert size == HUGE
    deadline = time.monotonic() + 30
    while service.sent < HUGE and time.monotonic() < deadline:
        time.sleep(0.01)  # the service counts the last part after the client has it
    assert service.sent == HUGE
    service.misbehave("packed")
    response = chat(service)
    assert response.headers["content-encoding"] == "gzip"
    assert len(response.read()) < HUGE / 50


def test_a_broken_connection(service: FakeService) -> None:
    service.misbehave("reset")
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        chat(service).read()


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_an_endless_response_stops_when_the_client_disconnects(
    service: FakeService, how: str
) -> None:
    service.misbehave(how)
    with pytest.raises(TimeoutError):
        chat(service, timeout=0.2).read()
    for _ in range(3000):
        if service.hung_up:
            break
        time.sleep(0.02)
    assert service.hung_up == 1


def test_closing_ends_hanging_requests() -> None:
    with FakeService() as service:
        service.misbehave("hang")
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                chat(service, timeout=60)
            except (OSError, http.client.HTTPException) as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        while not service.requests:
            time.sleep(0.01)
    thread.join(60)
    assert len(ended) == 1
    assert not isinstance(ended[0], TimeoutError)


def test_wrong_answers(service: FakeService) -> None:
    service.misbehave("junk")
    assert said(chat(service)) == JUNK
    service.misbehave("injection")
    assert said(chat(service)) == f"one two\n{INJECTION}"
    service.misbehave("babble")
    assert said(chat(service, max_tokens=1)) == "one two An answer. " * 3
    service.misbehave("wrong-count")
    assert json.loads(chat(service).read())["choices"] == []


def test_wrong_vectors(service: FakeService) -> None:
    """For tests of embedders."""
    service.misbehave("wrong-dimension")
    assert [len(vector) for vector in vectors(service)] == [9, 9, 9]
    service.misbehave("wrong-count")
    assert len(vectors(service)) == 2
    service.misbehave("nan")
    for vector in vectors(service):
        assert math.isnan(vector[0])
        assert math.isinf(vector[1])


def test_invalid_requests_are_rejected(service: FakeService) -> None:
    for path, body in (
        ("chat/completions", {}),
        ("chat/completions", []),
        ("embeddings", {"model": "m"}),
    ):
        with pytest.raises(urllib.error.HTTPError, match="400"):
            post(service, path, body)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        post(service, "elsewhere", {})


# -- a database with faults ---------------------------------------------------------------------------


@pytest.fixture
def faulty(memory: Memory) -> tuple[Scope, FaultyDatabase]:
    scope_of(memory, "ada", "scout").sessions.add("s")
    memory, faults = with_faults(memory)
    return scope_of(memory, "ada", "scout"), faults


def test_the_nth_write_fails_and_leaves_nothing(faulty: tuple[Scope, FaultyDatabase]) -> None:
    me, faults = faulty
    faults.fail("write", Full(problem="a test"), at=2)
    me.messages.append("s", "user", "first")
    raised(Full, me.messages.append, "s", "user", "second")
    me.messages.append("s", "user", "third")
    assert [message.text for message in me.messages.window("s")] == ["first", "third"]


@pytest.mark.parametrize("committed", [False, True])
def test_a_lost_commit_is_in_doubt(faulty: tuple[Scope, FaultyDatabase], committed: bool) -> None:
    me, faults = faulty
    faults.kill("commit", committed=committed)
    raised(InDoubt, me.messages.append, "s", "user", "hello", key="k")
    assert len(me.messages.window("s")) == int(committed)
    assert me.messages.append("s", "user", "hello", key="k").seq == 1


def test_reads_fail_until_the_database_is_healed(faulty: tuple[Scope, FaultyDatabase]) -> None:
    me, faults = faulty
    faults.kill("read", times=None)
    for _ in range(2):
        raised(Unreachable, me.messages.window, "s")
    faults.heal()
    assert me.messages.window("s") == []


def test_a_delay_makes_a_read_slow_and_changes_nothing(
    faulty: tuple[Scope, FaultyDatabase],
) -> None:
    me, faults = faulty
    faults.delay("read", 0.05)
    started = time.monotonic()
    assert me.messages.window("s") == []
    assert time.monotonic() - started >= 0.05


def test_a_wrapper_runs_inside_every_transaction(faulty: tuple[Scope, FaultyDatabase]) -> None:
    me, faults = faulty
    tenants: list[str] = []

    def note_tenant(tx: Transaction, work: Work[Any]) -> Any:
        tenants.append(tx.tenant)
        return work(tx)

    faults.wrap(note_tenant)
    me.messages.append("s", "user", "hello")
    assert [message.text for message in me.messages.window("s")] == ["hello"]
    assert tenants == ["acme", "acme"]
    faults.heal()
    me.messages.window("s")
    assert len(tenants) == 2
