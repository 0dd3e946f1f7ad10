"""The compose files: safe settings, and the services of the large one as processes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator

import psycopg
import pytest

from memorist.base.settings import NAMES
from tests.deploy.topology import (
    IMAGE,
    PASSWORDS,
    PATIENCE,
    PROGRAMS,
    ROOT,
    Client,
    Topology,
    read_compose,
)

FILES = ("compose.yaml", "compose.postgres.yaml")


@pytest.mark.parametrize("file", FILES)
def test_every_service_is_confined(file: str) -> None:
    for name, service in read_compose(file, PASSWORDS).items():
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:")  # only for this machine, until somebody decides
        assert not service.get("privileged")
        if name != "postgres":  # its entry point starts as root to prepare the volume
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
            assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("file", FILES)
def test_the_settings_exist(file: str) -> None:
    for service in read_compose(file, PASSWORDS).values():
        if service["image"] == "localhost/memorist":
            for variable in service["environment"]:
                if variable.startswith("MEMORIST_"):
                    assert variable.removeprefix("MEMORIST_").lower() in NAMES


@pytest.mark.parametrize("missing", PASSWORDS)
def test_no_password_has_a_default(missing: str) -> None:
    env = {name: value for name, value in PASSWORDS.items() if name != missing}
    with pytest.raises(LookupError, match=missing):
        read_compose("compose.postgres.yaml", env)


def test_the_embedded_file_uses_the_volume_of_the_image() -> None:
    (service,) = read_compose("compose.yaml", {}).values()
    assert service["volumes"] == [f"data:{IMAGE.volumes[0]}"]
    assert service["build"]["dockerfile"] == "Containerfile"
    assert (ROOT / "deploy" / service["build"]["context"] / "Containerfile").exists()


@pytest.fixture(scope="module")
def topology() -> Iterator[Topology]:
    missing = [
        program
        for program in ("pgbouncer", "haproxy", "psql")
        if not shutil.which(program, path=PROGRAMS)
    ]
    if missing:
        assert not os.environ.get("CI"), f"not installed: {missing}"
        pytest.skip(f"not installed, `make test-all` does it: {missing}")
    services = Topology("compose.postgres.yaml", PASSWORDS)
    try:
        yield services
    finally:
        services.stop()


@pytest.mark.slow
def test_the_services_work_together(topology: Topology) -> None:
    permissions = "read,write,delete,admin"
    key = topology.run("server-1", "keys", "add", "ops", "--permissions", permissions)
    topology.start()
    one = Client(topology, "server-1", 7700, key)
    two = Client(topology, "server-2", 7700, key)
    proxy = Client(topology, "proxy", 8080, key)

    assert Client(topology, "proxy", 8080)("GET", "/api/sessions")[0] == 401

    # What one server writes, the other reads.
    assert one("POST", "/api/sessions", {"id": "first"})[0] == 201
    text = {"role": "user", "content": "My sister Clara moved to Lisbon."}
    assert one("POST", "/api/messages/first", text)[0] == 201
    status, page = two("GET", "/api/messages/first")
    assert status == 200
    assert "Lisbon" in json.dumps(page)

    # The servers run no jobs; the job runner computes the vector.
    deadline = time.monotonic() + PATIENCE
    while vectors(topology) == 0:
        assert time.monotonic() < deadline, topology.log("jobs")
        time.sleep(0.5)

    # A killed server is not noticed behind the proxy, and it comes back.
    assert {proxy("GET", "/api/sessions")[0] for _ in range(10)} == {200}
    topology.kill("server-1")
    assert two("GET", "/api/sessions")[0] == 200
    assert {proxy("GET", "/api/sessions")[0] for _ in range(20)} == {200}
    topology.start_service("server-1")
    topology.kill("server-2")
    deadline = time.monotonic() + PATIENCE
    while proxy("GET", "/readyz")[0] != 200:
        assert time.monotonic() < deadline, topology.log("proxy")
        time.sleep(0.2)
    status, hits = proxy("POST", "/api/search", {"query": "Where does Clara live?"})
    assert status == 200
    assert "Lisbon" in json.dumps(hits)
    topology.start_service("server-2")


def vectors(topology: Topology) -> int:
    """Count the rows of vectors, as the superuser: row-level security hides them from the others."""
    address = f"host={topology.addresses['postgres']} dbname=memory user=postgres"
    with psycopg.connect(address, password=PASSWORDS["POSTGRES_PASSWORD"]) as connection:
        row = connection.execute("select count(*) from memorist.index_vectors").fetchone()
    return int(row[0]) if row else 0


@pytest.mark.slow
def test_the_application_cannot_change_the_schema(topology: Topology) -> None:
    """The servers connect as a role that owns nothing, and only with the right password."""
    topology.start("migrate", "pgbouncer")
    address = f"host={topology.addresses['pgbouncer']} port=6432 dbname=memory user=memorist_login"
    with (
        psycopg.connect(address, password=PASSWORDS["MEMORIST_LOGIN_PASSWORD"]) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("drop table memorist.messages")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(address, password="wrong").close()
