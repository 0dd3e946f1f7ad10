"""Chat over HTTP: turns, event streams, lost connections, and permissions."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from memorist import Memory
from memorist.base.errors import ModelUnavailable
from memorist.server.http.app import create_app
from memorist.server.http.sse import HEARTBEAT
from memorist.server.routes import running_turns as running
from memorist.testing import ScriptedModel, calling
from testkit.apps import Calling
from testkit.databases import one_engine
from testkit.keys import create_key
from testkit.limited import Limited
from testkit.model_service import FakeService
from testkit.sizes import FULL
from testkit.talking import (
    WAIT,
    Event,
    PausingModel,
    RunningServer,
    events,
    events_in,
    say,
    serve,
    stream,
    talk,
)

ABORTED = 2000 if FULL else 40
Start = Callable[..., RunningServer]


@pytest.fixture
def start_server(url: str) -> Iterator[Start]:
    """Start servers over the test's database, on each engine in turn."""
    with ExitStack() as stack:
        yield lambda main=None, **changes: stack.enter_context(
            contextmanager(serve)(url, main, **changes)
        )


@pytest.fixture
def start_local_server(tmp_path: Path) -> Iterator[Start]:
    """Start servers over one file."""
    with ExitStack() as stack:
        file = f"sqlite:///{tmp_path}/chat.db"
        yield lambda main=None, **changes: stack.enter_context(
            contextmanager(serve)(file, main, **changes)
        )


def event_names(received: list[Event]) -> list[str]:
    return [event.name for event in received]


def transcript(served: RunningServer, session: str, user: str = "ada") -> list[tuple[str, str]]:
    """Return role and text of the stored messages of a session."""
    window = served.memory.scope(tenant="acme", user=user).messages.window(session)
    return [(message.role, message.text) for message in window]


def wait_until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_turn_returns_the_complete_answer(start_server: Start) -> None:
    """Context, model, saved turn; and the turn has a report."""
    model = ScriptedModel("To Lisbon.")
    served = start_server(model)
    with served.client() as http:
        answer = say(http, message="Where do we go?").json()
        assert answer["message"] == "To Lisbon."
        assert (answer["agent_id"], answer["memory_only"], answer["again"], answer["tools"]) == (
            "assistant",
            False,
            False,
            [],
        )
        assert answer["usage"]["model"] == "scripted"
        assert answer["usage"]["tokens_out"] == 2
        assert transcript(served, answer["session_id"]) == [
            ("user", "Where do we go?"),
            ("assistant", "To Lisbon."),
        ]
        turn = http.get(f"/api/turns/{answer['turn_id']}").json()
        assert turn["report"]["tokens"] > 0
        assert turn["last_seq"] == answer["last_seq"] == 2
        second = say(http, message="When?", session_id=answer["session_id"]).json()
        assert second["session_id"] == answer["session_id"]
        assert "Where do we go?" in str(model.requests[-1].messages)
        calls = http.get("/api/interactions").json()["data"]
        assert [call["route"] for call in calls] == ["chat", "chat"]


def test_a_turn_is_streamed(start_local_server: Start) -> None:
    """Deltas, tools, the complete message and the end, with increasing ids."""
    ask = calling(
        ("save_to_core", {"content": "Ada likes trains."}),
        ("no_such_tool", {}),
        text="One moment. ",
    )
    served = start_local_server(ScriptedModel(ask, "By train, of course."))
    with (
        served.client() as http,
        http.stream("POST", "/api/chat", json={"message": "How?", "stream": True}) as response,
    ):
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-store"
        received = list(events(response.iter_lines()))
    assert [event.id for event in received] == list(range(1, len(received) + 1))
    kinds = [name for name in event_names(received) if name != "text"]
    assert kinds == [
        "start", "tool_call", "tool_call", "tool_result", "tool_result", "message", "done",
    ]  # fmt: skip
    assert (
        "".join(event.data["text"] for event in received if event.name == "text")
        == "One moment. By train, of course."
    )
    first, second = [event.data for event in received if event.name == "tool_result"]
    assert (first["name"], first["ok"], second["name"], second["ok"]) == (
        "save_to_core",
        True,
        "no_such_tool",
        False,
    )
    final = next(event.data for event in received if event.name == "message")
    assert final["message"] == "By train, of course."
    assert final["tools"] == ["save_to_core", "no_such_tool"]
    assert received[0].data["session_id"] == final["session_id"]
    assert received[0].data["key"] == final["key"]
    scope = served.memory.scope(tenant="acme", user="ada", agent="assistant")
    assert [entry.content for entry in scope.entries.list()] == ["Ada likes trains."]
    assert [role for role, _ in transcript(served, final["session_id"])] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]


def test_the_accept_header_requests_a_stream(start_local_server: Start) -> None:
    with start_local_server(ScriptedModel("Yes.")).client(Accept="text/event-stream") as http:
        answer = say(http, message="A stream?")
    assert event_names(events_in(answer)) == ["start", "text", "message", "done"]


def test_a_disconnect_loses_nothing(start_server: Start) -> None:
    """A client disconnects in the middle: the turn continues and is saved."""
    model = PausingModel("One two three four.")
    served = start_server(model)
    with served.client() as http:
        with talk(http, message="Count.", key="count") as response:
            first = next(response)
        assert model.halted.acquire(timeout=WAIT)
        model.going.set()
        session = first.data["session_id"]
        wait_until(lambda: len(transcript(served, session)) == 2)
        assert transcript(served, session)[1] == ("assistant", "One two three four.")

        def repeat() -> dict[str, Any]:
            payload = say(http, message="Count.", session_id=session, key="count").json()
            assert payload["message"] == "One two three four."
            return dict(payload)

        wait_until(lambda: repeat()["again"])  # until then, the running turn is the answer
    assert len(model.requests) == 1


