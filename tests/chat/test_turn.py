"""One turn of an agent with scripted models: what is stored, emitted and retried."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.base.errors import (
    BadAnswer,
    Busy,
    Invalid,
    ModelError,
    ModelUnavailable,
    NotFound,
    TooLarge,
)
from memorist.base.settings import Settings
from memorist.chat import turn, turn_lock
from memorist.chat.events import Answer, ChatEvent
from memorist.chat.turn import TurnInput
from memorist.models import Model, Models
from memorist.storage import leases
from memorist.testing import ModelRequest, ScriptedModel, calling
from testkit.databases import SETTINGS, one_engine
from testkit.failures import invalid, raised
from testkit.faults import with_faults
from testkit.limited import Limited
from testkit.memories import problems, scope_of
from testkit.model_service import FakeService
from testkit.models import PIXEL

Open = Callable[..., Memory]


class Chat:
    """A session, its emitted events, and the model."""

    def __init__(self, url: str, model: Model | None, **changes: Any) -> None:
        settings = replace(SETTINGS, **changes)
        memory = Memory.open(url, settings=settings, models=Models(settings, main=model))
        self.memory, self.faults = with_faults(memory)
        self.model = model
        self.me: Scope = scope_of(self.memory, "ada", "scout")
        self.session = self.me.sessions.add().id
        self.events: list[ChatEvent] = []

    def say(self, message: Any = "Where does my sister live?", **more: Any) -> Answer:
        turn_input = TurnInput(message, **more)
        return turn.run_turn(self.me, self.session, turn_input, emit=self.events.append)

    def events_of(self, what: str) -> list[dict[str, Any]]:
        return [dict(event.data) for event in self.events if event.what == what]

    def transcript(self) -> list[tuple[str, str]]:
        return [(message.role, message.text) for message in self.me.messages.list(self.session)]

    def request(self, place: int = -1) -> ModelRequest:
        assert isinstance(self.model, ScriptedModel)
        return self.model.requests[place]


@pytest.fixture
def chat(url: str) -> Any:
    opened: list[Chat] = []

    def make(*answers: Any, model: Model | None = None, **changes: Any) -> Chat:
        opened.append(Chat(url, model or (ScriptedModel(*answers) if answers else None), **changes))
        return opened[-1]

    yield make
    for each in opened:
        each.memory.close()


@one_engine
def test_a_turn_is_emitted_and_stored(chat: Any) -> None:
    """Context, model, saved turn; events; turns.get has the report."""
    talk = chat("In Turin.", model=ScriptedModel("In Turin.", cost=0.5))
    talk.me.entries.add("Ada's sister Mary lives in Turin.", kind="core")
    done = talk.say(key="k")
    assert talk.transcript() == [("user", "Where does my sister live?"), ("assistant", "In Turin.")]
    assert [event.what for event in talk.events] == ["start", "text", "text", "message", "done"]
    assert "".join(event["delta"] for event in talk.events_of("text")) == "In Turin."
    assert talk.events_of("start") == [{"key": "k", "session": talk.session, "asked_seq": 1}]
    assert talk.events_of("message") == [done.as_json()]
    assert (done.text, done.model, done.tools, done.cost) == ("In Turin.", "scripted", [], 0.5)
    assert done.again is False
    saved = talk.me.turns.get(done.turn)
    assert (saved.first_seq, saved.last_seq) == (2, 2)
    assert saved.report is not None
    assert "Mary lives in Turin" in talk.request().system
    assert talk.request().prompt == "Where does my sister live?"
    (call,) = talk.me.interactions.list()
    assert (call.id, call.route, call.model) == (saved.interaction, "chat", "scripted")
    assert call.session == talk.session
    assert problems(talk.memory) == []


@one_engine
def test_recall_uses_an_already_stored_question(chat: Any) -> None:
    talk = chat("Then.")
    other = talk.me.sessions.add().id
    for topic in (
        "tea",
        "trains",
        "the garden",
        "a bicycle",
        "Turin",
        "violins",
        "the weather",
        "chess",
    ):
        talk.me.messages.append(other, "user", f"I was thinking about {topic} again.")
    talk.me.messages.append(other, "user", "The dentist is on Thursday at nine, at Keplerstraße 4.")
    talk.say("When do I see the dentist?")
    assert any("Keplerstraße 4" in str(message["content"]) for message in talk.request().messages)


@one_engine
def test_sequential_and_parallel_tools(chat: Any) -> None:
    """The agent's memory tools; each round is recorded; calls and results are stored in order."""
    talk = chat(
        calling(("save_to_core", {"content": "Mary lives in Turin."}), text="I note that."),
        calling(
            ("save_to_journal", {"content": "We spoke of Mary."}),
            ("search_memory", {"query": "Mary"}),
        ),
        "Noted.",
    )
    done = talk.say("My sister Mary lives in Turin. Remember it!")
    assert done.tools == ["save_to_core", "save_to_journal", "search_memory"]
    assert [role for role, _ in talk.transcript()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert {entry.content for entry in talk.me.entries.list()} == {
        "Mary lives in Turin.",
        "We spoke of Mary.",
    }
    whats = [event.what for event in talk.events if event.what != "text"]
    assert whats == [
        "start",
        "tool_call",
        "tool_result",
        *["tool_call"] * 2,
        *["tool_result"] * 2,
        "message",
        "done",
    ]
    assert all(result["ok"] for result in talk.events_of("tool_result"))
    assert [message["role"] for message in talk.request().messages][-3:] == [
        "assistant",
        "tool",
        "tool",
    ]
    assert len(talk.me.interactions.list()) == 3
    again = talk.me.context(talk.session, "And?")
    assert [m["role"] for m in again.messages if m["role"] == "tool"] == ["tool"] * 3
    assert problems(talk.memory) == []


@one_engine
def test_tool_errors_are_returned_to_the_model(chat: Any) -> None:
    """Unknown tools, invalid arguments, and a failing tool: the turn continues."""

    def call_tools(request: ModelRequest) -> Any:
        talk.faults.fail("write", RuntimeError("boom"), at=2)  # the first records the model call
        return calling(
            ("fly", {}),
            ("search_memory", "{not json"),
            ("save_to_core", {"content": 7}),
            ("save_to_journal", {"content": "x"}),
        )

    talk = chat(call_tools, "Sorry.")
    talk.say("Do it.")
    outputs = [text for role, text in talk.transcript() if role == "tool"]
    assert [json.loads(output).keys() for output in outputs] == [{"error"}] * 4
    assert "Unknown tool 'fly'; available: " in outputs[0]
    assert "not valid JSON" in outputs[1]
    assert "must be of type string" in outputs[2]
    assert "boom" not in outputs[3]
    assert not any(result["ok"] for result in talk.events_of("tool_result"))


@one_engine
def test_an_agent_uses_its_tools_prompt_and_model(url: str) -> None:
    """And its notes where its prompt places them."""
    settings = replace(SETTINGS)
    own = ScriptedModel("I am another.", name="other-model")
    with Memory.open(
        url,
        settings=settings,
        models=Models(settings, main=ScriptedModel("x"), others={"other-model": own}),
    ) as memory:
        me = scope_of(memory, "ada", "scout")
        me.agents.add(
            "scout",
            prompt="Be kind. {long_term_memory_notes}",
            model="other-model",
            tools=["search_memory"],
        )
        me.notes.append("Ada likes tea.")
        done = turn.run_turn(me, me.sessions.add().id, TurnInput("Hi"))
    assert (done.text, done.model) == ("I am another.", "other-model")
    assert own.requests[0].tools == ["search_memory"]
    assert own.requests[0].system.startswith("Be kind. ")
    assert "Ada likes tea." in own.requests[0].system


@one_engine
def test_the_number_of_tool_rounds_is_limited(chat: Any, limited: Limited) -> None:
    """P16: then one call without tools; a missing answer is an error."""
    limited(CHAT_ROUNDS=2)
    talk = chat(calling(("search_memory", {"query": "x"})))
    with pytest.raises(BadAnswer, match="still calls tools after"):
        talk.say()
    assert [request.use_tools for request in talk.model.requests] == [True, True, False]
    assert [role for role, _ in talk.transcript()] == ["user"]


@one_engine
def test_the_number_of_parallel_tools_is_limited(chat: Any) -> None:
    talk = chat(calling(*[("search_memory", {"query": "x"})] * 20), "Done.")
    talk.say()
    outputs = [text for role, text in talk.transcript() if role == "tool"]
    assert len(outputs) == 20
    assert sum("at most 16 tools at once" in output for output in outputs) == 4


@one_engine
def test_a_large_output_becomes_a_reference_at_once(chat: Any) -> None:
    """The model sees the line in the next round, and so do readers of the session."""
    talk = chat(calling(("manage_long_term_memory", {"operation": "read"})), "Long.")
    talk.me.notes.append(
        "\n".join(f"Line {n} of what Ada likes, and there is a lot of it." for n in range(400))
    )
    talk.say("Read your notes.")
    seen = talk.request().messages[-1]["content"]
    assert "[MemoryRef: " in seen
    assert len(seen) < 1000
    assert [text for role, text in talk.transcript() if role == "tool"] == [seen]
    (ref,) = talk.me.refs.list(session=talk.session)
    assert ref.key in seen


@pytest.mark.parametrize("error", [ModelUnavailable(model="m", problem="p"), ValueError("boom")])
def test_a_failing_model_keeps_the_message_and_a_retry_completes(
    chat: Any, error: Exception
) -> None:
    """P7: typed, emitted, recorded; a retry with the key stores no second message."""

    def fail(request: ModelRequest) -> str:
        raise error

    talk = chat(fail, "In Turin.")
    raised(ModelError, talk.say, key="k")
    assert talk.transcript() == [("user", "Where does my sister live?")]
    (item,) = talk.events_of("error")
    assert item["error"] == (
        "ModelUnavailable" if isinstance(error, ModelUnavailable) else "ModelError"
    )
    assert [event.what for event in talk.events] == ["start", "error", "done"]
    (call,) = talk.me.interactions.list()
    assert type(error).__name__ in call.error
    done = talk.say(key="k")
    assert (done.text, done.asked_seq, done.again) == ("In Turin.", 1, False)
    again = talk.say(key="k")
    assert (again.turn, again.text, again.again) == (done.turn, "In Turin.", True)
    assert again.tokens_out == done.tokens_out
    assert [role for role, _ in talk.transcript()] == ["user", "assistant"]
    assert len(talk.model.requests) == 2


def test_an_overtaken_retry_answers_its_own_message(chat: Any) -> None:
    talk = chat(ModelUnavailable(model="m", problem="p"), "Blue.", "In Turin.")
    raised(ModelUnavailable, talk.say, key="k")
    talk.me.messages.extend(talk.session, [{"role": "assistant", "content": "…"}] * 101)
    talk.say("Which colour do I like?")
    assert talk.say(key="k").text == "In Turin."
    assert talk.request().messages[-1]["content"] == "Where does my sister live?"


@one_engine
@pytest.mark.parametrize("text", ["hi", "Hello!", "Thanks!", "ok", "How do black holes evaporate?"])
def test_without_a_model_unrelated_memory_is_not_listed(chat: Any, text: str) -> None:
    talk = chat()
    talk.me.messages.append(talk.session, "user", "My sister Clara moved to Lisbon.")
    talk.me.messages.append(talk.session, "user", "The printer is on floor 3.")
    assert talk.say(text).text.endswith("There are no related memories yet.")
    assert "Clara moved to Lisbon" in talk.say("Where does Clara live?").text


@one_engine
def test_without_a_model_the_answer_lists_matching_memory(chat: Any) -> None:
    """Stored, answered, marked; repeatable, without quoting itself."""
    talk = chat()
    assert "There are no related memories yet." in talk.say("Hello!").text
    talk.me.entries.add("Ada's sister Mary lives in Turin.", kind="core")
    done = talk.say()
    assert done.without_model
    assert done.text.startswith(
        "No model is set (`model` and `base_url` in the settings), so this was written without one."
    )
    assert "(entries): Ada's sister Mary lives in Turin." in done.text
    assert done.text.count("\n- ") == 1
    talk.me.notes.append("## Family\n\nMary, a sister, lives in Turin.")
    assert "(notes, Family): Mary, a sister, lives in Turin." in talk.say("Where is Mary?").text
    talk.me.notes.append("## Travel\n\nMary takes the train.")
    assert "(notes): Family: Mary, a sister, lives in Turin. Travel:" in talk.say("Mary?").text
    report = talk.me.turns.get(done.turn).report
    assert any(item[0] == "private" for item in report["items"]), (
        report
    )  # X3: what a model would have been given
    stored = talk.me.messages.list(talk.session)[3]
    assert (stored.role, stored.content["without_model"]) == ("assistant", True)
    assert stored.author == "scout"
    later = talk.say()
    assert "Mary lives in Turin" in later.text
    assert later.text.count("No model is set") == 1
    assert not [hit for hit in talk.me.search("model settings written") if "No model" in hit.text]
    assert len(talk.me.interactions.list()) == 0


@one_engine
def test_why_names_everything_that_an_answer_without_a_model_cites(chat: Any) -> None:
    """Also what the context of a model would have left out."""
    talk = chat(context_tokens=300)
    for n in range(8):
        session = talk.me.sessions.add().id
        talk.me.messages.append(session, "user", f"My sister Mary lives in Turin, street {n}.")
    done = talk.say("Where does my sister Mary live?")
    cited = done.text.count("\n- ")
    assert cited >= 3
    items = talk.me.turns.get(done.turn).report["items"]
    assert len([item for item in items if item[0] == "recall"]) == cited


@one_engine
def test_a_turn_without_a_server_folds_long_sessions(chat: Any) -> None:
    """No background job runs beside the library and `memorist chat`."""
    talk = chat("Fine.", summary_enabled=True, summary_threshold=4, summary_keep_last=2,
                summary_model="extractive")  # fmt: skip
    for n in range(4):
        talk.say(f"Message {n} about the harbour.")
    stored = talk.me.sessions.get(talk.session)
    assert stored.summarized_count >= 2
    assert "harbour" in stored.summary


@one_engine
def test_a_failing_summary_does_not_fail_the_turn(chat: Any) -> None:
    refusal = "I'm sorry, I can't help with that."
    talk = chat(refusal, summary_enabled=True, summary_threshold=4, summary_keep_last=2)
    for n in range(12):
        assert talk.say(f"Message {n} about the harbour.").text == refusal
    assert talk.me.sessions.get(talk.session).summarized_count == 0
    calls = talk.me.interactions.list(limit=100)
    assert len([call for call in calls if call.route == "summary"]) == 2  # the third would wait


@one_engine
def test_invalid_input_does_nothing(chat: Any) -> None:
    talk = chat("Yes.")
    for message in ("", "  ", {"text": ""}):
        invalid("message", talk.say, message)
    raised(NotFound, turn.run_turn, talk.me, "nowhere", TurnInput("Hi"))
    raised(
        NotFound,
        turn.run_turn,
        scope_of(talk.memory, "eve", "scout"),
        talk.session,
        TurnInput("Hi"),
    )
    raised(
        NotFound,
        turn.run_turn,
        talk.memory.scope(tenant="umbrella", user="ada", agent="scout"),
        talk.session,
        TurnInput("Hi"),
    )
    invalid("key", talk.say, key=" ")
    assert talk.transcript() == []
    assert talk.model.requests == []


@one_engine
def test_an_image_is_sent_once_and_stored(chat: Any) -> None:
    """An image for the model, a reference in the conversation; later turns have the
    placeholder.
    """
    talk = chat("A pixel.", "It was a pixel.")
    talk.say("What is this?", images=[PIXEL], key="k")
    parts = talk.request().messages[-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert parts[1]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    (ref,) = talk.me.refs.list(session=talk.session)
    assert (ref.type, ref.media, ref.bytes) == ("image", "binary", len(PIXEL))
    stored = talk.me.messages.list(talk.session)[0].content
    assert stored["parts"][0] == {
        "type": "reference", "key": ref.key, "media_type": "image/png",
        "text": f"[MemoryRef: {ref.key} - An image (PNG, 1 KiB)]",
    }  # fmt: skip
    assert talk.say("What is this?", images=[PIXEL], key="k").again
    talk.say("What was it?")
    sent = json.dumps(talk.request().messages, ensure_ascii=False)
    assert f"[MemoryRef: {ref.key} - An image (PNG, 1 KiB)]" in sent
    assert "base64" not in sent
    assert len(talk.me.refs.list(session=talk.session)) == 1


INVALID_IMAGES: list[tuple[Any, type[Exception]]] = [
    (b"GIF8nothing", Invalid),
    (b"", Invalid),
    ("http://169.254.169.254/latest", Invalid),
    ("file:///etc/passwd", Invalid),
    ("data:image/png;base64,!!!", Invalid),
    ("data:image/png;base64,PHNjcmlwdD4=", Invalid),
    (b"\x89PNG\r\n\x1a\n" + b"0" * (8 << 20), TooLarge),
    (7, Invalid),
]


@one_engine
def test_invalid_images_are_rejected(memory: Memory, me: Scope) -> None:
    """Detected by the first bytes; no URL is fetched; nothing is stored."""
    session = me.sessions.add().id
    for image, error in INVALID_IMAGES:
        with pytest.raises(error):
            turn.run_turn(me, session, TurnInput("What is this?", images=[image]))
    raised(TooLarge, turn.run_turn, me, session, TurnInput("What is this?", images=[PIXEL] * 9))
    assert len(me.messages.list(session)) == 0
    assert len(me.refs.list()) == 0


def test_a_retry_during_the_first_attempt(chat: Any) -> None:
    """A client that lost its connection and retries waits for the answer; the model is called once."""
    begun, gate = threading.Event(), threading.Event()

    def slow(request: ModelRequest) -> str:
        begun.set()
        gate.wait(10)
        return "In Turin."

    talk = chat(slow)
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(talk.say(key="k"))) for _ in range(2)]
    threads[0].start()
    threads[1].start()
    assert begun.wait(60)
    wait_until(partial(waiting, talk, 2))
    gate.set()
    for thread in threads:
        thread.join()
    assert [answer.again for answer in answers] == [False, True]
    assert len(talk.model.requests) == 1
    assert [role for role, _ in talk.transcript()] == ["user", "assistant"]


