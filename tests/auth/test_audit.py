"""What is done is on record with the change itself, whatever the verb, and costs the verbs nothing to know."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from retain import Memory, Scope
from retain.api.rendering import as_json
from retain.auth import audit_log
from retain.auth.audit import FREQUENT_ACTIONS, Action, acting_as, is_audited, respond_once
from retain.auth.audit_log import AuditRecord
from retain.auth.idempotency import StoredResponse
from retain.auth.principal import PERMISSIONS, Principal
from retain.base.errors import Conflict, Invalid, NotFound
from retain.storage.writer import Change

ME = Principal("acme", PERMISSIONS, "ci (k1)")


def render(found: Any) -> StoredResponse:
    """As a face would."""
    return StoredResponse(200, json.dumps(as_json(found)), getattr(found, "version", None))


def do(memory: Memory, what: str, call: Callable[[Scope], Any]) -> StoredResponse:
    """Perform one audited action in Ada's scope."""
    owner = memory.scope(tenant="acme", user="ada", agent="scout").owner
    return respond_once(
        memory.services,
        ME,
        Action(what, "r1"),
        lambda services: call(Scope(services, owner)),
        render,
    )


def deeds(memory: Memory) -> list[AuditRecord]:
    """The log, the oldest first."""
    return audit_log.list_records(memory.database, "acme").items[::-1]


def test_each_change_says_who_did_what_to_what_and_when(memory: Memory) -> None:
    do(memory, "state_set", lambda me: me.state.set("theme", "dark"))
    do(memory, "notes_append", lambda me: me.notes.append("- tea"))
    entry = json.loads(do(memory, "entries_add", lambda me: me.entries.add("Ada likes tea.")).body)
    do(memory, "entries_remove", lambda me: me.entries.remove(entry["id"]))
    found = deeds(memory)
    assert [
        (deed.number, deed.who, deed.what, deed.subject, deed.request_id) for deed in found
    ] == [
        (1, "ci (k1)", "state_set", "state user:ada theme", "r1"),
        (2, "ci (k1)", "notes_append", "notes ada scout", "r1"),
        (3, "ci (k1)", "entries_add", f"entries {entry['id']}", "r1"),
        (4, "ci (k1)", "entries_remove", f"entries {entry['id']}", "r1"),
    ]
    assert "tea" not in json.dumps(as_json(found))


def test_many_that_are_removed_at_once_are_all_on_record(memory: Memory) -> None:
    """P16: those that were there and no others, in as many rows as their names take."""
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    ids = sorted(me.entries.add(f"Number {n}.").id for n in range(3))
    asked = ["nobody's", *ids[::-1]]
    done = do(memory, "entries_remove_many", lambda me: me.entries.remove_many(asked))
    assert json.loads(done.body) == 3
    assert [(deed.what, deed.subject, deed.before) for deed in deeds(memory)] == [
        ("entries_remove_many", f"entries {' '.join(ids)}", None)
    ]
    do(memory, "entries_remove_many", lambda me: me.entries.remove_many(ids))
    assert [deed.subject for deed in deeds(memory)][1:] == ["entries"]
    many = [me.entries.add(f"Number {n}.").id for n in range(120)]
    do(memory, "entries_remove_many", lambda me: me.entries.remove_many(many))
    rows = [deed.subject for deed in deeds(memory)][2:]
    assert len(rows) == 3
    assert sorted(id for row in rows for id in row.removeprefix("entries ").split()) == sorted(many)
    assert list(me.entries.list()) == []
    assert all(finding.ok for finding in memory.verify())


