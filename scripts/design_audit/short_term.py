"""The first design: persistent sessions, a client that stores their ids, notes, LangChain."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import uuid
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jwt

from design_audit.audit import (
    SCOUT,
    Audit,
    database_error,
    everything,
    refusal,
    system_text,
    tool,
)
from memorist import Scope
from memorist.testing import FailingModel, ScriptedModel, calling

NOTES_OPERATIONS = {
    "read",
    "overwrite",
    "append",
    "prepend",
    "delete_section_by_header",
    "replace_section_by_header",
    "delete_all_notes",
}


def persistence(audit: Audit) -> None:
    """Conversations survive restarts, and are the same on every device and server."""
    memory = audit.open()
    me = audit.scope(memory)
    session = me.sessions.resume()
    me.messages.append(session.id, "user", "I live in Lisbon.")

    with audit.item("stm-01", "A conversation is still there after a restart.") as item:
        again = audit.scope(audit.open())
        texts = [message.text for message in again.messages.window(session.id)]
        item.check("a newly opened memory reads the message", texts == ["I live in Lisbon."])

    with audit.item("stm-02", "The same user continues on another device.") as item:
        client = audit.http(audit.open())
        body = client.post("/api/sessions/resume", json={}, headers=SCOUT).json()
        item.check("another client without a stored id gets the session", body["id"] == session.id)
        window = client.get(f"/api/messages/{session.id}/window").json()
        item.check("and its messages", "Lisbon" in str(window))

    with audit.item("stm-03", "Each turn is saved at once, not in batches.") as item:
        other = audit.scope(audit.open())
        me.messages.append(session.id, "assistant", "A fine town.")
        last = other.messages.window(session.id, last=1)[0]
        item.check("another connection reads it right after the append", last.seq == 2)

    with audit.item("stm-04", "No server keeps a conversation only in its own memory.") as item:
        model = ScriptedModel("Noted.", "In Lisbon.")
        first = audit.http(audit.open(main=model))
        second = audit.http(audit.open(main=model))
        me.agents.add("scout")
        chat = {"session_id": session.id, "agent_id": "scout"}
        first.post("/api/chat", json={**chat, "message": "My sister is Clara."})
        second.post("/api/chat", json={**chat, "message": "Who is my sister?"})
        prompt = everything([dict(message) for message in model.requests[-1].messages])
        item.check("the second server's prompt has the first one's turn", "Clara" in prompt)

    with audit.item("stm-05", "A message belongs to exactly one session.") as item:
        other_session = me.sessions.add()
        me.messages.append(other_session.id, "user", "Something else.")
        texts = [message.text for message in me.messages.window(other_session.id)]
        item.check("another session has only its own", texts == ["Something else."])

    with audit.item(
        "stm-55", "Messages are rows of LangChain's table, in LangChain's format."
    ) as item:
        rows = audit.query(
            "langchain",
            "select session_id, message from chat_message_history where tenant = %(tenant)s order by created_at",
        )
        first_row = rows[0][1] if audit.is_postgres else json.loads(rows[0][1])
        item.check("in the order of the session", rows[0][0] == session.id)
        item.check("with type and data", first_row["type"] == "human")
        item.check("and the text", first_row["data"]["content"] == "I live in Lisbon.")

    with audit.item("stm-06", "Each message has the time at which it was stored.") as item:
        message = me.messages.window(session.id, last=1)[0]
        item.check("`created_at` has a time zone", message.created_at.tzinfo is not None)


def session_ids(audit: Audit) -> None:
    """The client uses the stored session, else the active one, else a new one."""
    memory = audit.open()
    me = audit.scope(memory)
    http = audit.http(memory)

    with audit.item(
        "stm-07", "Without a stored or active session, a new id is created and stored."
    ) as item:
        first = me.sessions.resume()
        item.check("the new id is a UUID", uuid.UUID(first.id))
        item.check("it is the active session", me.sessions.active().id == first.id)

    with audit.item("stm-08", "A stored id is used if it is the active session's.") as item:
        item.check("it is confirmed", me.sessions.resume(first.id).id == first.id)

    with audit.item("stm-09", "A stored id that is no longer valid is ignored.") as item:
        newer = me.sessions.add()
        item.check("the active one is returned", me.sessions.resume(first.id).id == newer.id)
        unknown = str(uuid.uuid4())
        item.check("also for an unknown id", me.sessions.resume(unknown).id == newer.id)

    with audit.item("stm-10", "Without a stored id the server's active session is used.") as item:
        item.check("resume without an id finds it", me.sessions.resume().id == newer.id)

    with audit.item("stm-11", "One active session per user and agent.") as item:
        rows = audit.exported_rows(memory, "active_sessions")
        item.check("one row after three sessions", len(rows) == 1)
        item.check("it names the newest", rows[0]["active_session_id"] == newer.id)

    with audit.item("stm-12", "The row of the active session has two times.") as item:
        row = audit.exported_rows(memory, "active_sessions")[0]
        item.check("last active and created", {"last_active_at", "created_at"} <= row.keys())
        me.sessions.resume()
        after = audit.exported_rows(memory, "active_sessions")[0]
        item.check("an upsert updates the first", after["last_active_at"] > row["last_active_at"])
        item.check("and keeps the second", after["created_at"] == row["created_at"])

    with audit.item("stm-13", "Two agents of one user have different sessions.") as item:
        other = audit.scope(memory, agent="planner").sessions.resume()
        item.check("the ids differ", other.id != newer.id)
        item.check("and the first stays active", me.sessions.active().id == newer.id)

    with audit.item("stm-14", "Two users of one agent have different sessions.") as item:
        item.check(
            "the ids differ", audit.scope(memory, user="bob").sessions.resume().id != newer.id
        )

    with audit.item("stm-15", "A client may choose the UUID.") as item:
        own = str(uuid.uuid4())
        item.check("the session has that id", me.sessions.add(own).id == own)
        item.check(
            "a second time is rejected", "AlreadyExists" in refusal(lambda: me.sessions.add(own))
        )

    with audit.item("stm-16", "Two devices that start at the same time share one session.") as item:
        carl = audit.scope(memory, user="carl")
        with ThreadPoolExecutor(8) as pool:
            ids = {session.id for session in pool.map(lambda _: carl.sessions.resume(), range(8))}
        item.check("eight concurrent calls return one id", len(ids) == 1)

    with audit.item("stm-17", "A session id of another user gives no access.") as item:
        bob = audit.scope(memory, user="bob")
        item.check(
            "reading it is rejected", "NotFound" in refusal(lambda: bob.sessions.get(newer.id))
        )
        item.check(
            "so are its messages",
            "NotFound" in refusal(lambda: bob.messages.window(newer.id)),
        )

    with audit.item("stm-18", "The client does all this over HTTP.") as item:
        stored = {"stored_id": first.id}
        stale = http.post("/api/sessions/resume", json=stored, headers=SCOUT)
        item.check("a stale id gets the active session", stale.json()["id"] == own)
        active = http.get("/api/sessions/active", headers=SCOUT)
        item.check("the active session can be requested", active.json()["id"] == own)

    with audit.item(
        "stm-19", "The browser stores the id per user and agent across reloads."
    ) as item:
        item.skip("tests/web/test_session.py checks it in a browser")


def chat_endpoint(audit: Audit) -> None:
    """`POST /api/chat` with a message, a session and an agent."""
    model = ScriptedModel(
        "By train.", calling(("save_to_core", {"content": "Likes tea."})), "Done."
    )
    memory = audit.open(main=model)
    me = audit.scope(memory)
    me.agents.add("scout", prompt="You scout ahead.")
    http = audit.http(memory)
    session = str(uuid.uuid4())
    chat = {"session_id": session, "agent_id": "scout"}
    first = http.post("/api/chat", json={**chat, "message": "How do we travel?"})

    with audit.item("stm-20", "The chat takes message, session_id and agent_id.") as item:
        item.check("it answers", first.json()["message"] == "By train.")
        item.check("in the client's session", first.json()["session_id"] == session)
        item.check("as the agent", first.json()["agent_id"] == "scout")

    with audit.item("stm-21", "User message and answer are saved after the turn.") as item:
        roles = [(message.role, message.text) for message in me.messages.window(session)]
        expected = [("user", "How do we travel?"), ("assistant", "By train.")]
        item.check("both are stored in order", roles == expected)

    with audit.item("stm-22", "Messages of tools are saved with the turn.") as item:
        http.post("/api/chat", json={**chat, "message": "Remember that I like tea."})
        stored = [message.role for message in me.messages.window(session)]
        item.check(
            "the call and its result", stored[2:] == ["user", "assistant", "tool", "assistant"]
        )

    with audit.item("stm-23", "The agent sees the earlier messages of the session.") as item:
        prompt = everything([dict(message) for message in model.requests[-1].messages])
        item.check("the prompt has the first question", "How do we travel?" in prompt)
        item.check("and the system prompt", "You scout ahead." in prompt)

    with audit.item("stm-24", "There is no separate request to archive messages.") as item:
        gone = http.post("/api/chat/session/archive_messages", json={})
        item.check("there is no such route", gone.status_code in (404, 405))

    with audit.item("stm-25", "Invalid requests get clear errors.") as item:
        empty = http.post("/api/chat", json=chat)
        item.check("a missing message is 422", empty.status_code == 422)
        item.check("as problem+json", "problem+json" in empty.headers["content-type"])
        nobody = http.post("/api/chat", json={"agent_id": "nobody", "message": "Hello"})
        item.check("an unknown agent is 404", nobody.status_code == 404)

    with audit.item("stm-26", "A failing model loses nothing.") as item:
        failing = audit.http(audit.open(main=FailingModel()))
        answer = failing.post("/api/chat", json={**chat, "message": "Are you there?"})
        item.check("the response is a model error", answer.status_code in (502, 503))
        last = me.messages.window(session, last=1)[0]
        item.check("the user's message is stored", last.text == "Are you there?")

    with audit.item("stm-27", "The short-term window is the last K messages.") as item:
        window = me.messages.window(session, last=2)
        item.check("two, oldest first", [message.seq for message in window] == [6, 7])

    with audit.item("stm-28", "An unreachable database is a clear error at startup.") as item:
        problem = refusal(lambda: audit.open(database="postgresql://nobody@127.0.0.1:1/none"))
        item.check("opening it fails with a reason", problem)


def langchain(audit: Audit) -> None:
    """A chat message history for LangChain."""
    from langchain_classic.memory import ConversationBufferWindowMemory
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langchain_postgres import PostgresChatMessageHistory

    from memorist_frameworks.langchain import MemoristChatMessageHistory

    warnings.simplefilter("ignore")  # LangChain turns its own warnings on again
    me = audit.scope(audit.open())
    history = MemoristChatMessageHistory(me, str(uuid.uuid4()))

    with audit.item("stm-29", "Messages are returned as the same LangChain objects.") as item:
        call = {"name": "weather", "args": {"city": "Lisbon"}, "id": "c1", "type": "tool_call"}
        messages = [
            SystemMessage("You are Scout."),
            HumanMessage("Sun?", name="ada"),
            AIMessage("", tool_calls=[call]),
            ToolMessage("sunny", tool_call_id="c1"),
            AIMessage("Yes."),
        ]
        history.add_messages(messages)
        item.check("five kinds of message without loss", history.messages == messages)

    with audit.item("stm-30", "It replaces LangChain's own PostgreSQL history.") as item:
        methods = ("add_messages", "get_messages", "clear", "aadd_messages", "aget_messages")
        for name in (*methods, "aclear", "add_user_message", "add_ai_message"):
            both = hasattr(PostgresChatMessageHistory, name) and hasattr(history, name)
            item.check(f"it has {name}", both)

    with audit.item(
        "stm-31",
        "A history is created with an engine, a table and a session id.",
        differs="it is created with a scope, which has the database, the tenant and the user",
    ) as item:
        other = MemoristChatMessageHistory(me, history.session_id)
        item.check("a scope and a session id are enough", len(other.messages) == 5)

    with audit.item("stm-32", "It works with ConversationBufferWindowMemory.") as item:
        thread = str(uuid.uuid4())
        window = ConversationBufferWindowMemory(
            chat_memory=MemoristChatMessageHistory(me, thread),
            k=1,
            return_messages=True,
            memory_key="chat_history",
            input_key="input",
        )
        for number in range(3):
            window.save_context({"input": f"Question {number}"}, {"output": f"Answer {number}"})
        loaded = window.load_memory_variables({})["chat_history"]
        texts = [message.content for message in loaded]
        item.check("the last k exchanges are loaded", texts == ["Question 2", "Answer 2"])
        item.check("as message objects", isinstance(loaded[0], HumanMessage))

    with audit.item("stm-33", "Every exchange is saved automatically; older ones stay.") as item:
        stored = MemoristChatMessageHistory(me, thread).messages
        item.check("another history object reads all six messages", len(stored) == 6)

    with audit.item("stm-34", "The history has asynchronous methods.") as item:
        asyncio.run(history.aadd_messages([HumanMessage("Later.")]))
        last = asyncio.run(history.aget_messages())[-1]
        item.check("they add and read a message", last.content == "Later.")

    with audit.item("stm-35", "A history can be cleared.") as item:
        history.clear()
        item.check("no message is left", history.messages == [])


def notes(audit: Audit) -> None:
    """Long-term memory as one text per user and agent."""
    memory = audit.open()
    me = audit.scope(memory)

    def manage(operation: str, content: str = "", header: str = "") -> dict[str, Any]:
        arguments = {"operation": operation, "content": content, "section_header": header}
        filled = {name: value for name, value in arguments.items() if value}
        return tool(me, "manage_long_term_memory", **filled)

    with audit.item("stm-36", "The tool has the seven operations and two more inputs.") as item:
        (definition,) = me.tools(["manage_long_term_memory"])
        inputs = definition.parameters["properties"]
        item.check("the operations", set(inputs["operation"]["enum"]) == NOTES_OPERATIONS)
        item.check("content and header", {"content", "section_header"} <= inputs.keys())
        item.check("none is required", not definition.parameters["required"])

    with audit.item("stm-37", "Notes can be overwritten, and read by default.") as item:
        manage("overwrite", "Speaks German.")
        answer = tool(me, "manage_long_term_memory")
        item.check("a call without arguments reads them", answer["notes"] == "Speaks German.")

    with audit.item("stm-38", "Text can be added at the end and at the beginning.") as item:
        manage("append", "Likes tea.")
        manage("prepend", "Name: Ada.")
        lines = [line for line in me.notes.read().text.splitlines() if line]
        expected = ["Name: Ada.", "Speaks German.", "Likes tea."]
        item.check("the three lines are in order", lines == expected)

    with audit.item("stm-39", "A section can be replaced by its Markdown header.") as item:
        manage("overwrite", "# Food\nTea.\n\n# Travel\nPlanes.\n\n```\n# Travel\n```")
        manage("replace_section_by_header", "Trains.", "Travel")
        text = me.notes.read().text
        item.check("its text is new", "Trains." in text and "Planes." not in text)
        item.check("other sections stay", "# Food\nTea." in text)

    with audit.item("stm-40", "A section can be deleted by its header.") as item:
        manage("delete_section_by_header", header="Travel")
        text = me.notes.read().text
        item.check("it is gone, the other is not", "Trains" not in text and "Tea." in text)

    with audit.item("stm-41", "All notes can be deleted.") as item:
        manage("delete_all_notes")
        item.check("they are empty", me.notes.read().text == "")

    with audit.item("stm-42", "Notes belong to one user and one agent.") as item:
        me.notes.overwrite("Only for Scout and Ada.")
        item.check("another agent has none", audit.scope(memory, agent="x").notes.read().text == "")
        item.check("another user has none", audit.scope(memory, user="x").notes.read().text == "")

    with audit.item("stm-43", "Notes have a time of creation and of change.") as item:
        before = me.notes.read()
        after = me.notes.append("More.")
        item.check("the first stays", before.created_at == after.created_at)
        item.check(
            "the second changes",
            before.updated_at and after.updated_at and after.updated_at > before.updated_at,
        )

    with audit.item("stm-44", "The notes replace the variable in the prompt template.") as item:
        me.agents.add("scout", prompt="You scout.\n<n>{long_term_memory_notes}</n>\nBe brief.")
        session = me.sessions.resume()
        text = system_text(me.context(session.id, "Hello").messages)
        inside = text.partition("<n>")[2].partition("</n>")[0]
        item.check("they are between the markers", "Only for Scout and Ada." in inside)
        item.check("the variable is gone", "{long_term_memory_notes}" not in text)

    with audit.item(
        "stm-45", "A prompt template without the variable gets the notes, too."
    ) as item:
        me.agents.edit("scout", prompt="You scout.")
        text = system_text(me.context(session.id, "Hello").messages)
        item.check("in a section of their own", "Only for Scout and Ada." in text)

    with audit.item("stm-46", "Preferences are kept after the session.") as item:
        newer = me.sessions.add()
        text = system_text(me.context(newer.id, "Hello").messages)
        item.check("a new session's prompt has the notes", "Only for Scout and Ada." in text)

    with audit.item("stm-47", "Other devices see a change of the notes at once.") as item:
        item.check("a waiting reader gets it", _waits_for_change(me))

    with audit.item("stm-48", "The database itself hides the rows of other tenants.") as item:
        if not audit.is_postgres:
            item.skip("row-level security needs PostgreSQL: run with --database postgresql://…")
        else:
            import psycopg

            with psycopg.connect(audit.database) as connection:
                connection.execute("set role memorist_app")
                connection.execute("set search_path = memorist")
                for table, statement in (
                    ("notes", "select * from notes"),
                    ("messages", "select * from messages"),
                    ("active_sessions", "select * from active_sessions"),
                ):
                    item.check(
                        f"{table}: the application's role reads nothing without a tenant",
                        "memorist.tenant is not set" in database_error(connection, statement),
                    )


def access(audit: Audit) -> None:
    """Users of an identity provider, servers without a model."""
    secret = "a secret of at least thirty-two bytes"
    issuer = "https://project.supabase.co/auth/v1"
    memory = audit.open(
        jwt_issuer=issuer,
        jwt_audience="authenticated",
        jwt_secret=secret,
        jwt_tenant=f"={audit.tenant}",
        jwt_permissions="app_metadata.memorist=read,write",
        auth="keys",
    )
    http = audit.http(memory, key=False)

    with audit.item("stm-49", "Users signed in with Supabase have their own memory.") as item:
        user = str(uuid.uuid4())
        claims = {
            "iss": issuer,
            "aud": "authenticated",
            "sub": user,
            "role": "authenticated",
            "iat": int(time.time()),
            "exp": int(time.time()) + 600,
        }
        token = jwt.encode(claims, secret, "HS256")
        headers = {**SCOUT, "Authorization": f"Bearer {token}", "X-Memorist-User": user}
        session = http.post("/api/sessions/resume", json={}, headers=headers)
        item.check("a token opens a session", session.json().get("user") == user)
        other = http.get("/api/notes", headers={**headers, "X-Memorist-User": "bob"})
        item.check("another user's memory is not accessible", other.status_code in (401, 403))

    with audit.item("stm-50", "Requests without a token are rejected.") as item:
        item.check("401", http.get("/api/notes", headers=SCOUT).status_code == 401)
        forged = jwt.encode(claims, "x" * 32, "HS256")
        denied = http.get("/api/notes", headers={**SCOUT, "Authorization": f"Bearer {forged}"})
        item.check("a forged token is rejected", denied.status_code == 401)

    with audit.item(
        "stm-51", "A server without a model stores everything, and says that it has no model."
    ) as item:
        plain = audit.http(audit.open())
        body = {"message": "I live in Lisbon.", "agent_id": "scout"}
        answer = plain.post("/api/chat", json=body).json()
        item.check("`memory_only` says so", answer.get("memory_only") is True)
        item.check(
            "the first agent is created, and the response says so", "scout" in answer["notice"]
        )
        me = audit.scope(memory, agent=None)
        texts = [message.text for message in me.messages.window(answer["session_id"])]
        item.check("the message is stored", texts[0] == "I live in Lisbon.")

    with audit.item("stm-52", "The server's own notices are not part of memory.") as item:
        item.check("the message is found", me.search("Where do I live?", kinds=["messages"]))
        hits = me.search("No model is set", limit=20)
        item.check("a search does not find them", not any("model" in hit.text for hit in hits))

    with audit.item("stm-53", "An answer can be streamed.") as item:
        streaming = audit.http(audit.open(main=ScriptedModel("By train.")))
        request = {"message": "How?", "stream": True, "agent_id": "scout"}
        with streaming.stream("POST", "/api/chat", json=request) as response:
            received = response.read().decode()
        item.check("as events", response.headers["content-type"].startswith("text/event-stream"))
        item.check("in parts", "event: text" in received and "event: done" in received)

    with audit.item("stm-54", "A turn can be retried without running twice.") as item:
        once = {"message": "Once.", "key": "turn-1", "session_id": answer["session_id"]}
        first = streaming.post("/api/chat", json=once).json()
        again = streaming.post("/api/chat", json=once).json()
        item.check("the same turn", first["turn_id"] == again["turn_id"])
        item.check("stored once", first["last_seq"] == again["last_seq"])


def _waits_for_change(me: Scope) -> bool:
    version = me.notes.read().version
    received: list[Any] = []
    reader = threading.Thread(
        target=lambda: received.extend(me.notes.changes(after=version, wait=20))
    )
    reader.start()
    me.notes.append("Written on another device.")
    reader.join(30)
    return bool(received) and "another device" in received[-1].text


GROUPS = (persistence, session_ids, chat_endpoint, langchain, notes, access)