def test_a_session_that_stays_locked_is_busy(chat: Any, limited: Limited) -> None:
    """Nothing is stored for a caller that timed out, and the next one is not delayed."""
    limited(CHAT_SECONDS=1, CHAT_MODEL_CALLS=0)
    talk = chat("Yes.")
    lease = leases.claim(talk.memory.database, "acme", f"chat {talk.session}", 60)
    assert lease
    with pytest.raises(Busy, match="another turn of this session"):
        talk.say()
    assert talk.transcript() == []
    leases.release(talk.memory.database, lease)
    with turn_lock.hold_session(talk.memory.database, "acme", talk.session, 10):
        assert leases.claim(talk.memory.database, "acme", f"chat {talk.session}", 1) is None


def test_a_lease_is_renewed_while_a_turn_runs(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_lock, "LEASE_SECONDS", 0.3)
    expiries: set[int] = set()

    def was_renewed_often() -> bool:
        sql = "select expires_at from leases where tenant = :tenant and what = :what"
        what = f"chat {talk.session}"
        expiries.update(talk.memory.database.read("acme", lambda tx: tx.one(sql, what=what)))
        return len(expiries) > 4

    def answer_slowly(request: ModelRequest) -> str:
        wait_until(was_renewed_often)
        return "Yes."

    talk = chat(answer_slowly)
    assert talk.say().text == "Yes."