def test_what_one_left_behind_is_what_the_next_found(memory: Memory) -> None:
    """The hashes of before and after chain the changes of a thing, so that one that went round the log shows."""
    for value in (1, 2, 3):
        do(memory, "state_set", partial(lambda value, me: me.state.set("n", value), value))
    do(memory, "state_remove", lambda me: me.state.remove("n"))
    first, second, third, last = deeds(memory)
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
    put, again, removed = deeds(memory)[-3:]
    assert {put.subject, again.subject, removed.subject} == {"items user:ada memories/ada/ k"}
    assert put.after == again.before != again.after == removed.before
    assert (put.before, removed.after) == (None, None)
    do(memory, "agents_add", lambda me: me.agents.add("scout"))
    do(memory, "agents_edit", lambda me: me.agents.edit("scout", prompt="p"))
    made, edited = deeds(memory)[-2:]
    assert edited.before == made.after != edited.after
    memory.scope(tenant="acme").agents.edit("scout", prompt="by a back door")
    do(memory, "agents_edit", lambda me: me.agents.edit("scout", prompt="q"))
    assert deeds(memory)[-1].before != edited.after


def test_what_many_do_at_once_to_one_thing_is_one_chain(memory: Memory) -> None:
    """Also where the first of them makes it, so that there is no row yet that the others could wait for."""

    def set_it(n: int) -> None:
        do(memory, "state_set", lambda me: me.state.set("n", n))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(set_it, range(24)))
    found = deeds(memory)
    assert [deed.before for deed in found] == [None, *(deed.after for deed in found[:-1])]
    assert memory.database.read("acme", audit_log.find_tampering) == []


def test_what_fails_is_not_on_record_and_nothing_is_done_that_is_not(memory: Memory) -> None:
    for call in (lambda me: me.entries.remove("nobody"), lambda me: me.state.set("", 1)):
        with pytest.raises((NotFound, Invalid)):
            do(memory, "entries_remove", call)
    with pytest.raises(Conflict):
        do(memory, "state_set", lambda me: me.state.set("k", 1, if_version=7))
    assert deeds(memory) == []


def test_what_is_only_added_is_on_record_where_everything_is(
    open_memory: Callable[..., Memory],
) -> None:
    memory = open_memory()
    assert not any(is_audited(memory.settings, action) for action in FREQUENT_ACTIONS)
    session = memory.scope(tenant="acme", user="ada", agent="scout").sessions.add()
    do(
        memory,
        "messages_append",
        lambda me: me.messages.append(session.id, "user", "hello"),
    )
    assert deeds(memory) == []
    every, none = open_memory(audit="all"), open_memory(audit="off")
    do(none, "state_set", lambda me: me.state.set("k", 1))
    do(
        every,
        "messages_append",
        lambda me: me.messages.append(session.id, "user", "hello"),
    )
    assert [(deed.what, deed.subject) for deed in deeds(memory)] == [
        ("messages_append", f"messages {session.id}")
    ]


def test_a_secret_that_was_found_is_counted_in_the_row(open_memory: Callable[..., Memory]) -> None:
    memory = open_memory(secrets="flag")
    secret = "gh" + "p_" + "a1" * 18
    do(memory, "state_set", lambda me: me.state.set("k", [secret, secret]))
    do(memory, "state_set", lambda me: me.state.set("k", "nothing"))
    assert [deed.secrets for deed in deeds(memory)] == [2, 0]


def test_an_act_with_many_transactions_is_on_record_once_in_each_tenant(memory: Memory) -> None:
    services = acting_as(memory.services, ME, Action("import"))
    for tenant in ("acme", "acme", "other"):
        services.writer.write(
            Change("import", "add", tenant),
            lambda tx: tx.run("delete from state where tenant = :tenant"),
        )
    assert [deed.what for deed in deeds(memory)] == ["import"]
    assert len(audit_log.list_records(memory.database, "other")) == 1


def test_erasing_a_user_keeps_the_rows_and_adds_one(memory: Memory) -> None:
    do(memory, "state_set", lambda me: me.state.set("theme", "CANARY"))
    erasing = Memory(
        acting_as(memory.services, ME, Action("users_erase")),
        memory.migrations,
    )
    erasing.erase("ada", tenant="acme")
    assert [(deed.what, deed.subject) for deed in deeds(memory)][1:] == [
        ("users_erase", "users ada")
    ]
    assert all(finding.ok for finding in memory.verify())