def test_a_revoked_key_ends_its_stream(start_local_server: Start) -> None:
    """A key is revoked while its stream is open: no further text is sent, and the turn is saved."""
    model = PausingModel("One two three four.")
    served = start_local_server(model)
    key, text = create_key(served.memory, "acme", "for a while", ("read", "write"))
    client = served.client(Authorization=f"Bearer {text}")
    with client as http, talk(http, message="Count.") as reading:
        first = next(reading)
        assert model.halted.acquire(timeout=WAIT)
        served.memory.scope(tenant="acme").admin.keys.revoke(key.id)
        served.app.state.authenticator.forget()
        model.going.set()
        received = [event.name for event in reading]
    assert "message" not in received
    assert "done" not in received
    wait_until(lambda: len(transcript(served, first.data["session_id"])) == 2)


def test_a_broken_stream_resumes(start_local_server: Start) -> None:
    """`Last-Event-ID`: missed events, then new ones, none twice."""
    model = PausingModel("One two three four five.")
    served = start_local_server(model)
    with served.client() as http:
        with talk(http, message="Count.") as reading:
            seen = [next(reading) for _ in range(2)]  # start, and the first of two words
        assert model.halted.acquire(timeout=WAIT)
        threading.Timer(0.05, model.going.set).start()
        with http.stream(
            "GET", seen[0].data["resume"], headers={"Last-Event-ID": str(seen[-1].id)}
        ) as response:
            rest = list(events(response.iter_lines()))
        whole = [*seen, *rest]
        assert [event.id for event in whole] == list(range(1, len(whole) + 1))
        assert (
            "".join(event.data["text"] for event in whole if event.name == "text")
            == "One two three four five."
        )
        assert event_names(whole)[-2:] == ["message", "done"]
        late = http.get(seen[0].data["resume"], headers={"Last-Event-ID": str(whole[-2].id)})
        assert event_names(events_in(late)) == ["done"]
        everything = http.get(seen[0].data["resume"], headers={"Last-Event-ID": "no number"})
        assert events_in(everything) == whole


def test_another_process_returns_the_saved_answer(start_server: Start) -> None:
    """A stream resumed at another server waits while the turn runs, then has the complete message."""
    model = PausingModel("One two three four.")
    first, other = start_server(model), start_server(model)
    with first.client() as http, other.client() as elsewhere:
        with talk(http, message="Count.", key="k/1") as response:
            resume = next(response).data["resume"]
        assert model.halted.acquire(timeout=WAIT)
        threading.Timer(0.1, model.going.set).start()
        received = events_in(elsewhere.get(resume, headers={"Last-Event-ID": "7"}))
        assert [(event.id, event.name) for event in received] == [(8, "message"), (9, "done")]
        assert received[0].data["message"] == "One two three four."
        assert received[0].data["key"] == "k/1"
        # Until the first turn has ended, a turn with another key may be waiting for it.
        wait_until(lambda: elsewhere.get(resume.replace("k%2F1", "k2")).status_code == 404)
        assert elsewhere.get(resume, headers={"X-Memorist-User": "eve"}).status_code == 404


def test_an_interrupted_turn_says_how_to_continue(start_local_server: Start) -> None:
    """After a crash no process runs the turn: the stream says so, and the key finishes it."""
    served = start_local_server(
        ScriptedModel(ModelUnavailable(model="m", problem="it fails"), "Now.")
    )
    with served.client() as http:
        failed = say(http, message="Well?", key="once")
        assert failed.status_code == 503
        session = failed.json()["session_id"]
        other = start_local_server(None)
        with other.client() as elsewhere:
            resume = f"/api/chat/turns/once/events?session_id={session}"
            received = events_in(elsewhere.get(resume))
            assert event_names(received) == ["error", "done"]
            assert "'once'" in received[0].data["detail"]
        assert (
            say(http, message="Well?", key="once", session_id=session).json()["message"] == "Now."
        )


def test_the_status_of_a_turn(start_server: Start) -> None:
    """The status tells waiting, stored, answered and unknown turns apart."""
    model = PausingModel("One two three four.", ModelUnavailable(model="m", problem="it fails"))
    item, other = start_server(model), start_server(model)
    mine = str(uuid.uuid4())
    body = {"session_id": mine, "stream": True}

    def status_of(client: httpx2.Client, key: str) -> Any:
        response = client.get(f"/api/chat/turns/{key}", params={"session_id": mine})
        return (
            response.json() | {"session_id": 0, "key": 0}
            if response.status_code == 200
            else response.status_code
        )

    def expected(seq: int | None, answered: list[str], running: bool) -> dict[str, Any]:
        return {
            "session_id": 0,
            "key": 0,
            "asked_seq": seq,
            "answered": answered,
            "running": running,
        }

    with item.client() as http, item.client() as second, other.client() as elsewhere:
        with talk(http, **{**body, "message": "Yes", "key": "k1"}) as received:
            assert next(received).data["asked_seq"] == 1
            assert model.halted.acquire(timeout=WAIT)
            with talk(second, **{**body, "message": "Yes", "key": "k2"}) as waiting:
                assert next(waiting).name == "waiting"
                assert (
                    status_of(second, "k1") == status_of(elsewhere, "k1") == expected(1, [], True)
                )
                assert (
                    status_of(second, "k2")
                    == status_of(elsewhere, "k2")
                    == expected(None, [], True)
                )
                model.going.set()
                assert [
                    event.data["asked_seq"] for event in received if event.name == "message"
                ] == [1]
        wait_until(lambda: status_of(http, "k2") == expected(3, [], False))
        assert status_of(elsewhere, "k1") == expected(1, ["assistant"], False)
        assert status_of(http, "k3") == 404


