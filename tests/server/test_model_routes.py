"""Set up a chat model over HTTP: test it, use it until a restart; for the operator only."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.testclient import TestClient

from memorist import Memory
from memorist.base.errors import ModelUnavailable
from memorist.server.routes.model_routes import ModelList
from testkit.apps import Calling
from testkit.model_service import FakeService


def test_a_model_is_tested_and_then_used(calling: Calling, memory: Memory) -> None:
    http: TestClient = calling(memory.settings.tenant)
    with FakeService("ready") as service:
        body = {"model": "m1", "base_url": service.url, "api_key": "sk-secret"}
        tested = http.post("/api/web/model", json=body)
        assert tested.status_code == 200, tested.text
        assert (tested.json()["ok"], tested.json()["used"]) == (True, False)
        assert tested.json()["reply"] == "ready"
        assert "sk-secret" not in tested.text
        assert memory.services.models.main is None
        used = http.post("/api/web/model", json={**body, "use": True})
        assert used.json()["used"]
        assert memory.services.models.main is not None
        assert memory.services.models.main.name == "m1"
        assert http.get("/api/web").json()["model"] == "m1"
        (row,) = http.get("/api/audit", params={"what": "model_use"}).json()["data"]
        assert row["who"].startswith("a test (")
        assert row["subject"] == "model m1"


def test_a_model_that_fails_is_not_used(calling: Calling, memory: Memory) -> None:
    http: TestClient = calling(memory.settings.tenant)
    body = {"model": "m1", "base_url": "http://127.0.0.1:9/v1", "use": True}
    failed = http.post("/api/web/model", json=body).json()
    assert (failed["ok"], failed["used"]) == (False, False)
    assert failed["error"]
    assert memory.services.models.main is None
    wrong = http.post("/api/web/model", json={**body, "base_url": "no address"}).json()
    assert not wrong["ok"]


def test_only_the_operator_sets_up_a_model(calling: Calling, memory: Memory) -> None:
    body = {"model": "m1", "base_url": "http://127.0.0.1:9/v1"}
    for tenant, permissions in (
        (memory.settings.tenant, ["read", "write", "delete"]),
        ("other", ["admin"]),
    ):
        refused = calling(tenant, permissions).post("/api/web/model", json=body)
        assert refused.status_code == 403


def test_the_environments_key_is_not_sent_to_the_callers_address(
    calling: Calling, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-server")
    http: TestClient = calling(memory.settings.tenant)
    with FakeService("ready") as service:
        body = {"model": "m1", "base_url": service.url, "use": True}
        assert http.post("/api/web/model", json=body).json()["ok"]
        agents_model = memory.services.models.named("m2")
        assert agents_model is not None
        agents_model.complete("", "Hello", max_tokens=5)
        assert len(service.requests) == 2
        assert "sk-of-the-server" not in str([request.headers for request in service.requests])


def test_a_used_model_also_summarizes_and_sets_the_address_of_agents_models(
    calling: Calling, memory: Memory
) -> None:
    http: TestClient = calling(memory.settings.tenant)
    models = memory.services.models
    with FakeService("first") as first, FakeService("second") as second:
        for name, service in (("m1", first), ("m2", second)):
            body = {"model": name, "base_url": service.url, "use": True}
            assert http.post("/api/web/model", json=body).json()["used"]
            agents_model = models.named("agents-model")
            assert agents_model is not None
            assert models.summary is models.main
            answer = agents_model.complete("", "Hello", max_tokens=5)
            assert answer.text == ("first" if service is first else "second")


def test_one_of_several_processes_does_not_use_a_model_alone(
    calling: Calling, memory: Memory
) -> None:
    http: TestClient = calling(memory.settings.tenant)
    services = memory.services
    object.__setattr__(services, "settings", replace(services.settings, workers=2))
    with FakeService("ready") as service:
        body = {"model": "m1", "base_url": service.url}
        refused = http.post("/api/web/model", json={**body, "use": True})
        assert refused.status_code == 422
        assert "`model`, `base_url` and `api_key`" in refused.text
        assert http.post("/api/web/model", json=body).json()["ok"]
    assert services.models.main is None


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:abc/v1", "http://[::1", "http://localhost:99999/v1", "http://a\x01b/",
        "x://", "//",
    ],
)  # fmt: skip
@pytest.mark.parametrize("model", ["m1", "openai:m1", "anthropic:m1"])
def test_a_malformed_address_is_an_error_in_the_answer(
    calling: Calling, memory: Memory, address: str, model: str
) -> None:
    http: TestClient = calling(memory.settings.tenant)
    response = http.post("/api/web/model", json={"model": model, "base_url": address})
    assert response.status_code == 200, response.text
    assert not response.json()["ok"]
    assert response.json()["error"]


def test_a_bound_key_is_told_that_it_may_not_change_the_server(
    calling: Calling, memory: Memory
) -> None:
    http: TestClient = calling(memory.settings.tenant, ["admin"], user="ada")
    refused = http.post("/api/web/model", json={"model": "m1"})
    assert refused.status_code == 403


def test_the_models_to_choose_from_are_listed(calling: Calling, memory: Memory) -> None:
    reader = calling("acme", ["read"])
    none = reader.get("/api/models").json()
    assert (none["models"], "No model is set" in none["error"]) == ([], True)
    operator: TestClient = calling(memory.settings.tenant)
    with FakeService("ready") as service:
        body = {"base_url": service.url, "api_key": "sk-secret"}
        listed = operator.post("/api/web/models", json=body)
        assert listed.json() == {"models": ["fake"], "error": ""}
        assert operator.post("/api/web/model", json={**body, "model": "m1", "use": True}).json()[
            "ok"
        ]
        assert reader.get("/api/models").json()["models"] == ["fake"]
    # The list is kept for a while.
    assert reader.get("/api/models").json()["models"] == ["fake"]
    failed = operator.post("/api/web/models", json={"base_url": "http://127.0.0.1:9/v1"}).json()
    assert (failed["models"], "cannot be reached" in failed["error"]) == ([], True)
    refused = calling("acme").post("/api/web/models", json={"base_url": "http://127.0.0.1:9/v1"})
    assert refused.status_code == 403
    assert calling("acme", ["write"]).get("/api/models").status_code == 403


def test_a_service_that_does_not_list_its_models_is_not_flooded(
    calling: Calling, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise ModelUnavailable(model="m", problem="it is down")

    monkeypatch.setattr(memory.services.models, "list", fail)
    reader = calling("acme", ["read"])
    for _ in range(3):
        assert reader.get("/api/models").status_code == 503
    assert len(calls) == 1


def test_a_list_of_models_that_is_known_is_read_by_all_at_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.services.models, "list", lambda: ["m1"])
    model_list = ModelList(memory)
    assert model_list.get().models == ["m1"]
    with model_list._lock:  # another caller is here, too
        assert model_list.get().models == ["m1"]
