"""Set up a chat model over HTTP: test it, use it until a restart; for the operator only."""

from __future__ import annotations

from starlette.testclient import TestClient

from retain import Memory
from retain.testing import FakeService
from tests.calling import Calling
from tests.conftest import one_engine


@one_engine
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


@one_engine
def test_a_model_that_fails_is_not_used(calling: Calling, memory: Memory) -> None:
    http: TestClient = calling(memory.settings.tenant)
    body = {"model": "m1", "base_url": "http://127.0.0.1:9/v1", "use": True}
    failed = http.post("/api/web/model", json=body).json()
    assert (failed["ok"], failed["used"]) == (False, False)
    assert failed["error"]
    assert memory.services.models.main is None
    wrong = http.post("/api/web/model", json={**body, "base_url": "no address"}).json()
    assert not wrong["ok"]


@one_engine
def test_only_the_operator_sets_up_a_model(calling: Calling, memory: Memory) -> None:
    body = {"model": "m1", "base_url": "http://127.0.0.1:9/v1"}
    for tenant, permissions in (
        (memory.settings.tenant, ["read", "write", "delete"]),
        ("other", ["admin"]),
    ):
        refused = calling(tenant, permissions).post("/api/web/model", json=body)
        assert refused.status_code == 403