def test_a_model_outage_is_503_and_can_be_retried(start_local_server: Start) -> None:
    """503 with Retry-After; the message is kept, and a retry with the key does not store it twice."""
    served = start_local_server(
        ScriptedModel(ModelUnavailable(model="m", problem="it fails"), "Here I am.")
    )
    with served.client() as http:
        failed = say(http, message="Hello?")
        problem = failed.json()
        assert failed.status_code == 503
        assert int(failed.headers["retry-after"]) >= 1
        assert failed.headers["content-type"] == "application/problem+json"
        assert problem["type"] == "/problems/model-unavailable"
        assert problem["key"] in problem["detail"]
        assert "is stored" in problem["detail"]
        assert problem["request_id"]
        assert transcript(served, problem["session_id"]) == [("user", "Hello?")]
        second = {"message": "Hello?", "session_id": problem["session_id"]}
        answer = http.post(
            "/api/chat", json=second, headers={"Idempotency-Key": problem["key"]}
        ).json()
    assert answer["message"] == "Here I am."
    assert transcript(served, problem["session_id"]) == [
        ("user", "Hello?"),
        ("assistant", "Here I am."),
    ]


def test_a_broken_model_stream_is_an_error_event(
    start_local_server: Start, limited: Limited
) -> None:
    """An error event, then the end; no partial answer is stored, and the key finishes the turn."""
    with FakeService("A long answer with many words in it.") as service:
        limited(MODEL_PAUSE_SECONDS=0.01)
        limited(MODEL_RETRIES=0)
        served = start_local_server(None, model="fake", base_url=service.url, api_key="k")
        with served.client() as http:
            for how in ("early", "reset", "stream-error", "500"):
                service.misbehave(how, times=1)
                session = str(uuid.uuid4())
                received = stream(http, message="Go on.", key=how, session_id=session)
                assert event_names(received)[-2:] == ["error", "done"], how
                assert received[-2].data["status"] >= 500
                assert "is stored" in received[-2].data["detail"]
                assert transcript(served, session) == [("user", "Go on.")]
                second = stream(http, message="Go on.", key=how, session_id=session)
                assert second[-2].data["message"] == "A long answer with many words in it."
                assert len(transcript(served, session)) == 2


