"""The fourth design: a rolling summary keeps long sessions inside the model's limits."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from design_audit.audit import Audit, eventually, everything, refusal, talk
from memorist import MemoristError, Scope, Settings
from memorist.testing import FailingModel, ScriptedModel, calling
from testkit.model_service import FakeService

SUMMARY = (
    "Ada and the agent spoke about trains, question by question and answer by answer. She wanted to "
    "know many things about trains, and each time the agent told her what it knew about them."
)
LONGER = f"{SUMMARY} Later they spoke about trains again, in the same way and at the same length."
SMALL: dict[str, Any] = {
    "summary_enabled": True,
    "summary_threshold": 8,
    "summary_keep_last": 4,
}
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAUwAOw=="


def storage(audit: Audit) -> None:
    """The stored fields of a session."""
    memory = audit.open()
    me = audit.scope(memory)
    session = me.sessions.resume()
    asks = {"text": "", "tool_calls": [{"id": "c1", "name": "search", "arguments": "{}"}]}
    me.save_turn(
        session.id,
        [
            {"role": "user", "content": "Where does Clara live?"},
            {"role": "assistant", "content": asks},
            {"role": "tool", "content": {"text": "Lisbon", "tool_call_id": "c1"}},
            {"role": "assistant", "content": "In Lisbon."},
        ],
    )

    with audit.item(
        "sum-01", "A session has a summary and the number of messages that it covers."
    ) as item:
        item.check("both are there", (session.summary, session.summarized_count) == ("", 0))

    with audit.item(
        "sum-02",
        "Only prompts and final answers are stored, no tool traffic.",
        differs="tool traffic is stored, too, so that a turn can be explained; `turns_only` omits it",
    ) as item:
        item.check("all four messages are stored", len(me.messages.window(session.id)) == 4)

    with audit.item("sum-03", "A replay has only prompts and final answers.") as item:
        replay = [message.text for message in me.messages.window(session.id, turns_only=True)]
        item.check("two messages", replay == ["Where does Clara live?", "In Lisbon."])
        again = [message.text for message in me.messages.window(session.id, turns_only=True)]
        item.check("the same each time", replay == again)

    with audit.item("sum-04", "The schema is created automatically at startup.") as item:
        new = audit.open(database=f"sqlite:///{audit.folder}/new.db")
        item.check(
            "a new database works at once", new.scope(user="ada", agent="x").sessions.resume()
        )

    with audit.item("sum-05", "An in-memory database has the same fields.") as item:
        in_memory = audit.open(database="memory:").scope(user="ada", agent="x")
        new_session = in_memory.sessions.resume()
        item.check(
            "summary and count", (new_session.summary, new_session.summarized_count) == ("", 0)
        )

    with audit.item("sum-06", "Conversations survive a restart with their summary.") as item:
        model = ScriptedModel(SUMMARY)
        talk(me, session.id, 10)
        audit.scope(audit.open(summary=model, **SMALL)).summaries.fold(session.id)
        stored = audit.scope(audit.open()).sessions.get(session.id)
        item.check("the summary", stored.summary == SUMMARY)
        item.check("and its count", stored.summarized_count > 0)


def folding(audit: Audit) -> None:
    """When and how messages are added to the summary."""
    model = ScriptedModel(SUMMARY, LONGER)
    memory = audit.open(summary=model, **SMALL)
    me = audit.scope(memory)
    session = me.sessions.resume().id

    with audit.item("sum-07", "Up to the threshold, nothing is summarized.") as item:
        talk(me, session, 4)
        me.summaries.fold(session)
        item.check("no call for eight messages", not model.requests)

    with audit.item(
        "sum-08", "Over the threshold, one model call summarizes the oldest turns."
    ) as item:
        talk(me, session, 2, "about boats")
        summary = me.summaries.fold(session)
        item.check("one call", len(model.requests) == 1)
        item.check("its answer is the summary", summary.text == SUMMARY)

    with audit.item("sum-09", "The newest messages stay verbatim.") as item:
        stored = me.sessions.get(session)
        item.check("all but four of twelve are covered", stored.summarized_count == 8)
        item.check(
            "the model read the oldest", "Question 1 about trains" in model.requests[0].prompt
        )

    with audit.item(
        "sum-10", "The context has the summary, then the messages that it does not cover."
    ) as item:
        messages = me.context(session, "And now?").messages
        place = next(i for i, message in enumerate(messages) if SUMMARY in str(message["content"]))
        item.check("a system message with it", messages[place]["role"] == "system")
        rest = [str(message["content"]) for message in messages[place + 1 :]]
        verbatim = [text for text in rest if text.startswith(("Question", "Answer"))]
        item.check("then four turns verbatim", len(verbatim) == 4)
        item.check("then the new message", rest[-1] == "And now?")

    with audit.item("sum-11", "The next summary includes the previous one.") as item:
        talk(me, session, 4, "about planes")
        me.summaries.fold(session)
        item.check(
            "the model gets it", SUMMARY in model.requests[1].system + model.requests[1].prompt
        )
        item.check(
            "but not the messages it covered",
            "Question 1 about trains" not in model.requests[1].prompt,
        )
        item.check("the new text is stored", me.sessions.get(session).summary == LONGER)

    with audit.item("sum-12", "Covered messages are not lost.") as item:
        covered = me.summaries.expand(session)
        count = me.sessions.get(session).summarized_count
        item.check(
            "they can be read", [message.seq for message in covered] == [*range(1, count + 1)]
        )
        item.check("all of them are stored", len(me.messages.window(session)) == 20)

    with audit.item("sum-13", "Earlier summaries can be read.") as item:
        item.check(
            "both, newest first", [s.text for s in me.summaries.list(session)] == [LONGER, SUMMARY]
        )

    with audit.item("sum-14", "A failing model does not change the summary.") as item:
        talk(me, session, 6, "about ships")
        broken = audit.scope(audit.open(summary=FailingModel(), **SMALL))
        problem = refusal(lambda: broken.summaries.fold(session))
        item.check("the error is the model's", "failing" in problem)
        item.check("the summary stays", me.sessions.get(session).summary == LONGER)
        text = everything(broken.context(session, "And now?").messages)
        uncovered = me.messages.window(session)[me.sessions.get(session).summarized_count :]
        are_shown = all(message.text in text for message in uncovered)
        item.check("all newer turns are used verbatim", len(uncovered) > 12 and are_shown)

    with audit.item("sum-15", "An unusable answer of a model is not stored.") as item:
        silly = audit.scope(audit.open(summary=ScriptedModel("Ok."), **SMALL))
        problem = refusal(lambda: silly.summaries.fold(session))
        item.check("it is rejected", "cannot be used" in problem)
        item.check("the summary stays", me.sessions.get(session).summary == LONGER)

    with audit.item(
        "sum-16", "If summaries are off, all stored messages are used verbatim."
    ) as item:
        without_summaries = audit.open(summary=ScriptedModel(SUMMARY))
        bob = audit.scope(without_summaries, user="bob")
        plain = bob.sessions.resume().id
        talk(bob, plain, 30)
        without_summaries.run_jobs(tenants=[audit.tenant])
        text = everything(bob.context(plain, "And now?", budget=32_000).messages)
        item.check("there is no summary", bob.sessions.get(plain).summary == "")
        item.check("the first turn is in the context", "Question 1 about" in text)

    with audit.item("sum-17", "A background job summarizes automatically.") as item:
        with_summaries = audit.open(summary=ScriptedModel(SUMMARY), **SMALL)
        audit.http(with_summaries, jobs=True)
        summarized = eventually(lambda: bob.sessions.get(plain).summary == SUMMARY)
        item.check("a server summarizes the other session", summarized)


def configuration(audit: Audit) -> None:
    """Settings, their defaults and where they can be set."""
    with audit.item(
        "sum-18", "By default, summaries are off, the threshold is 40 and the newest 12 stay."
    ) as item:
        settings = Settings()
        item.check("off", settings.summary_enabled is False)
        item.check("40", settings.summary_threshold == 40)
        item.check("12", settings.summary_keep_last == 12)

    promise = "Summaries use the main model unless another is set."
    with audit.item("sum-19", promise) as item, FakeService(SUMMARY) as main:
        folded = _folded(audit, model="main", base_url=main.url, api_key="k", **SMALL)
        item.check("the main model is called", folded.summary == SUMMARY)
        item.check("by its name", main.requests[0].body["model"] == "main")

    with (
        audit.item("sum-20", "Summaries can have their own model and address.") as item,
        FakeService("Main.") as main,
        FakeService(SUMMARY) as cheap,
    ):
        other = {"summary_model": "cheap", "summary_base_url": cheap.url}
        _folded(audit, model="main", base_url=main.url, api_key="k", **other, **SMALL)
        item.check("the other service is called", cheap.requests[0].body["model"] == "cheap")
        item.check("the main one is not", not main.requests)

    with audit.item("sum-21", "Both can also be set by variables that start with OPENAI_.") as item:
        env = {"OPENAI_SUMMARY_MODEL": "cheap", "OPENAI_SUMMARY_URL": "http://127.0.0.1:1/v1"}
        loaded = Settings.load(env=env)
        item.check("the model", loaded.summary_model == "cheap")
        item.check("the address", loaded.summary_base_url == "http://127.0.0.1:1/v1")

    with audit.item(
        "sum-22",
        "A YAML file can set them, also in camel case and under `openai:`.",
        differs="a file has the settings by their own names, so that each has one name",
    ) as item:
        file = audit.folder / "summaries.yaml"
        file.write_text(
            "summary_enabled: true\nsummary_threshold: 30\nsummary_keep_last: 6\n"
            "model: big\nbase_url: http://127.0.0.1:1/v1\n"
            "summary_model: cheap\nsummary_base_url: http://127.0.0.1:2/v1\n"
        )
        loaded = Settings.load(file, env={})
        item.check("on", loaded.summary_enabled)
        item.check("30 and 6", (loaded.summary_threshold, loaded.summary_keep_last) == (30, 6))
        item.check("the models", (loaded.model, loaded.summary_model) == ("big", "cheap"))
        item.check("the main address", loaded.base_url == "http://127.0.0.1:1/v1")
        item.check("the summary's address", loaded.summary_base_url == "http://127.0.0.1:2/v1")
        file.write_text("summaryEnabled: true\n")
        problem = refusal(lambda: Settings.load(file, env={}))
        item.check("another name is an error that names the setting", "summary_enabled" in problem)

    with audit.item("sum-23", "Flags of a command can set them.") as item:
        done = audit.command("config", "show", "--set", "summary_threshold=33", "--json")
        shown = json.loads(done.stdout)
        item.check("the value and its origin", "33" in str(shown) and "flag" in str(shown))

    with audit.item("sum-24", "An example file lists the settings.") as item:
        example = audit.command("config", "example").stdout
        names = ("summary_enabled", "summary_threshold", "summary_keep_last", "summary_base_url")
        for name in (*names, "summary_model"):
            item.check(name, f"\n{name}:" in example)


def _folded(audit: Audit, **settings: Any) -> Any:
    """Return a session after a fold by the models of the settings."""
    me = audit.scope(audit.open(**settings))
    session = me.sessions.add().id
    talk(me, session, 8)
    me.summaries.fold(session)
    return me.sessions.get(session)


def endpoints(audit: Audit) -> None:
    """Endpoints that use or show the summary."""
    model = ScriptedModel("An answer about trains.")
    memory = audit.open(main=model, summary=ScriptedModel(SUMMARY), **SMALL)
    me = audit.scope(memory)
    me.agents.add("scout")
    http = audit.http(memory)
    session = me.sessions.resume().id
    talk(me, session, 8)
    me.summaries.fold(session)

    with audit.item("sum-25", "`/agent/run` uses the session's memory.") as item:
        body = {"message": "And now?", "session_id": session, "agent": "scout"}
        answer = http.post("/agent/run", json=body).json()
        item.check("it answers", answer.get("message") == "An answer about trains.")
        item.check("the model got the summary", _was_shown(model, SUMMARY))

    with audit.item("sum-26", "`/agent/vision` does the same with images.") as item:
        answer = http.post("/agent/vision", json={**body, "images": [PIXEL]}).json()
        item.check("it answers", answer.get("message") == "An answer about trains.")
        item.check("the model got the summary", _was_shown(model, SUMMARY))
        item.check("and the image", "image" in str(model.requests[-1].messages))

    with audit.item(
        "sum-27", "The session endpoints show `summary` and `summarizedCount`."
    ) as item:
        listed = http.get("/api/chat/sessions").json()["data"][0]
        one = http.get(f"/api/chat/sessions/{session}").json()
        for name, shown in (("the list", listed), ("one session", one)):
            item.check(name, shown["summary"] == SUMMARY and shown["summarizedCount"] >= 8)

    with audit.item("sum-28", "The session endpoints also return the messages.") as item:
        page = http.get(f"/api/chat/sessions/{session}/messages", params={"turns_only": True})
        item.check("prompts and answers", len(page.json()["data"]) == 20)

    promise = "The command line summarizes as the server does."
    with audit.item("sum-29", promise) as item, FakeService(SUMMARY) as service:
        folded = _by_command(audit, me, service)
        item.check("a chat in a terminal leaves a summary", folded.summary == SUMMARY)

    with audit.item("sum-30", "A replay of chats with tools has only prompts and answers.") as item:
        noisy = ScriptedModel(calling(("search_memory", {"query": "trains"})), "By train.")
        tool_memory = audit.open(main=noisy, summary=ScriptedModel(SUMMARY), **SMALL)
        talking = audit.http(tool_memory)
        fresh = me.sessions.add().id
        for number in range(3):
            body = {"message": f"Question {number}?", "session_id": fresh, "agent_id": "scout"}
            talking.post("/api/chat", json=body)
        replay = me.messages.window(fresh, turns_only=True)
        item.check("six messages in a replay", len(replay) == 6)
        roles = {message.role for message in replay}
        item.check("only of users and assistants", roles == {"user", "assistant"})

    with audit.item("sum-31", "The page shows where the summary ends.") as item:
        item.skip("tests/web/test_chat.py checks it in a browser")


def _was_shown(model: ScriptedModel, text: str) -> bool:
    return text in everything([dict(message) for message in model.requests[-1].messages])


def _by_command(audit: Audit, me: Scope, service: FakeService) -> Any:
    session = me.sessions.add().id
    talk(me, session, 8)
    flags = [f"--set={name}={value}" for name, value in SMALL.items()]
    environment = {
        "MEMORIST_MODEL": "fake",
        "MEMORIST_BASE_URL": service.url,
        "MEMORIST_API_KEY": "k",
        "MEMORIST_USER": "ada",
        "MEMORIST_AGENT": "scout",
    }
    command = ("chat", "--session", session, *flags, "Hello")
    audit.command(*command, environment=environment)
    return me.sessions.get(session)


def robustness(audit: Audit) -> None:
    """Models that refuse, large sessions, concurrent processes."""
    memory = audit.open()
    me = audit.scope(memory)

    with audit.item("sum-32", "A model that refuses is not called repeatedly.") as item:
        session = me.sessions.add().id
        talk(me, session, 10)
        refusing = ScriptedModel("No.")
        stubborn = audit.open(summary=refusing, **SMALL)
        for _ in range(5):
            stubborn.run_jobs(tenants=[audit.tenant])
        item.check("at most two requests in five rounds", len(refusing.requests) <= 2)
        calls = list(me.interactions.list(route="summary"))
        item.check("its error is recorded", calls and all(call.error for call in calls))

    with audit.item(
        "sum-33", "Turns that are too large for one request are summarized in several."
    ) as item:
        large = me.sessions.add().id
        talk(me, large, 30, "about trains, " + "which are long and wind through mountains, " * 60)
        patient = ScriptedModel(*[LONGER] * 50)
        summary = audit.scope(audit.open(summary=patient, **SMALL)).summaries.fold(large)
        item.check("several requests", len(patient.requests) > 1)
        item.check("all but the newest are covered", summary.covers_to == 56)

    with audit.item("sum-34", "Two processes do not summarize the same turns.") as item:
        shared = me.sessions.add().id
        talk(me, shared, 10)
        slow = ScriptedModel(_slow_summary)
        scopes = [audit.scope(audit.open(summary=slow, **SMALL)) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda scope: _try_fold(scope, shared), scopes))
        item.check("one request", len(slow.requests) == 1)
        item.check("one summary", len(list(me.summaries.list(shared))) == 1)


def _slow_summary(_: object) -> str:
    time.sleep(0.5)
    return SUMMARY


def _try_fold(scope: Scope, session: str) -> None:
    """Fold; ignore the error if another process is folding the session."""
    with suppress(MemoristError):
        scope.summaries.fold(session)


GROUPS = (storage, folding, configuration, endpoints, robustness)
