"""API keys: what they permit, when they end, and that wrong keys reveal nothing."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from memorist import Memory
from memorist.admin.credentials import KeyChecker
from memorist.admin.principal import PERMISSIONS, Principal
from memorist.base import clock
from memorist.base.errors import Invalid, NotFound, TooLarge, Unauthorized
from testkit.clock import Now
from testkit.databases import one_engine
from testkit.faults import FaultyDatabase
from testkit.keys import create_key
from testkit.rows import raw


@pytest.fixture
def memory(open_memory: Callable[..., Memory], now: Now) -> Memory:
    return open_memory(clock=now)


@pytest.fixture
def checker(memory: Memory) -> KeyChecker:
    return KeyChecker(memory.database)


def test_a_key_has_its_tenant_and_permissions(memory: Memory, checker: KeyChecker) -> None:
    key, text = create_key(
        memory, "Ünïcode tenant / 1", "ci", ["write", "read", "read"], user="ada", agent="scout"
    )
    assert (key.name, key.permissions, key.user, key.agent) == (
        "ci",
        ["read", "write"],
        "ada",
        "scout",
    )
    admitted = checker.authenticate(text)
    assert admitted.key == key.id
    assert admitted.seconds == float("inf")
    assert admitted.principal == Principal(
        "Ünïcode tenant / 1", frozenset({"read", "write"}), f"ci ({key.id})", "ada", "scout"
    )
    assert text not in repr(key)
    assert text not in repr(admitted)


@one_engine
def test_a_key_has_256_random_bits_and_one_spelling(memory: Memory, checker: KeyChecker) -> None:
    texts = [create_key(memory, "acme", "x", ["read"])[1] for _ in range(20)]
    secrets = {text.rpartition("_")[2] for text in texts}
    assert len(secrets) == 20
    assert {len(secret) for secret in secrets} == {52}, "base 32 of 32 bytes"
    prefix, tenant, id, secret = texts[0].split("_")
    for other in (
        texts[0].upper(),
        f"{prefix}_{tenant.upper()}_{id}_{secret}",
        # the same tenant in another encoding
        f"{prefix}_{tenant[:-1]}{'j' if tenant[-1] == 'i' else 'b'}_{id}_{secret}",
        texts[0] + "=",
        f" {texts[0]}",
        f"{texts[0]}\n",
    ):
        with pytest.raises(Unauthorized):
            checker.authenticate(other)


def test_the_database_stores_only_hashes(memory: Memory, url: str) -> None:
    _, text = create_key(memory, "acme", "ci", ["read"])
    with raw(url) as database:
        rows = repr(database.all("select * from keys"))
    assert text not in rows
    assert text.rpartition("_")[2] not in rows
    assert hashlib.sha256(text.encode()).hexdigest() in rows


def invalid_keys(memory: Memory, now: Now) -> Iterator[tuple[str, str]]:
    """Yield invalid keys, each with what is wrong."""
    _, good = create_key(memory, "acme", "good", ["read"])
    head, _, secret = good.rpartition("_")
    yield "another secret", f"{head}_{'a' if secret[0] != 'a' else 'b'}{secret[1:]}"
    yield "an unknown id", good.replace(good.split("_")[2], "a" * 16)
    yield "another tenant", good.replace(good.split("_")[1], "n52gqzls")
    revoked, text = create_key(memory, "acme", "revoked", ["read"])
    memory.scope(tenant="acme").admin.keys.revoke(revoked.id)
    yield "revoked", text
    until = clock.to_datetime(now.micros) + timedelta(seconds=1)
    _, text = create_key(memory, "acme", "expired", ["read"], expires_at=until)
    now.micros += clock.SECOND
    yield "expired", text


def test_invalid_keys_get_the_same_error_after_the_same_work(memory: Memory, now: Now) -> None:
    """3.2 of the security list: neither text nor timing tells why a key was rejected."""
    errors = set()
    for what, text in invalid_keys(memory, now):
        database = FaultyDatabase(memory.database)
        with pytest.raises(Unauthorized) as caught:
            KeyChecker(database).authenticate(text)
        errors.add((str(caught.value), json.dumps(caught.value.details)))
        assert (database.calls["read"], database.calls["write"]) == (1, 0), what
        assert text not in str(caught.value)
    assert len(errors) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mst_",
        "mst___",
        "mst_a_b_c",
        "x",
        "\x00",
        "mst_fi_" + "a" * 16 + "_" + "a" * 52,
        "mst_" + "7" * 820 + "_",
        "é" * 99,
    ],
)
@one_engine
def test_malformed_keys_are_rejected(memory: Memory, checker: KeyChecker, text: str) -> None:
    with pytest.raises(Unauthorized):
        checker.authenticate(text)


def test_the_longest_tenant_fits(memory: Memory, checker: KeyChecker) -> None:
    tenant = "ü" * 256
    _, text = create_key(memory, tenant, "x", ["read"])
    assert checker.authenticate(text).principal.tenant == tenant


def test_a_key_expires_by_the_database_clock(memory: Memory, checker: KeyChecker, now: Now) -> None:
    until = clock.to_datetime(now.micros) + timedelta(seconds=10)
    key, text = create_key(memory, "acme", "x", ["read"], expires_at=until)
    assert key.expires_at == until
    assert checker.authenticate(text).seconds == 10
    now.micros += 10 * clock.SECOND - 1
    assert checker.authenticate(text).seconds == pytest.approx(0.000001)
    now.micros += 1
    with pytest.raises(Unauthorized):
        checker.authenticate(text)


def test_lists_include_expired_keys(memory: Memory, now: Now) -> None:
    created = []
    for number in range(5):
        created.append(create_key(memory, "acme", f"key {number}", ["read"])[0].id)
        now.micros += number % 2  # some at the same time
    create_key(memory, "other", "theirs", ["read"])
    memory.scope(tenant="acme").admin.keys.revoke(created[2])
    results, after = [], None
    while True:
        page = memory.scope(tenant="acme").admin.keys.list(limit=2, after=after)
        results += page.items
        if not (after := page.next):
            break
    assert sorted(key.id for key in results) == sorted(created)
    assert [key.revoked_at is not None for key in results if key.id == created[2]] == [True]
    assert [key.created_at for key in results] == sorted(key.created_at for key in results)


def test_revoking_is_final_and_scoped_to_the_tenant(
    memory: Memory, checker: KeyChecker, now: Now
) -> None:
    key, text = create_key(memory, "acme", "x", ["read"])
    with pytest.raises(NotFound):
        memory.scope(tenant="other").admin.keys.revoke(key.id)
    checker.authenticate(text)
    first = memory.scope(tenant="acme").admin.keys.revoke(key.id)
    now.micros += clock.MINUTE
    assert memory.scope(tenant="acme").admin.keys.revoke(key.id) == first
    with pytest.raises(NotFound):
        memory.scope(tenant="acme").admin.keys.revoke("nope")


def test_last_use_is_recorded_at_most_once_a_minute(
    memory: Memory, checker: KeyChecker, now: Now
) -> None:
    key, _ = create_key(memory, "acme", "x", ["read"])
    assert memory.scope(tenant="acme").admin.keys.list()[0].last_used_at is None
    first = clock.to_datetime(now.micros)
    checker.record_use("acme", key.id)
    now.micros += clock.MINUTE
    checker.record_use("acme", key.id)
    assert memory.scope(tenant="acme").admin.keys.list()[0].last_used_at == first
    now.micros += 1
    checker.record_use("acme", key.id)
    assert memory.scope(tenant="acme").admin.keys.list()[0].last_used_at == clock.to_datetime(
        now.micros
    )


@pytest.mark.parametrize(
    ("error", "given"),
    [
        (Invalid, {"permissions": []}),
        (Invalid, {"permissions": ["root"]}),
        (Invalid, {"permissions": "read,write"}),
        (Invalid, {"name": " "}),
        (Invalid, {"name": "a\nb"}),
        (Invalid, {"tenant": "*"}),
        (Invalid, {"tenant": ""}),
        (TooLarge, {"name": "x" * 513}),
        (Invalid, {"user": ""}),
        (Invalid, {"agent": "\x1b"}),
        (Invalid, {"expires_at": clock.to_datetime(0)}),
        (Invalid, {"expires_at": clock.to_datetime(0).replace(tzinfo=None)}),
    ],
)
@one_engine
def test_an_invalid_key_is_not_created(
    memory: Memory, checker: KeyChecker, error: type[Exception], given: dict[str, Any]
) -> None:
    with pytest.raises(error):
        create_key(memory, **{"tenant": "acme", "name": "x", "permissions": ["read"], **given})
    assert not checker.keys_exist()
    assert not memory.scope(tenant="acme").admin.keys.list().items


def test_the_existence_of_a_first_key_is_permanent(memory: Memory, checker: KeyChecker) -> None:
    """Otherwise removing the last key would restore keyless access."""
    assert not checker.keys_exist()
    key, text = create_key(memory, "acme", "x", PERMISSIONS, user="ada")
    assert checker.keys_exist()
    memory.scope(tenant="acme").admin.keys.revoke(key.id)
    memory.scope(tenant="acme").admin.users.erase("ada")
    assert not memory.scope(tenant="acme").admin.keys.list().items
    assert checker.keys_exist()
    with pytest.raises(Unauthorized):
        checker.authenticate(text)


def test_erasing_a_user_removes_their_keys_and_no_others(memory: Memory) -> None:
    create_key(memory, "acme", "ada's", ["read"], user="ada")
    stored = [
        create_key(memory, "acme", name, ["read"], user=user)[0].id
        for name, user in (("bob's", "bob"), ("all", None))
    ]
    elsewhere, _ = create_key(memory, "other", "another ada's", ["read"], user="ada")
    memory.scope(tenant="acme").admin.users.erase("ada")
    assert sorted(key.id for key in memory.scope(tenant="acme").admin.keys.list()) == sorted(stored)
    assert [key.id for key in memory.scope(tenant="other").admin.keys.list()] == [elsewhere.id]


def test_exports_contain_no_keys_and_imports_add_none(memory: Memory) -> None:
    key, _ = create_key(memory, "acme", "a telling name", ["read"], user="ada")
    out = io.BytesIO()
    memory.export(out)
    assert key.id.encode() not in out.getvalue()
    assert b"a telling name" not in out.getvalue()
    *lines, _ = out.getvalue().splitlines(keepends=True)
    row = {"id": "a" * 16, "name": "x", "digest": "0" * 64, "permissions": "admin", "created_at": 1}
    forged = b"".join([*lines, json.dumps({"table": "keys", "row": row}).encode() + b"\n"])
    end = {"end": True, "rows": len(lines) - 1, "sha256": hashlib.sha256(forged).hexdigest()}
    with pytest.raises(Invalid):
        memory.import_(io.BytesIO(forged + json.dumps(end).encode() + b"\n"))
    assert [key.id] == [key.id for key in memory.scope(tenant="acme").admin.keys.list()]