def test_turns_of_one_session_run_in_order(start_server: Start) -> None:
    """Not interleaved; the stream of the second turn reports that it waits."""
    model = PausingModel("One two three four.")
    served = start_server(model)
    with served.client() as http, served.client() as other:
        session = http.post("/api/chat/sessions", json={}).json()["id"]
        results: list[list[Event]] = []
        first = threading.Thread(
            target=lambda: results.append(stream(http, message="First.", session_id=session))
        )
        first.start()
        assert model.halted.acquire(timeout=WAIT)
        with talk(other, message="Second.", session_id=session) as reading:
            assert next(reading).name == "waiting"
            model.going.set()
            assert event_names(list(reading))[-2:] == ["message", "done"]
        first.join()
    assert [text for _, text in transcript(served, session)] == [
        "First.",
        "One two three four.",
        "Second.",
        "One two three four.",
    ]


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_retry_as_soon_as_a_turn_has_ended(
    start_local_server: Start, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    """The thread of the turn is still there: a saved answer is marked, and a failed turn runs again."""
    retried = threading.Event()
    end = running.RunningTurn.end

    def end_slowly(self: running.RunningTurn, *arguments: Any, **named: Any) -> None:
        end(self, *arguments, **named)
        assert retried.wait(WAIT)

    def fail(request: Any) -> str:
        raise ModelUnavailable(model="scripted", problem="it is busy")

    monkeypatch.setattr(running.RunningTurn, "end", end_slowly)
    model = ScriptedModel(*(["By train."] if is_stored else [fail, "By train."]))
    with start_local_server(model).client() as http:
        body = {"message": "How?", "session_id": str(uuid.uuid4()), "key": "k1"}
        first = say(http, **body)
        second = say(http, **body)
        retried.set()
    assert first.status_code == (200 if is_stored else 503)
    assert (second.status_code, second.json()["message"]) == (200, "By train.")
    assert second.json()["again"] == is_stored


def test_a_retry_in_flight_joins_the_running_turn(start_local_server: Start) -> None:
    """The retry reads the events of the first request; another message with the same key is
    rejected.
    """
    model = PausingModel("One two three four.")
    served = start_local_server(model)
    with served.client() as http, served.client() as other:
        body = {"message": "Count.", "key": "same", "session_id": str(uuid.uuid4()), "stream": True}
        with talk(http, **body) as response:
            next(response)
            assert model.halted.acquire(timeout=WAIT)
            assert say(other, **{**body, "message": "Something else."}).status_code == 422
            threading.Timer(0.05, model.going.set).start()
            assert (
                say(other, **{**body, "stream": False}).json()["message"] == "One two three four."
            )
        assert (
            say(http, **{**body, "message": "Else.", "stream": False}).json()["type"]
            == "/problems/key-reused"
        )
    assert len(model.requests) == 1


def test_too_many_concurrent_turns_are_rejected(
    start_local_server: Start, limited: Limited
) -> None:
    """503 with Retry-After above the limit; nothing of a rejected turn is stored."""
    model = PausingModel("One two three four.")
    limited(MAX_RUNNING_TURNS=1)
    served = start_local_server(model)
    with served.client() as http, served.client("bob") as other:
        with talk(http, message="First.") as reading:
            next(reading)
            assert model.halted.acquire(timeout=WAIT)
            refused = say(other, message="Second.")
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["type"] == "/problems/overloaded"
            model.going.set()
            assert event_names(list(reading))[-1] == "done"
        wait_until(lambda: say(other, message="Third.").status_code == 200)


def test_agents_of_a_group_answer_in_turn(start_local_server: Start) -> None:
    """Each has its own private memory and reads the answers before its own."""
    model = ScriptedModel(
        lambda request: "I am the scout." if "The scout" in request.system else "I am the cook."
    )
    served = start_local_server(model)
    tenant = served.memory.scope(tenant="acme")
    for name in ("scout", "cook"):
        tenant.agents.add(name, prompt=f"The {name}.")
        served.memory.scope(tenant="acme", user="ada", agent=name).entries.add(
            f"A secret of the {name}.", kind="core"
        )
    with served.client() as http:
        answer = say(http, message="Who are you?", agents=["scout", "cook"]).json()
        assert [(reply["agent_id"], reply["message"]) for reply in answer["replies"]] == [
            ("scout", "I am the scout."),
            ("cook", "I am the cook."),
        ]
        received = stream(
            http, message="Again.", agents=["cook", "scout"], session_id=answer["session_id"]
        )
        assert [event.data["agent_id"] for event in received if event.name == "message"] == [
            "cook",
            "scout",
        ]
        unknown = say(http, message="Hm.", agents=["scout", "nobody"])
        assert unknown.status_code == 404
        assert "nobody" in unknown.json()["detail"]
        whole = events_in(http.get(received[0].data["resume"]))
        assert whole == received
    assert "secret of the scout" in str(model.requests[0].messages)
    assert "secret of the cook" not in str(model.requests[0].messages)
    assert "I am the scout." in str(model.requests[1].messages)


def test_the_agent_run_route(start_local_server: Start) -> None:
    """The same turn under other field names."""
    model = ScriptedModel("Ran.")
    served = start_local_server(model)
    served.memory.scope(tenant="acme").agents.add("runner", prompt="You run.")
    with served.client() as http:
        answer = http.post("/agent/run", json={"agent": "runner", "input": "Run!"}).json()
        assert (answer["agent_id"], answer["message"]) == ("runner", "Ran.")
        more = http.post(
            "/agent/run",
            json={"agent": "runner", "message": "More!", "session_id": answer["session_id"]},
        )
        assert more.json()["session_id"] == answer["session_id"]
        third = {"agent": "runner", "prompt": "Third!", "session_id": answer["session_id"]}
        assert http.post("/agent/run", json=third).json()["message"] == "Ran."
        assert "Third!" in str(model.requests[-1].messages[-1])
        for body in (
            {"agent": "runner"},
            {"agent": "runner", "input": "a", "message": "b"},
            {"agent": "runner", "prompt": "a", "message": "b"},
        ):
            assert http.post("/agent/run", json=body).status_code == 422
        assert http.post("/agent/run", json={"agent": "walker", "input": "Run!"}).status_code == 404


def test_resume_finds_the_session(start_local_server: Start) -> None:
    """C6, in all its branches; then the chat continues there."""
    served = start_local_server(ScriptedModel("Yes."))
    served.memory.scope(tenant="acme").agents.add("scout")
    with served.client(**{"X-Memorist-Agent": "scout"}) as http:
        stored = str(uuid.uuid4())
        new = http.post("/api/sessions/resume", json={"stored_id": stored}).json()["id"]
        assert new != stored  # unknown to both sides: a new UUID
        assert (
            http.post("/api/sessions/resume", json={"stored_id": new}).json()["id"] == new
        )  # confirmed
        assert say(http, message="Hi.", session_id=new).json()["session_id"] == new
        newer = http.post("/api/sessions", json={}).json()["id"]  # another device
        assert (
            http.post("/api/sessions/resume", json={"stored_id": new}).json()["id"] == newer
        )  # stale: replaced
        assert http.post("/api/sessions/resume", json={}).json()["id"] == newer  # from the server
        assert say(http, message="Hi.").json()["session_id"] == newer
        assert http.post("/api/chat/sessions", json={}).json()["id"] == newer
        back = say(http, message="Back.", session_id=new).json()  # named: now the active one
        assert back["session_id"] == new
        assert http.get("/api/sessions/active").json()["id"] == new


def test_session_ids_chosen_by_the_client(start_local_server: Start) -> None:
    """An unused UUID becomes a session; any other unknown id, and another user's, is not found."""
    served = start_local_server(ScriptedModel("Yes."))
    mine = str(uuid.uuid4())
    with served.client() as http, served.client("eve") as eve:
        assert say(http, message="Hi.", session_id=mine).json()["session_id"] == mine
        assert (
            http.get("/api/sessions/active", headers={"X-Memorist-Agent": "assistant"}).json()["id"]
            == mine
        )
        for session in ("my session", mine):
            refused = say(eve, message="Hi.", session_id=session)
            assert refused.status_code == 404
            assert refused.json()["detail"] == f"There is no session {session!r}."
        for path in ("", "/messages"):
            assert eve.get(f"/api/chat/sessions/{mine}{path}").status_code == 404
        assert eve.patch(f"/api/chat/sessions/{mine}", json={"label": "Mine"}).status_code == 404
        assert len(transcript(served, mine)) == 2
        served.memory.scope(tenant="acme").agents.add("scout")
        other = say(http, message="Hi.", session_id=mine, agent_id="scout")
        assert other.status_code == 422
        assert other.json()["field"] == "agent_id"
        nobody = say(http, message="Hi.", agent_id="nobody")
        assert nobody.status_code == 404
        assert "`memorist agents add nobody --tenant acme`" in nobody.json()["detail"]


def test_a_tenant_without_agents_gets_the_named_one(start_local_server: Start) -> None:
    """The answer says that the agent was created; a second unknown agent is a 404."""
    served = start_local_server(ScriptedModel("Hello."))
    agents = served.memory.scope(tenant="acme").agents
    ask = {"message": "Hi.", "agent_id": "scout"}
    with served.client() as http:
        for path, body in (
            ("/agent/run", {"agent": "scout", "input": "Hi."}),
            ("/api/chat", {"message": "Hi.", "agents": ["scout", "cook"]}),
            ("/api/chat", ask | {"session_id": "no session"}),
        ):
            assert http.post(path, json=body).status_code == 404
        assert not list(agents.list())

        first = say(http, **ask)
        assert first.status_code == 200
        assert first.json()["agent_id"] == "scout"
        assert first.json()["notice"] == "Created the agent 'scout': no agent existed yet."
        assert say(http, **ask).json()["notice"] == ""
        unknown = say(http, **(ask | {"agent_id": "cook"}))
        assert unknown.status_code == 404
        audit = http.get("/api/audit").json()["data"]
        assert [row["subject"] for row in audit if row["what"] == "agents_add"] == ["agents scout"]
    assert [agent.name for agent in agents.list()] == ["scout"]


def test_a_stream_says_that_the_agent_was_created(start_local_server: Start) -> None:
    served = start_local_server(ScriptedModel("Hello."))
    with served.client() as http:
        received = stream(http, message="Hi.", agent_id="scout")
    (message,) = (event for event in received if event.name == "message")
    assert message.data["notice"] == "Created the agent 'scout': no agent existed yet."


def test_a_key_of_one_user_creates_no_agent(start_local_server: Start) -> None:
    served = start_local_server(ScriptedModel("Hello."))
    _, key = create_key(served.memory, "acme", "ada", ["read", "write"], user="ada")
    with served.client(Authorization=f"Bearer {key}") as http:
        refused = say(http, message="Hi.", agent_id="scout")
    assert refused.status_code == 404
    assert not list(served.memory.scope(tenant="acme").agents.list())


def test_conversations_are_listed(start_local_server: Start) -> None:
    """Each with the fields of a list, and how much its summary covers."""
    served = start_local_server(ScriptedModel("Yes."))
    with served.client() as http:
        first = say(http, message="One.", session_id=str(uuid.uuid4())).json()["session_id"]
        second = say(http, message="Two.", session_id=str(uuid.uuid4())).json()["session_id"]
        page = http.get("/api/chat/sessions", params={"limit": 1}).json()
        assert [session["id"] for session in page["data"]] == [second]
        rest = http.get("/api/chat/sessions", params={"limit": 1, "after": page["next"]}).json()
        assert [session["id"] for session in rest["data"]] == [first]
        assert rest["next"] is None
        shown = http.patch(f"/api/chat/sessions/{first}", json={"label": "The first"}).json()
        assert (shown["label"], shown["count"], shown["summary"], shown["summarizedCount"]) == (
            "The first",
            2,
            "",
            0,
        )
        assert http.get(f"/api/chat/sessions/{first}").json() == shown
        messages = f"/api/chat/sessions/{first}/messages"
        assert [message["seq"] for message in http.get(messages).json()["data"]] == [1, 2]
        assert [
            message["seq"] for message in http.get(messages, params={"last": 1}).json()["data"]
        ] == [2]
        assert [
            message["seq"]
            for message in http.get(messages, params={"last": 1, "before": 2}).json()["data"]
        ] == [1]
        assert http.get(messages, params={"last": 1, "before": 1}).json() == {
            "data": [],
            "next": None,
        }
        assert len(http.get(messages, params={"last": 2, "limit": 1}).json()["data"]) == 1
        assert len(http.get(messages, params={"limit": 1, "turns_only": "no"}).json()["data"]) == 1
        assert http.get(messages, params={"last": 1, "after": "x"}).status_code == 422
        assert http.get(messages, params={"last": 1, "before": "x"}).status_code == 422
        assert http.get("/api/chat/sessions", params={"user": "bob"}).json()["data"] == []
        assert [
            s["id"]
            for s in http.get("/api/chat/sessions", params={"search": "FIRST"}).json()["data"]
        ] == [first]
        assert http.get(messages, params={"search": "first"}).status_code == 422
        long = served.memory.scope(tenant="acme", user="ada", agent="assistant").sessions.add(
            "long"
        )
        served.memory.scope(tenant="acme", user="ada").messages.append(
            long.id, "assistant", "Hello."
        )
        served.memory.scope(tenant="acme", user="ada").messages.append(
            long.id, "user", "Where  do\nwe go " * 20
        )
        served.memory.scope(tenant="acme", user="ada", agent="assistant").sessions.add("empty")
        titles = {
            session["id"]: session["title"]
            for session in http.get("/api/chat/sessions").json()["data"]
        }
        assert titles == {first: "The first", second: "Two.", "long": titles["long"], "empty": ""}
        assert titles["long"].startswith("Where do we go Where")
        assert len(titles["long"]) <= 80
        assert http.get(f"/api/chat/sessions/{second}").json()["title"] == "Two."
        spoken = http.get("/api/chat/sessions", params={"spoken": True}).json()["data"]
        assert {session["id"] for session in spoken} == {"long", second, first}
        served.memory.scope(tenant="acme", user="ada").sessions.remove("long")
        served.memory.scope(tenant="acme", user="ada").sessions.remove("empty")
        served.memory.scope(tenant="acme").agents.add("cook")
        other = say(http, message="Three.", agent_id="cook").json()["session_id"]
        assert {s["id"] for s in http.get("/api/chat/sessions").json()["data"]} == {
            first,
            second,
            other,
        }
        assert [
            s["id"] for s in http.get("/api/chat/sessions", params={"agent": "cook"}).json()["data"]
        ] == [other]


INVALID_REQUESTS: tuple[tuple[dict[str, Any], int, str], ...] = (
    ({}, 422, "message"),
    ({"message": ""}, 422, "message"),
    ({"message": " \n"}, 422, "message"),
    ({"message": 1}, 422, "message"),
    ({"message": "a", "stream": "yes"}, 422, "stream"),
    ({"message": "a", "session": "b"}, 422, "session"),
    ({"message": "a", "key": ""}, 422, "key"),
    ({"message": "a", "agents": ["x"] * 17}, 422, "agents"),
    ({"message": "a", "agents": ["assistant", "assistant"]}, 422, "agents"),
    ({"message": "a" * (2 << 20)}, 413, "message"),
    ({"message": "a", "agent_id": "assistant", "agents": ["assistant"]}, 422, "agent_id"),
    ({"message": "My key is AKIAIOSFODNN7EXAMPLE."}, 422, "message"),
)


def test_invalid_messages_are_rejected(start_local_server: Start) -> None:
    """Rejected before a stream begins and before a session is created."""
    with start_local_server(ScriptedModel("Never."), secrets="reject").client() as http:
        for body, status, field in INVALID_REQUESTS:
            for more in ({}, {"stream": True}) if "stream" not in body else ({},):
                refused = say(http, **{**body, **more})
                assert (refused.status_code, refused.json()["field"]) == (status, field)
        assert http.get("/api/sessions").json()["data"] == []


def test_conflicting_keys_are_rejected(start_local_server: Start) -> None:
    with start_local_server(ScriptedModel("Yes.")).client(**{"Idempotency-Key": "one"}) as http:
        assert say(http, message="a", key="two").json()["field"] == "key"
        assert say(http, message="a").json()["key"] == "one"


def test_permissions_of_chat(start_local_server: Start) -> None:
    """Chat needs read and write; reading conversations needs read only. A bound key stays within
    its user and agent.
    """
    served = start_local_server(ScriptedModel("Yes."))
    _, writes = create_key(served.memory, "acme", "writes", ["write", "delete"])
    with served.client(Authorization=f"Bearer {writes}") as http:
        assert say(http, message="Hi.").status_code == 403
    _, reads = create_key(served.memory, "acme", "reads", ["read"])
    _, bound = create_key(
        served.memory, "acme", "bound", ["read", "write"], user="ada", agent="assistant"
    )
    with served.client(Authorization=f"Bearer {reads}") as http:
        assert say(http, message="Hi.").status_code == 403
        assert http.get("/api/chat/sessions").status_code == 200
    with served.client(None, Authorization=f"Bearer {bound}") as http:
        assert say(http, message="Hi.").status_code == 200
        assert say(http, message="Hi.", user="eve").status_code == 403
        assert say(http, message="Hi.", agents=["assistant", "scout"]).status_code == 403
    with served.client(None) as http:
        assert say(http, message="Hi.").json()["field"] == "user"
    with httpx2.Client(base_url=served.url) as http:
        assert say(http, message="Hi.").status_code == 401


@pytest.mark.parametrize("path", ["/api/chat", "/api/chat/sessions", "/agent/run"])
@pytest.mark.parametrize("value", ["", "a\nb"])
def test_an_invalid_session_id_is_named_as_the_request_names_it(
    start_local_server: Start, path: str, value: str
) -> None:
    message = {} if path == "/api/chat/sessions" else {"message": "Hi."}
    served = start_local_server(ScriptedModel("Yes."))
    with served.client() as http:
        answer = http.post(path, json={**message, "session_id": value})
        assert (answer.status_code, answer.json()["field"]) == (422, "session_id")
        if path != "/agent/run":
            answer = http.post(path, json={**message, "agent_id": value})
            assert (answer.status_code, answer.json()["field"]) == (422, "agent_id")


def test_a_chat_is_audited(start_local_server: Start) -> None:
    """A session it creates, the turn, and each change by the model's tools."""
    model = ScriptedModel(
        calling(("save_to_core", {"content": "Tea."}), ("remove_state", {"key": "theme"})), "Done."
    )
    served = start_local_server(model)
    _, key = create_key(served.memory, "acme", "talks", ["read", "write"])
    me = served.memory.scope(tenant="acme", user="ada", agent="assistant")
    me.state.set("theme", "dark")
    mine = str(uuid.uuid4())
    with served.client(Authorization=f"Bearer {key}") as http, served.client() as admin:
        assert say(http, message="Hi.").status_code == 200
        assert http.post("/api/chat/sessions", json={"session_id": mine}).status_code == 200
        record = admin.get("/api/audit").json()["data"]
    assert me.state.get("theme").value == "dark"
    assert [row["what"] for row in reversed(record)][-4:] == [
        "sessions_add",
        "chat",
        "entries_add",
        "sessions_add",
    ]
    assert record[0]["subject"] == f"sessions {mine}"


def test_a_turn_that_was_not_stored_does_not_claim_so(
    start_local_server: Start, limited: Limited
) -> None:
    """A turn that times out waiting for its session has stored nothing, and leaves nothing behind."""
    model = PausingModel("One two three four.")
    limited(CHAT_SECONDS=1.0, CHAT_MODEL_CALLS=0)
    served = start_local_server(model)
    mine = str(uuid.uuid4())
    body = {"message": "First.", "session_id": mine, "stream": True}
    with served.client() as http, served.client() as other, talk(http, **body) as response:
        next(response)
        assert model.halted.acquire(timeout=WAIT)
        refused = say(other, message="Second.", session_id=mine, key="k2")
        model.going.set()
    assert refused.status_code == 503
    assert "is stored" not in refused.json()["detail"]
    assert "'k2'" in refused.json()["detail"]
    assert ("user", "Second.") not in transcript(served, mine)


def test_a_turn_queued_in_another_process_is_awaited(start_local_server: Start) -> None:
    """Other processes cannot see it until its message is stored: they wait while the session is
    busy.
    """
    model = PausingModel("One two three four.")
    item, other = start_local_server(model), start_local_server(model)
    mine = str(uuid.uuid4())
    body = {"session_id": mine, "stream": True}
    with item.client() as http, item.client() as second, other.client() as elsewhere:
        with talk(http, **{**body, "message": "First.", "key": "k1"}) as first:
            next(first)
            assert model.halted.acquire(timeout=WAIT)
            with talk(second, **{**body, "message": "Second.", "key": "k2"}) as waiting:
                assert next(waiting).name == "waiting"
                threading.Timer(0.1, model.going.set).start()
                resume = f"/api/chat/turns/k2/events?session_id={mine}"
                received = events_in(elsewhere.get(resume))
        assert event_names(received) == ["message", "done"]
        assert received[0].data["key"] == "k2"
        assert elsewhere.get(resume.replace("k2", "k3")).status_code == 404


def test_a_stream_from_another_process_ends_at_shutdown(start_local_server: Start) -> None:
    """An error event that says how to continue, then the end."""
    model = PausingModel("One two three four.")
    first, other = start_local_server(model), start_local_server(model)
    mine = str(uuid.uuid4())
    with first.client() as http, other.client() as elsewhere:
        body = {"message": "Count.", "session_id": mine, "key": "k", "stream": True}
        with talk(http, **body) as response:
            next(response)
            assert model.halted.acquire(timeout=WAIT)
            threading.Timer(0.2, other.app.state.stopping.set).start()
            received = events_in(elsewhere.get(f"/api/chat/turns/k/events?session_id={mine}"))
            model.going.set()
    assert event_names(received) == ["error", "done"]
    assert "'k'" in received[0].data["detail"]


def test_a_saved_answer_wins_over_an_older_error(start_local_server: Start) -> None:
    """The turn failed here and was finished in another process: the saved answer counts."""
    first = start_local_server(ScriptedModel(ModelUnavailable(model="m", problem="it fails")))
    other = start_local_server(ScriptedModel("Now."))
    with first.client() as http, other.client() as elsewhere:
        body = {"message": "Well?", "session_id": str(uuid.uuid4()), "key": "k"}
        resume = f"/api/chat/turns/k/events?session_id={body['session_id']}"
        assert say(http, **body).status_code == 503
        assert event_names(events_in(http.get(resume))) == ["start", "error", "done"]
        assert say(elsewhere, **body).json()["message"] == "Now."
        assert event_names(events_in(http.get(resume))) == ["message", "done"]


def test_a_machine_out_of_threads(
    start_local_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, and the same key can be sent again."""
    served = start_local_server(ScriptedModel("Yes."))
    start = threading.Thread.start

    def refuse_to_start(thread: threading.Thread) -> None:
        if thread.name == "memorist-chat":
            raise RuntimeError("can't start new thread")
        start(thread)

    with served.client() as http:
        monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
        refused = say(http, message="Hi.", key="k")
        monkeypatch.undo()
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/overloaded")
        assert say(http, message="Hi.", key="k").json()["message"] == "Yes."


def test_one_session_cannot_take_every_slot(start_local_server: Start, limited: Limited) -> None:
    model = PausingModel("One two three four.")
    limited(MAX_RUNNING_TURNS=4)
    served = start_local_server(model)
    mine = str(uuid.uuid4())
    with (
        served.client() as http,
        served.client() as second,
        served.client("bob") as bob,
        ExitStack() as stack,
    ):
        for client in (http, second):
            body = {"message": "Hi.", "session_id": mine, "stream": True}
            response = stack.enter_context(client.stream("POST", "/api/chat", json=body))
            next(events(response.iter_lines()))
        with served.client() as third:
            assert say(third, message="Hi.", session_id=mine).status_code == 503
        model.going.set()
        assert say(bob, message="Hi.").status_code == 200


def test_shutdown_ends_streams_with_advice(start_local_server: Start, limited: Limited) -> None:
    """Turns have some time to finish; then their streams say that the key continues them."""
    model = PausingModel("One two three four.")
    limited(STOP_SECONDS=0.2)
    served = start_local_server(model)
    with served.client() as http:
        with talk(http, message="Count.", key="later") as reading:
            next(reading)
            assert model.halted.acquire(timeout=WAIT)
            served.app.state.stopping.set()
            received = list(reading)
        model.going.set()
    assert event_names(received)[-2:] == ["error", "done"]
    assert "'later'" in received[-2].data["detail"]


def test_aborted_requests_leave_nothing_behind(start_server: Start, limited: Limited) -> None:
    """No thread, lease or connection, however many clients disconnect."""
    limited(MAX_RUNNING_TURNS=8)
    served = start_server(ScriptedModel("An answer of a few words."))
    before = len(served.memory.scope(tenant="acme", user="ada").sessions.list())

    def abort(number: int) -> None:
        with served.client(f"user-{number}") as http:
            for place in range(ABORTED // 4):
                with http.stream(
                    "POST", "/api/chat", json={"message": f"{place}", "stream": True}
                ) as response:
                    if place % 2 and response.status_code == 200:
                        next(events(response.iter_lines()))

    threads = [threading.Thread(target=abort, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(
        lambda: (
            not [
                thread
                for thread in threading.enumerate()
                if thread.name.startswith("memorist-chat")
            ]
        )
    )
    wait_until(lambda: served.app.state.guard.long_running == 0)
    held = served.memory.database.read(
        "acme", lambda tx: tx.all("select what from leases where tenant = :tenant")
    )
    assert held == []
    assert before == 0
    with served.client() as http:
        assert say(http, message="Still there?").status_code == 200
    assert all(finding.ok for finding in Memory.verify(served.memory))


def test_a_silent_stream_sends_heartbeats_and_a_long_one_is_truncated() -> None:
    """Silence yields heartbeats; too many events are cut at the beginning, and the end is complete."""
    run = running.RunningTurn(("acme", "ada", "s", "k"), b"")

    async def listen() -> list[bytes]:
        result = []
        async for part in run.events(beat=0.01):
            result.append(part)
            if len(result) == 2:
                for number in range(20):
                    run.emit("text", {"text": f"{number} " + "x" * 50_000})
                run.end({"message": "all"}, last=("message", {"message": "all"}))
        return result

    result = asyncio.run(listen())
    assert result[:2] == [HEARTBEAT, HEARTBEAT]
    received = list(events(iter(b"".join(result[2:]).decode().split("\n"))))
    assert [event.id for event in received] == list(range(received[0].id, 23))
    assert received[0].id > 1
    assert event_names(received)[-2:] == ["message", "done"]


@one_engine
def test_a_repeated_request_is_answered_after_its_agent_was_made_inactive(
    memory: Memory, calling: Calling
) -> None:
    """Also by another process, in a group, and without a session in the request."""
    headers = {"X-Memorist-User": "ada"}
    first = calling(over=create_app(memory))
    for name in ("scout", "critic"):
        assert first.post("/api/agents", json={"name": name}).status_code == 201
    requests: list[dict[str, Any]] = [
        {"message": "Hello", "agent_id": "scout", "key": "alone"},
        {"message": "Hello", "agents": ["scout", "critic"], "key": "group"},
    ]
    for body in requests:
        assert first.post("/api/chat", json=body, headers=headers).status_code == 200
    for name in ("scout", "critic"):
        first.patch(f"/api/agents/{name}", json={"active": False})
    second = calling(over=create_app(memory))
    alone = second.post("/api/chat", json=requests[0], headers=headers)
    assert (alone.status_code, alone.json()["again"]) == (200, True), alone.text
    group = second.post("/api/chat", json=requests[1], headers=headers)
    assert group.status_code == 200, group.text
    assert [reply["again"] for reply in group.json()["replies"]] == [True, True]
    for body in requests:
        unknown = second.post("/api/chat", json={**body, "key": "new"}, headers=headers)
        assert unknown.status_code == 409, unknown.text


@one_engine
def test_an_inactive_agent_is_409(http: TestClient) -> None:
    ada = {"X-Memorist-User": "ada"}
    agent = {"name": "scout", "model": "m", "model_label": "The small one", "active": False}
    added = http.post("/api/agents", json=agent).json()
    assert (added["active"], added["model_label"]) == (False, "The small one")
    for body in ({"agent_id": "scout"}, {"agents": ["scout"]}):
        refused = http.post("/api/chat", json={"message": "Hello", **body}, headers=ada)
        assert refused.status_code == 409, refused.text
        assert "is inactive" in refused.json()["detail"]
    assert http.get("/api/sessions", headers=ada).json()["data"] == []
    assert http.patch("/api/agents/scout", json={"active": True}).json()["active"]
