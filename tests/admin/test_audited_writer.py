"""Audit rows: written in the transaction of the change, for every action."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from memorist import Memory, Scope
from memorist.admin import audit_log
from memorist.admin.audited_writer import (
    AuditedAction,
    acting_as,
    is_audited,
    respond_once,
)
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.admin.stored_responses import StoredResponse
from memorist.api.endpoints import ENDPOINTS, SCOPE_ENDPOINTS
from memorist.api.rendering import as_json
from memorist.base.errors import Conflict, Invalid, NotFound
from memorist.storage.writer import Change
from tests.admin.audited import records, render

ME = Principal("acme", PERMISSIONS, "ci (k1)")


def do(memory: Memory, what: str, call: Callable[[Scope], Any]) -> StoredResponse:
    """Perform one audited action in Ada's scope."""
    owner = memory.scope(tenant="acme", user="ada", agent="scout").owner
    return respond_once(
        memory.services,
        ME,
        AuditedAction(what, "r1"),
        lambda services: call(Scope(services, owner)),
        render,
    )


def test_an_audit_row_has_who_what_subject_and_time(memory: Memory) -> None:
    do(memory, "state_set", lambda me: me.state.set("theme", "dark"))
    do(memory, "notes_append", lambda me: me.notes.append("- tea"))
    entry = json.loads(do(memory, "entries_add", lambda me: me.entries.add("Ada likes tea.")).body)
    do(memory, "entries_remove", lambda me: me.entries.remove(entry["id"]))
    result = records(memory)
    assert [
        (record.number, record.who, record.what, record.subject, record.request_id)
        for record in result
    ] == [
        (1, "ci (k1)", "state_set", "state user:ada theme", "r1"),
        (2, "ci (k1)", "notes_append", "notes ada scout", "r1"),
        (3, "ci (k1)", "entries_add", f"entries {entry['id']}", "r1"),
        (4, "ci (k1)", "entries_remove", f"entries {entry['id']}", "r1"),
    ]
    assert "tea" not in json.dumps(as_json(result))


