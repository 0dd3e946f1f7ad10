"""Databases for the tests of the Oracle engine: H2 in this process, or a server that is given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from memorist import Memory
from memorist.base.settings import Settings
from memorist_oracle import connections
from memorist_oracle.address import Address, read_address
from memorist_oracle.dialect import schema
from testkit.databases import wait_for_indexing
from testkit.h2 import H2Database

GIVEN = "TEST_ORACLE"
"""The address of a server, from MEMORIST_TEST_ORACLE."""
H2_URL = "oracle://sa:secret@h2:1521/test"
SECOND_H2_URL = "oracle://sa:secret@h2:1521/beside"
_open_connection = connections.open_connection


@cache
def h2(service: str) -> H2Database:
    """Return the H2 database of this process for a name of a service."""
    return H2Database()


def open_connection(address: Address) -> Any:
    """Open a connection to H2 if the host of the address is `h2`."""
    if address.host == "h2":
        return h2(address.parameters["service_name"]).connect()
    return _open_connection(address)


def oracle_database(engine: str, url: str = H2_URL) -> Iterator[str]:
    """Yield the address of an empty, migrated database; its rows are removed after the test."""
    if engine == "h2":
        connections.open_connection = open_connection
    else:
        url = os.environ[GIVEN]
    Memory.open(url, settings=Settings()).close()
    try:
        yield url
    finally:
        wait_for_indexing()
        remove_rows(url)


def remove_rows(url: str) -> None:
    """Remove the rows of all tenants."""
    address = read_address(url, "database")
    with connections.open_connection(address) as connection, connection.cursor() as cursor:
        for table in reversed(schema().keys):  # those that refer to others come first
            cursor.execute(f'delete from "{table}"')
        connection.commit()
