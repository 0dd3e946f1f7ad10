"""The fifth design: conversations, messages, key-value state and telemetry in a SQL database."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

from design_audit.audit import (
    SCOUT,
    Audit,
    Now,
    database_error,
    eventually,
    everything,
    refusal,
    talk,
)
from memorist.testing import ScriptedModel

ADA = ("--user", "ada", "--agent", "scout")
PERSONAL = (
    "Write to fay@example.org or call +49 170 1234567. Card 4111 1111 1111 1111, account "
    "DE89 3704 0044 0532 0130 00, order 4111 1111 1111 1112."
)
"""An e-mail address, a phone number, a card, an IBAN, and a number that is not a card."""
INJECTION = "'; drop table messages; -- %s :tenant $1 {key} \\' \" /* */"


def sessions(audit: Audit) -> None:
    """Conversations as containers of messages."""
    now = Now()
    memory = audit.open(clock=now)
    me = audit.scope(memory)
    session = me.sessions.add(label="Lisbon", attributes={"pinned": True, "tags": ["a"]})

    with audit.item("sql-01", "A conversation has a user, a label and free attributes.") as item:
        stored = me.sessions.get(session.id)
        item.check("user", stored.user == "ada")
        item.check("label", stored.label == "Lisbon")
        item.check("attributes", stored.attributes == {"pinned": True, "tags": ["a"]})

    with audit.item(
        "sql-02", "A conversation has its time of creation and of the last change."
    ) as item:
        now.pass_days(1)
        me.messages.append(session.id, "user", "Hello")
        stored = me.sessions.get(session.id)
        item.check(
            "a message updates the second", stored.updated_at - stored.created_at == timedelta(1)
        )

    with audit.item("sql-03", "Label and attributes can be changed.") as item:
        edited = me.sessions.edit(session.id, label="Porto", attributes={})
        item.check("both", (edited.label, edited.attributes) == ("Porto", {}))

    with audit.item("sql-04", "Recent conversations of a tenant are listed, page by page.") as item:
        now.pass_days(1)
        other = audit.scope(memory, user="bob").sessions.add()
        tenant = audit.scope(memory, user=None, agent=None)
        page = tenant.sessions.list(limit=1)
        item.check("the newest first", [listed.id for listed in page] == [other.id])
        rest = tenant.sessions.list(limit=1, after=page.next)
        item.check("then the one before", [listed.id for listed in rest] == [session.id])

    with audit.item("sql-05", "A user's own conversations are listed.") as item:
        item.check("only theirs", [listed.id for listed in me.sessions.list()] == [session.id])

    with audit.item(
        "sql-06",
        "Ids are numbers that the database assigns.",
        differs="a session has a UUID, which a client may choose; its messages are numbered",
    ) as item:
        item.check("a UUID", len(session.id) == 36)
        item.check("messages count from 1", me.messages.window(session.id)[0].seq == 1)

    with audit.item("sql-07", "Every row belongs to one tenant, and tenants are isolated.") as item:
        foreign = memory.scope(tenant=f"{audit.tenant}-other", user="ada", agent="scout")
        item.check("no session", "NotFound" in refusal(lambda: foreign.sessions.get(session.id)))
        item.check(
            "no messages", "NotFound" in refusal(lambda: foreign.messages.window(session.id))
        )
        item.check("no search hit", not foreign.search("Hello"))
        item.check("an empty list", not list(foreign.sessions.list()))


def messages(audit: Audit) -> None:
    """Append-only messages, and windows of them."""
    now = Now()
    memory = audit.open(clock=now)
    me = audit.scope(memory)
    session = me.sessions.resume().id

    with audit.item("sql-08", "Content is JSON with text, parts and attachments.") as item:
        content = {
            "text": "Look",
            "parts": [{"type": "text", "text": "Look"}],
            "attachments": [{"name": "a.png"}],
        }
        stored = me.messages.append(session, "user", content)
        item.check("it is returned unchanged", json.loads(stored.raw) == content)

    with audit.item("sql-09", "Plain text becomes JSON content.") as item:
        stored = me.messages.append(session, "assistant", "A picture.")
        item.check("{text: …}", json.loads(stored.raw) == {"text": "A picture."})

    with audit.item("sql-10", "Tokens and cost are optional, and null if unknown.") as item:
        counted = me.messages.append(
            session, "assistant", "Yes.", tokens_in=12, tokens_out=3, cost=0.002
        )
        item.check("kept", (counted.tokens_in, counted.tokens_out, counted.cost) == (12, 3, 0.002))
        item.check("else null", (stored.tokens_in, stored.tokens_out, stored.cost) == (None,) * 3)

    with audit.item(
        "sql-11",
        "Roles are system, user and assistant; others are rejected.",
        differs="`tool` is a fourth role, for the results of tools",
    ) as item:
        for role in ("system", "tool"):
            chosen: Any = role
            content_of_role: Any = "x" if role == "system" else {"text": "x", "tool_call_id": "c"}
            item.check(role, me.messages.append(session, chosen, content_of_role).role == role)
        wrong: Any = "robot"
        item.check("robot is rejected", refusal(lambda: me.messages.append(session, wrong, "x")))

    with audit.item(
        "sql-12", "Messages have one strict order, even if the clock is wrong."
    ) as item:
        now.pass_days(-10)
        late = me.messages.append(session, "user", "From a wrong clock.")
        order = [message.seq for message in me.messages.window(session)]
        item.check("numbers without a gap", order == [*range(1, late.seq + 1)])
        now.pass_days(10)

    with audit.item("sql-13", "Concurrent writers do not disturb the order.") as item:
        busy = me.sessions.add().id
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: me.messages.append(busy, "user", f"m{n}"), range(40)))
        order = [message.seq for message in me.messages.window(busy)]
        item.check("forty concurrent appends are 1 to 40", order == [*range(1, 41)])

    with audit.item("sql-14", "A window has the last K messages, oldest first.") as item:
        window = me.messages.window(busy, last=5)
        item.check("the newest five in order", [m.seq for m in window] == [36, 37, 38, 39, 40])

    with audit.item("sql-15", "A window has the messages of the last minutes.") as item:
        now.pass_days(1)
        talk(me, busy, 2)
        item.check("of the last fifteen minutes", len(me.messages.window(busy, minutes=15)) == 4)

    with audit.item("sql-16", "With both K and a time limit, the narrower one applies.") as item:
        item.check("K", len(me.messages.window(busy, minutes=15, last=2)) == 2)
        item.check("time", len(me.messages.window(busy, minutes=15, last=30)) == 4)

    with audit.item("sql-17", "A window has as many messages as fit a number of tokens.") as item:
        fitting = me.messages.window(busy, tokens=60)
        item.check("the newest few", 0 < len(fitting) < 44 and fitting[-1].seq == 44)

    with audit.item("sql-18", "A repeated append with the same key changes nothing.") as item:
        first = me.messages.append(busy, "user", "Once.", key="k1")
        again = me.messages.append(busy, "user", "Once.", key="k1")
        item.check("the same message", first.seq == again.seq)
        item.check("stored once", me.messages.window(busy, last=1)[0].seq == first.seq)


def state(audit: Audit) -> None:
    """Key-value memory with scopes and expiry."""
    now = Now()
    memory = audit.open(clock=now)
    me = audit.scope(memory)
    session = me.sessions.resume().id

    with audit.item("sql-19", "A key holds JSON.") as item:
        for value in ({"dark": True}, [1, "two", None], "text", 3.5, None):
            me.state.set("theme", value)
            item.check(f"{value!r}", me.state.get("theme").value == value)

    with audit.item("sql-20", "Setting a key again replaces it.") as item:
        me.state.set("theme", "light")
        rows = [row for row in audit.exported_rows(memory, "state") if row["key"] == "theme"]
        item.check("one row", len(rows) == 1)
        item.check("the new value", me.state.get("theme").value == "light")

    with audit.item("sql-21", "Concurrent upserts do not fail.") as item:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: me.state.set("busy", number), range(24)))
        item.check("24 versions", me.state.get("busy").version == 24)

    with audit.item("sql-22", "The scope is a user, a conversation or the tenant.") as item:
        me.state.set("color", "red")
        me.state.set("color", "blue", area=f"session:{session}")
        audit.scope(memory, user=None).state.set("color", "green", area="tenant")
        values = [
            me.state.get("color", area=area).value
            for area in ("user", f"session:{session}", "tenant")
        ]
        item.check("the same key has three values", values == ["red", "blue", "green"])
        bob = audit.scope(memory, user="bob")
        item.check("another user has none", "NotFound" in refusal(lambda: bob.state.get("color")))
        item.check(
            "but can read the tenant's", bob.state.get("color", area="tenant").value == "green"
        )

    with audit.item("sql-23", "An expired value is never returned.") as item:
        me.state.set("code", 42, ttl=60)
        item.check("before", me.state.get("code").value == 42)
        now.pass_days(1)
        item.check("not after", "NotFound" in refusal(lambda: me.state.get("code")))
        item.check("not in a list", "code" not in [value.key for value in me.state.list()])

    with audit.item("sql-24", "Expired values are eventually removed.") as item:
        purged = memory.purge(tenants=[audit.tenant])
        item.check("one row", purged.state == 1)

    with audit.item("sql-25", "The values of a scope are listed.") as item:
        keys = [value.key for value in me.state.list()]
        item.check("in order", keys == ["busy", "color", "theme"])
        item.check("with a time", me.state.get("theme").updated_at.tzinfo is not None)

    with audit.item(
        "sql-26", "A write can require that the value has not changed since it was read."
    ) as item:
        version = me.state.get("theme").version
        me.state.set("theme", "dark", if_version=version)
        stale = refusal(lambda: me.state.set("theme", "x", if_version=version))
        item.check("the second write is rejected", "WrongVersion" in stale)

    with audit.item("sql-27", "A key can be removed.") as item:
        me.state.remove("theme")
        item.check("it is gone", "NotFound" in refusal(lambda: me.state.get("theme")))

    with audit.item("sql-28", "Agents and clients use the same state.") as item:
        http = audit.http(memory)
        put = http.put("/api/state/drink", json={"value": "tea"})
        item.check("over HTTP", put.status_code == 200 and me.state.get("drink").value == "tea")
        (get,) = me.tools(["get_state"])
        item.check("as a tool", get.call({"key": "drink"})["value"] == "tea")


def telemetry(audit: Audit) -> None:
    """Model calls and their totals."""
    now = Now()
    memory = audit.open(clock=now)
    me = audit.scope(memory)
    http = audit.http(memory)

    with audit.item(
        "sql-29", "A call has route, model, parameters, latency, tokens, cost, time."
    ) as item:
        call = me.interactions.add(
            "chat",
            "gpt",
            latency_ms=812.5,
            tokens_in=900,
            tokens_out=40,
            cost=0.01,
            parameters={"temperature": 0.2},
        )
        (stored,) = list(me.interactions.list())
        item.check("all fields come back", stored == call)
        item.check("the parameters", stored.parameters == {"temperature": 0.2})
        item.check("the time", stored.created_at.tzinfo is not None)

    with audit.item(
        "sql-30",
        "Unknown tokens and latency are null.",
    ) as item:
        unknown = http.post("/api/interactions", json={"route": "chat", "model": "local"}).json()
        for name in ("tokens_in", "tokens_out", "cost", "latency_ms"):
            item.check(name, name in unknown and unknown[name] is None)

    with audit.item("sql-31", "Calls of a tenant are listed newest first.") as item:
        now.pass_days(1)
        newest = me.interactions.add("embed", "small", latency_ms=10)
        calls = audit.scope(memory, user=None, agent=None).interactions.list()
        item.check("the newest is first", next(iter(calls)).id == newest.id)
        foreign = memory.scope(tenant=f"{audit.tenant}-other")
        item.check("another tenant has none", not list(foreign.interactions.list()))

    with audit.item("sql-32", "There are totals per day, model and route.") as item:
        for by, names in (
            ("day", {"2025-10-09", "2025-10-10"}),
            ("model", {"gpt", "small"}),
            ("route", {"chat", "embed"}),
        ):
            chosen: Any = by
            totals = {total.name: total for total in me.interactions.totals(chosen)}
            item.check(f"by {by}", names <= totals.keys())
        by_model = {total.name: total for total in me.interactions.totals("model")}
        item.check(
            "tokens and cost", (by_model["gpt"].tokens_in, by_model["gpt"].cost) == (900, 0.01)
        )

    with audit.item("sql-33", "There are latency percentiles.") as item:
        for number in range(1, 101):
            me.interactions.add("load", "m", latency_ms=float(number))
        (load,) = [total for total in me.interactions.totals("route") if total.name == "load"]
        item.check("p50, p95, p99", (load.p50, load.p95, load.p99) == (50.0, 95.0, 99.0))

    with audit.item("sql-34", "A chat records its calls automatically.") as item:
        talking = audit.http(audit.open(main=ScriptedModel("Hi.", cost=0.5)))
        me.agents.add("scout")
        talking.post("/api/chat", json={"message": "Hello", "agent_id": "scout"})
        costs = [call.cost for call in me.interactions.list(model="scripted")]
        item.check("model and cost", costs == [0.5])

    with audit.item("sql-35", "Operators get standard metrics.") as item:
        scraped = audit.http(memory, tenant=memory.settings.tenant).get("/metrics").text
        item.check("requests", "memorist_requests_total" in scraped)
        item.check("model calls", "memorist_model_calls_total" in scraped)


def safety(audit: Audit) -> None:
    """Statements, retention, isolation, personal data."""
    now = Now()
    memory = audit.open(clock=now)
    me = audit.scope(memory)
    session = me.sessions.resume().id

    with audit.item("sql-36", "Text is never part of an SQL statement.") as item:
        me.messages.append(session, "user", INJECTION)
        me.state.set("note", INJECTION)
        me.entries.add(INJECTION)
        me.notes.overwrite(INJECTION)
        item.check("a message", me.messages.window(session)[0].text == INJECTION)
        item.check("a value", me.state.get("note").value == INJECTION)
        item.check("an entry", next(iter(me.entries.list())).content == INJECTION)
        item.check("notes", me.notes.read().text == INJECTION)
        item.check("a search", me.search(INJECTION) is not None)
        item.check("a user's name", not list(audit.scope(memory, user=INJECTION).sessions.list()))

    with audit.item("sql-37", "Messages older than N days are purged, in batches.") as item:
        talk(me, session, 600)
        now.pass_days(31)
        me.messages.append(session, "user", "New.")
        steps: list[int] = []
        purged = memory.purge(
            days=30, tenants=[audit.tenant], progress=lambda done, _: steps.append(done)
        )
        item.check("1,201 messages", purged.messages == 1201)
        item.check("in several steps", len(steps) > 1)
        left = me.messages.window(session)
        item.check("the new one stays, with its number", [m.seq for m in left] == [1202])

    with audit.item("sql-38", "The purge runs automatically if retention is set.") as item:
        keeping = audit.open(clock=now, retention_days=30)
        now.pass_days(31)
        audit.http(keeping, jobs=True)
        removed = eventually(lambda: not me.messages.window(session))
        item.check("a server removes the last message", removed)

    with audit.item(
        "sql-39", "The application's role owns no table and sees only one tenant."
    ) as item:
        if not audit.is_postgres:
            item.skip("roles need PostgreSQL: run with --database postgresql://…")
        else:
            _check_roles(audit, item)

    with audit.item("sql-40", "The database sees which tenant a query is for.") as item:
        if not audit.is_postgres:
            item.skip("an embedded database has no list of sessions")
        else:
            item.check("as the name of the application", _application_name(audit, me))

    with audit.item("sql-41", "Credentials in texts are not stored.") as item:
        guarded = audit.scope(audit.open(secrets="mask"), user="eve")
        secret = "sk-proj-" + "Ab1" * 16
        guarded.notes.overwrite(f"My key is {secret}, keep it.")
        item.check("a key is masked before it is stored", secret not in guarded.notes.read().text)

    with audit.item("sql-55", "Personal data can be masked before it is stored.") as item:
        masking = audit.scope(audit.open(personal_data="in"), user="fay")
        masked = masking.notes.overwrite(PERSONAL).text
        for secret in ("fay@example.org", "+49 170 1234567", "4111 1111 1111 1111", "DE89 3704"):
            item.check(f"{secret} is not stored", secret not in masked)
        item.check("a number that is not a card stays", "4111 1111 1111 1112" in masked)

    with audit.item("sql-56", "Personal data can be kept from models instead.") as item:
        hiding = audit.scope(audit.open(personal_data="out"), user="gil")
        stored = hiding.notes.overwrite(PERSONAL).text
        item.check("it is stored", "fay@example.org" in stored)
        prompt = everything(hiding.context(hiding.sessions.resume().id, "Hello").messages)
        item.check("but not in a prompt", "Write to" in prompt and "fay@example.org" not in prompt)

    with audit.item("sql-42", "Sensitive operations leave an audit trail.") as item:
        http = audit.http(memory)
        entry = http.post("/api/entries", json={"content": "Private."}, headers=SCOUT).json()
        http.delete(f"/api/entries/{entry['id']}", headers=SCOUT)
        done = audit.command("audit", "--what", "entries_remove", "--json")
        item.check("the deletion is recorded", "entries_remove" in done.stdout)
        item.check("without the content", "Private." not in done.stdout)

    with audit.item("sql-43", "One user's data can be exported and erased.") as item:
        dora = audit.scope(memory, user="dora")
        dora.notes.overwrite("Dora's notes.")
        file = audit.folder / "dora.jsonl"
        memory.export(file, tenants=[audit.tenant], user="dora")
        item.check("the export has it", "Dora's notes." in file.read_text(encoding="utf-8"))
        receipt = memory.scope(tenant=audit.tenant).admin.users.erase("dora")
        item.check("the receipt counts rows", receipt.removed.get("notes") == 1)
        item.check("nothing is left", dora.notes.read().text == "")


def _check_roles(audit: Audit, item: Any) -> None:
    import psycopg

    with psycopg.connect(audit.database) as connection:
        owned = connection.execute(
            "select count(*) from pg_tables where tableowner = 'memorist_app'"
        )
        item.check("it owns no table", owned.fetchone() == (0,))
        connection.execute("set role memorist_app")
        connection.execute("set search_path = memorist")
        problem = database_error(connection, "select * from messages")
        item.check("without a tenant it reads nothing", "memorist.tenant is not set" in problem)
        connection.execute("select set_config('memorist.tenant', %s, true)", [audit.tenant])
        row = connection.execute("select count(distinct tenant) from sessions").fetchone()
        item.check("with a tenant it sees only that tenant", row == (1,))
        problem = database_error(connection, "drop table messages")
        item.check("it cannot drop a table", "owner" in problem)


def _application_name(audit: Audit, me: Any) -> bool:
    import psycopg

    query = "select count(*) from pg_stat_activity where application_name = %s"

    def is_listed(inner: Any) -> bool:
        inner.notes.read()  # a transaction begins with its first statement
        with psycopg.connect(audit.database) as connection:
            row = connection.execute(query, [f"memorist {audit.tenant}"]).fetchone()
            return row is not None and row[0] > 0

    return bool(me.transaction(is_listed))


def operating(audit: Audit) -> None:
    """Migrations, checks, and layers that work alone."""
    memory = audit.open()
    me = audit.scope(memory)
    session = me.sessions.resume().id
    copy = {"MEMORIST_DATABASE": f"sqlite:///{audit.folder}/copy.db"}

    with audit.item("sql-44", "Numbered migrations create the schema.") as item:
        audit.command("migrate", "up", environment=copy)
        shown = audit.command("migrate", "status", "--json", environment=copy)
        steps = json.loads(shown.stdout)["migrations"]
        item.check("each is listed", steps)
        item.check("and applied", all(step["state"] == "applied" for step in steps))

    with audit.item("sql-45", "Migrations can be reverted, and applied again.") as item:
        down = audit.command("migrate", "down", "--to", "0", "--yes", environment=copy)
        item.check("to an empty database", down.returncode == 0)
        up = audit.command("migrate", "up", environment=copy)
        item.check("and up again", up.returncode == 0)
        audit.command("notes", "overwrite", "Kept.", *ADA, environment=copy)
        read = audit.command("notes", "read", *ADA, environment=copy)
        item.check("which works", "Kept." in read.stdout)

    with audit.item("sql-46", "A migration can be read before it is applied.") as item:
        printed = audit.command("migrate", "down", "--sql", environment=copy)
        item.check("as SQL", "delete from memorist_schema" in printed.stdout)

    with audit.item("sql-47", "After a deployment, rows can be counted.") as item:
        me.messages.append(session, "user", "Hello")
        counts = memory.counts()
        item.check("per table", counts["sessions"] >= 1 and counts["messages"] >= 1)

    with audit.item(
        "sql-48", "After a deployment, order, orphans and indexes can be checked."
    ) as item:
        findings = memory.verify()
        item.check("several checks", len(findings) > 10)
        problems = [f"{finding.check}: {finding.problem}" for finding in findings if not finding.ok]
        item.check(f"all pass{problems or ''}", not problems)
        done = audit.command("verify")
        item.check("also as a command", done.returncode == 0)

    with audit.item("sql-54", "The checks find damage.") as item:
        audit.command("sessions", "add", "s", *ADA, environment=copy)
        for text in ("One.", "Two.", "Three."):
            audit.command("messages", "append", "s", "user", text, environment=copy)
        with closing(sqlite3.connect(audit.folder / "copy.db")) as connection:
            connection.execute("delete from messages where seq = 2")
            connection.commit()
        done = audit.command("verify", environment=copy)
        item.check("a missing message", done.returncode == 1)

    with audit.item("sql-49", "One command reports problems of an installation.") as item:
        done = audit.command("doctor", "--json")
        checks = {check["check"]: check["state"] for check in json.loads(done.stdout)["checks"]}
        item.check("the settings are fine", checks["settings"] == "ok")
        item.check("the database is fine", checks["database"] == "ok")

    with audit.item(
        "sql-50", "A conversation has one short summary, which can be updated at any time."
    ) as item:
        summary = "Ada said hello, and the agent greeted her in return; they spoke of nothing else."
        folding = audit.scope(audit.open(summary=ScriptedModel(summary), summary_enabled=True))
        talk(me, session, 10)
        fold = folding.summaries.fold(session, force=True)
        item.check("with its text", fold.text == summary)
        item.check("and its time", fold.created_at is not None)

    with audit.item("sql-51", "A prompt combines window, summary, state and documents.") as item:
        me.state.set("language", "German")
        audit.scope(memory, user=None).documents.add(
            "Handbook", "The router is reset with a paper clip. Hold it ten seconds."
        )
        memory.run_jobs(tenants=[audit.tenant])
        text = everything(folding.context(session, "How do I reset the router?").messages)
        item.check("the window", "Answer 10 about trains" in text)
        item.check("the summary", summary in text)
        item.check("the state", "German" in text)
        item.check("the documents", "paper clip" in text)

    with audit.item("sql-52", "Each layer works alone.") as item:
        alone = audit.scope(memory, user="loner", agent=None)
        item.check("documents without a session", alone.documents.search("reset the router"))
        item.check("state without a session", alone.state.set("a", 1).value == 1)

    with audit.item("sql-53", "memorist runs on Oracle Database.") as item:
        if not audit.oracle:
            item.skip("needs an Oracle server: run with --oracle oracle://…")
        else:
            item.check("the address is of an Oracle server", audit.oracle.startswith("oracle:"))
            ada = audit.scope(audit.open(database=audit.oracle))
            ada.messages.append(ada.sessions.resume().id, "user", "I live in Lisbon.")
            again = audit.scope(audit.open(database=audit.oracle))
            texts = [message.text for message in again.messages.window(again.sessions.resume().id)]
            item.check("a message is stored and read again", texts == ["I live in Lisbon."])
            item.check("and found", again.search("Where do I live?"))


GROUPS = (sessions, messages, state, telemetry, safety, operating)