@one_engine
def test_the_duration_of_a_turn_is_limited(chat: Any, limited: Limited) -> None:
    def slow(request: ModelRequest) -> Any:
        time.sleep(0.15)
        return calling(("search_memory", {"query": "x"}))

    limited(CHAT_ROUNDS=50)
    limited(CHAT_SECONDS=1, CHAT_MODEL_CALLS=0)
    talk = chat(slow)
    with pytest.raises(ModelUnavailable, match="longer than 1 s"):
        talk.say()


@one_engine
@pytest.mark.parametrize(("model_seconds", "turn_seconds"), [(60, 300), (600, 3000), (1, 300)])
def test_a_slow_model_gets_more_time(chat: Any, model_seconds: float, turn_seconds: float) -> None:
    """One setting limits the calls of a model and the turn."""
    limits_of_calls: list[float] = []

    class Recording(ScriptedModel):
        def converse(self, *arguments: Any, seconds: float | None = None, **more: Any) -> Any:
            limits_of_calls.append(seconds or 0)
            return super().converse(*arguments, seconds=seconds, **more)

    talk = chat(model=Recording("Yes."), model_seconds=model_seconds)
    talk.say()
    assert limits_of_calls == [pytest.approx(turn_seconds, abs=60)]


def waiting(talk: Chat, number: int) -> bool:
    return len(turn_lock._queues.get(("acme", talk.session), ())) == number


