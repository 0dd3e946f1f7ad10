"""Problem responses: one format that says what to do and hides the database address."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from starlette.applications import Starlette

from memorist import Memory
from memorist.base.error_text import error_text
from memorist.base.errors import (
    Busy,
    Full,
    InDoubt,
    NetworkDrive,
    NotOurs,
    ReadTooLong,
    StorageError,
    Unreachable,
)
from memorist.base.logging import FIELDS
from testkit.apps import Calling
from testkit.faults import FaultyDatabase, with_faults

WHERE = 'connection to server at "db.internal" (10.0.0.7), port 5432 failed'


@pytest.fixture
def memory(open_memory: Callable[..., Memory]) -> Memory:
    """The test's database with fault injection; no faults occur without a script."""
    return with_faults(open_memory())[0]


@pytest.fixture
def faults(memory: Memory) -> FaultyDatabase:
    assert isinstance(memory.database, FaultyDatabase)
    return memory.database


@pytest.fixture
def engine() -> str:
    """One engine is enough: the code does not depend on it."""
    return "sqlite"


def test_errors_do_not_reveal_the_database_address(
    app: Starlette,
    calling: Calling,
    faults: FaultyDatabase,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also for callers with a key; the log has the reason and the request id."""
    client = calling()

    faults.fail("read", Unreachable(problem=f"{WHERE}\nDETAIL: more"), times=None)
    for key in (
        client.headers["Authorization"],
        "Bearer mst_mfrggzdf_aaaaaaaaaaaaaaaa_" + "a" * 52,
    ):
        response = client.get("/api/sessions", headers={"Authorization": key})
        assert response.status_code == 503
        assert "db.internal" not in response.text
        assert (
            response.json()["detail"]
            == "The database cannot be reached. The server's log says why."
        )
        value = [
            getattr(record, FIELDS)
            for record in caplog.records
            if record.name == "memorist.storage"
        ][-1]
        assert value == {
            "error": "Unreachable",
            "reason": WHERE,
            "request_id": response.json()["request_id"],
        }


@pytest.mark.parametrize(
    "error",
    [
        StorageError(problem=WHERE),
        Busy(problem=WHERE),
        Full(problem=WHERE),
        InDoubt(problem=WHERE),
        NotOurs(path=WHERE, problem=WHERE),
        NetworkDrive(path=WHERE, filesystem="nfs"),
        ReadTooLong(limit_mib=7),
    ],
)
def test_the_detail_of_a_problem(error: StorageError, caplog: pytest.LogCaptureFixture) -> None:
    """Advice is included; row data quoted by an engine is not, not even in the log."""
    caplog.set_level(logging.INFO)
    result = error_text(error, "r1")
    assert WHERE not in result
    assert "{" not in result
    assert ("7 MiB" in result) == isinstance(error, ReadTooLong)
    (line,) = caplog.records
    assert (getattr(line, FIELDS)["reason"] == WHERE) == isinstance(error, Busy | Full)
