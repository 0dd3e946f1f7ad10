"""Databases for the tests of the Oracle engine: H2 in this process, or a server that is given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from retain import Memory
from retain.base.settings import Settings
from retain.storage.oracle import connections
from retain.storage.oracle.address import Address, read_address
from retain.storage.oracle.dialect import schema
from tests.h2 import H2Database

GIVEN = "TEST_ORACLE"
"""The address of a server, from RETAIN_TEST_ORACLE."""
H2_URL = "oracle://sa:secret@h2:1521/test"
_open_connection = connections.open_connection


@cache
def h2() -> H2Database:
    """Return the H2 database of this process, which addresses with the host `h2` mean from now on."""
    database = H2Database()

    def open_connection(address: Address) -> Any:
        return database.connect() if address.host == "h2" else _open_connection(address)

    connections.open_connection = open_connection
    return database


def oracle_database(engine: str) -> Iterator[str]:
    """Yield the address of an empty, migrated database; its rows are removed after the test."""
    if engine == "h2":
        h2()
    url = H2_URL if engine == "h2" else os.environ[GIVEN]
    Memory.open(url, settings=Settings()).close()
    try:
        yield url
    finally:
        remove_rows(url)


def remove_rows(url: str) -> None:
    """Remove the rows of all tenants."""
    address = read_address(url, "database")
    with connections.open_connection(address) as connection, connection.cursor() as cursor:
        for table in reversed(schema().keys):  # those that refer to others come first
            cursor.execute(f'delete from "{table}"')
        connection.commit()