def wait_until(true: Callable[[], bool]) -> None:
    """Wait for another thread or process."""
    for _ in range(3000):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


PROCESSES = ["sqlite", "modern"]
"""A process takes seconds to start; the servers do not differ here."""
CHILD = """
import sys, time
from memorist import Memory
from memorist.chat import turn
from memorist.chat.turn import TurnInput
from memorist.models import Models
from memorist.base.settings import Settings
from memorist.testing import ScriptedModel
url, session, key, message, how = sys.argv[1:]

def say(request):
    print("asked", flush=True)
    time.sleep(600 if how == "hang" else 0)
    return f"About {request.prompt}"

settings = Settings()
memory = Memory.open(url, settings=settings, models=Models(settings, main=ScriptedModel(say)))
me = memory.scope(tenant="acme", user="ada", agent="scout")
turn.run_turn(me, session, TurnInput(message, key=key))
"""


def child(
    url: str, session: str, key: str, message: str, how: str = "answer"
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, url, session, key, message, how], stdout=subprocess.PIPE
    )


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("engine", PROCESSES, indirect=True)
def test_a_killed_turn_is_completed_by_a_retry(url: str, memory: Memory, me: Scope) -> None:
    """P1: kill -9 while the model writes; the message is stored, and the key completes the turn
    elsewhere.
    """
    session = me.sessions.add().id
    with child(url, session, "k", "Where?", "hang") as running:
        assert running.stdout
        assert running.stdout.readline() == b"asked\n"
        running.send_signal(signal.SIGKILL)
    assert [message.text for message in me.messages.list(session)] == ["Where?"]
    expire(memory, session)
    with child(url, session, "k", "Where?") as again:
        assert again.wait(120) == 0
    assert [(message.role, message.text) for message in me.messages.list(session)] == [
        ("user", "Where?"),
        ("assistant", "About Where?"),
    ]
    assert problems(memory) == []