def test_removing_many_audits_each(memory: Memory) -> None:
    """P16: exactly the removed ids, in as many rows as they need."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    ids = sorted(me.entries.add(f"Number {n}.").id for n in range(3))
    requests = ["nobody's", *ids[::-1]]
    done = do(memory, "entries_remove_many", lambda me: me.entries.remove_many(requests))
    assert json.loads(done.body) == 3
    assert [(record.what, record.subject, record.before) for record in records(memory)] == [
        ("entries_remove_many", f"entries {' '.join(ids)}", None)
    ]
    do(memory, "entries_remove_many", lambda me: me.entries.remove_many(ids))
    assert [record.subject for record in records(memory)][1:] == ["entries"]
    many = [me.entries.add(f"Number {n}.").id for n in range(120)]
    do(memory, "entries_remove_many", lambda me: me.entries.remove_many(many))
    rows = [record.subject for record in records(memory)][2:]
    assert len(rows) == 3
    assert sorted(id for row in rows for id in row.removeprefix("entries ").split()) == sorted(many)
    assert list(me.entries.list()) == []
    assert all(finding.ok for finding in memory.verify())


def test_hashes_of_consecutive_changes_match(memory: Memory) -> None:
    """Hashes before and after form a chain per object, so a change that bypassed the log is
    visible.
    """
    for value in (1, 2, 3):
        do(memory, "state_set", partial(lambda value, me: me.state.set("n", value), value))
    do(memory, "state_remove", lambda me: me.state.remove("n"))
    first, second, third, last = records(memory)
    assert first.before is None
    assert (second.before, third.before, last.before) == (first.after, second.after, third.after)
    assert len({first.after, second.after, third.after}) == 3
    assert last.after is None
    place = ("memories", "ada")
    for n in (1, 2):
        do(
            memory,
            "items_put",
            partial(lambda n, me: me.items.put(place, "k", {"n": n}), n),
        )
    do(memory, "items_remove", lambda me: me.items.remove(place, "k"))
    put, again, removed = records(memory)[-3:]
    assert {put.subject, again.subject, removed.subject} == {"items user:ada memories/ada/ k"}
    assert put.after == again.before != again.after == removed.before
    assert (put.before, removed.after) == (None, None)
    do(memory, "agents_add", lambda me: me.agents.add("scout"))
    do(memory, "agents_edit", lambda me: me.agents.edit("scout", prompt="p"))
    created, edited = records(memory)[-2:]
    assert edited.before == created.after != edited.after
    memory.scope(tenant="acme").agents.edit("scout", prompt="by a back door")
    do(memory, "agents_edit", lambda me: me.agents.edit("scout", prompt="q"))
    assert records(memory)[-1].before != edited.after


def test_concurrent_changes_of_one_object_form_a_chain(memory: Memory) -> None:
    """Also when the first of them creates it, so that no row exists to lock."""

    def set_value(n: int) -> None:
        do(memory, "state_set", lambda me: me.state.set("n", n))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(set_value, range(24)))
    result = records(memory)
    assert [record.before for record in result] == [None, *(record.after for record in result[:-1])]
    assert memory.database.read("acme", audit_log.find_tampering) == []


def test_failures_are_not_audited_and_leave_nothing(memory: Memory) -> None:
    for call in (lambda me: me.entries.remove("nobody"), lambda me: me.state.set("", 1)):
        with pytest.raises((NotFound, Invalid)):
            do(memory, "entries_remove", call)
    with pytest.raises(Conflict):
        do(memory, "state_set", lambda me: me.state.set("k", 1, if_version=7))
    assert records(memory) == []


def test_appends_are_audited_if_configured(
    open_memory: Callable[..., Memory],
) -> None:
    memory = open_memory()
    routine = [endpoint.name for endpoint in (*ENDPOINTS, *SCOPE_ENDPOINTS) if endpoint.routine]
    assert "messages_append" in routine
    assert not any(is_audited(memory.settings, action) for action in routine)
    session = memory.scope(tenant="acme", user="ada", agent="scout").sessions.add()
    do(
        memory,
        "messages_append",
        lambda me: me.messages.append(session.id, "user", "hello"),
    )
    assert records(memory) == []
    every, none = open_memory(audit="all"), open_memory(audit="off")
    do(none, "state_set", lambda me: me.state.set("k", 1))
    do(
        every,
        "messages_append",
        lambda me: me.messages.append(session.id, "user", "hello"),
    )
    assert [(record.what, record.subject) for record in records(memory)] == [
        ("messages_append", f"messages {session.id}")
    ]


def test_detected_secrets_are_counted_in_the_row(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(secrets="flag")
    secret = "gh" + "p_" + "a1" * 18
    do(memory, "state_set", lambda me: me.state.set("k", [secret, secret]))
    do(memory, "state_set", lambda me: me.state.set("k", "nothing"))
    assert [record.secrets for record in records(memory)] == [2, 0]


def test_an_action_with_many_transactions_is_audited_once_per_tenant(memory: Memory) -> None:
    services = acting_as(memory.services, ME, AuditedAction("import"))
    for tenant in ("acme", "acme", "other"):
        services.writer.write(
            Change("import", "add", tenant, event="added"),
            lambda tx: tx.run("delete from state where tenant = :tenant"),
        )
    assert [record.what for record in records(memory)] == ["import"]
    assert len(memory.scope(tenant="other").admin.audit.list()) == 1


def test_erasing_a_user_keeps_the_rows_and_adds_one(memory: Memory) -> None:
    do(memory, "state_set", lambda me: me.state.set("theme", "CANARY"))
    erasing = Memory(
        acting_as(memory.services, ME, AuditedAction("users_erase")),
        memory.migrations,
    )
    erasing.scope(tenant="acme").admin.users.erase("ada")
    assert [(record.what, record.subject) for record in records(memory)][1:] == [
        ("users_erase", "users ada")
    ]
    assert all(finding.ok for finding in memory.verify())