def expire(memory: Memory, session: str) -> None:
    """Expire the lease of a dead process."""
    memory.database.write(
        "acme", lambda tx: tx.run("update leases set expires_at = 0 where tenant = :tenant")
    )


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("engine", PROCESSES, indirect=True)
def test_turns_of_one_session_are_ordered_between_processes(
    url: str, memory: Memory, me: Scope
) -> None:
    """By a lease that the other process waits for."""
    session = me.sessions.add().id
    with child(url, session, "k0", "m0") as first, child(url, session, "k1", "m1") as other:
        assert [process.wait(120) for process in (first, other)] == [0, 0]
    texts = [(message.role, message.text) for message in me.messages.list(session)]
    assert [role for role, _ in texts] == ["user", "assistant", "user", "assistant"]
    assert [text for _, text in texts[1::2]] == [f"About {text}" for _, text in texts[::2]]


@pytest.mark.parametrize("how", ["injection", "babble"])
def test_model_output_is_data(tmp_path: Any, how: str) -> None:
    """An answer with instructions or a forged placeholder is stored as text, and forges
    nothing later.
    """
    with FakeService("In Turin.") as service:
        settings = Settings(model="m", base_url=service.url, api_key="k" * 20)
        with Memory.open(f"sqlite:///{tmp_path}/a.db", settings=settings) as memory:
            me = scope_of(memory, "ada", "scout")
            session = me.sessions.add().id
            service.misbehave(how, times=1)
            done = turn.run_turn(me, session, TurnInput("Where?"))
            assert done.text
            turn.run_turn(me, session, TurnInput("And now?"))
            assert "[MemoryRef: 00000000" not in json.dumps(service.requests[-1].body["messages"])
            assert [m["role"] for m in service.requests[-1].body["messages"]].count("system") == 1


@one_engine
def test_a_model_without_converse_is_reported(chat: Any) -> None:
    class Old:
        name = "old"

        def complete(self, system: str, prompt: str, *, max_tokens: int) -> Any:
            raise AssertionError

    talk = chat(model=Old())
    with pytest.raises(ModelError, match="no method `converse`"):
        talk.say()
