"""`memorist doctor` reports each problem with what to do about it, and shows no secret."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from memorist import Memory, Settings
from memorist.cli import doctor
from memorist.cli.main import main
from memorist.learning import reader
from memorist.search import onnx_embedder
from memorist.storage import migrate
from memorist.testing import ScriptedModel
from testkit.clock import Now
from testkit.commands import BOTH
from testkit.keys import create_key
from testkit.models import with_model
from testkit.talking import serve

ROOT = Path(__file__).parents[2]
Doctor = Callable[..., tuple[int, dict[str, list[dict[str, str]]]]]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def look(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    free_port: int,
) -> Doctor:
    monkeypatch.chdir(tmp_path)

    def run(
        *flags: str, make: bool = True, **settings: Any
    ) -> tuple[int, dict[str, list[dict[str, str]]]]:
        settings = {"port": free_port, "database": url, **settings}
        (tmp_path / "memorist.yaml").write_text(json.dumps(settings))
        if make:
            Memory.open(url, settings=Settings()).close()
        capsys.readouterr()
        status = main(["doctor", "--json", *flags])
        payload = json.loads(capsys.readouterr().out)
        assert payload["ok"] == (status == 0)
        results: dict[str, list[dict[str, str]]] = {}
        for check in payload["checks"]:
            results.setdefault(check["check"], []).append(check)
        return status, results

    return run


@BOTH
def test_a_healthy_setup(look: Doctor, engine: str) -> None:
    status, result = look()
    wrong = [item for many in result.values() for item in many if item["state"] == "problem"]
    assert (status, wrong) == (0, [])
    assert {"settings", "database", "schema", "verify", "keys"} <= result.keys()
    assert {"embedder", "vectors", "model", "server"} <= result.keys()
    assert ("SQLite 3." if engine == "sqlite" else "PostgreSQL 1") in result["database"][0]["found"]
    assert "static" in result["embedder"][0]["found"]


@BOTH
def test_a_missing_database(look: Doctor, engine: str, tmp_path: Path) -> None:
    other = (
        f"sqlite:///{tmp_path}/no/none.db"
        if engine == "sqlite"
        else "postgresql://nobody@127.0.0.1:9/none"
    )
    status, result = look(make=False, database=other)
    assert status == 1
    assert result["database"][0]["state"] == "problem"
    assert not (tmp_path / "no").exists()


def test_before_the_first_write_nothing_is_wrong(look: Doctor, tmp_path: Path) -> None:
    status, result = look(make=False, database=f"sqlite:///{tmp_path}/none.db")
    assert (status, result["database"][0]["state"], "server" in result) == (0, "ok", True)
    assert not (tmp_path / "none.db").exists()


def test_required_keys_that_are_missing(look: Doctor) -> None:
    _, result = look(auth="keys")
    assert (result["keys"][0]["state"], "no API key" in result["keys"][0]["found"]) == (
        "warning",
        True,
    )


@BOTH
def test_an_outdated_schema(look: Doctor, url: str) -> None:
    look()
    with Memory.open(url, settings=Settings()) as memory:
        migrate.down(memory.database, memory.migrations, memory.migrations[-1].number - 1)
    status, result = look(make=False)
    assert (status, result["schema"][0]["state"], "migrate up" in result["schema"][0]["todo"]) == (
        0,
        "warning",
        True,
    )


def test_conflicting_settings(look: Doctor) -> None:
    status, result = look(
        jwt_issuer="https://id.example.org",
        summary_enabled=True,
        allowed_origins="*",
        api_key="sk-0123456789abcdef",
    )
    payload = {setting["found"]: setting["state"] for setting in result["settings"]}
    assert status == 1
    assert payload["jwt_audience: must be set if jwt_issuer is set."] == "problem"
    assert payload["allowed_origins or allowed_hosts contains *."] == "problem"
    assert payload["summary_enabled is set without a model."] == "warning"
    assert payload["base_url or api_key is set without model."] == "warning"


def test_no_secret_is_shown(look: Doctor) -> None:
    key = "sk-secret-0123456789abcdef"
    _, result = look(model="small", base_url="http://127.0.0.1:9/v1", api_key=key)
    assert key not in json.dumps(result)
    assert "***" in result["model"][0]["found"]


def test_a_model_outage_is_found_only_if_called(look: Doctor) -> None:
    arguments = {"model": "small", "base_url": "http://127.0.0.1:9/v1", "model_seconds": 20}
    assert look(**arguments)[0] == 0
    status, result = look("--models", **arguments)
    assert (status, result["model"][0]["state"]) == (1, "problem")


def test_mcp_servers_of_agents_are_connected_if_called(look: Doctor) -> None:
    demo = {"command": sys.executable, "args": ["-m", "tests.chat.mcp_demo"], "cwd": str(ROOT)}
    away = {"url": "http://127.0.0.1:9/mcp?key=sk-secret"}
    status, result = look(mcp_servers={"demo": demo, "away": away})
    assert (status, result["MCP server demo"][0]["state"]) == (0, "ok")
    status, result = look("--models", mcp_servers={"demo": demo, "away": away})
    assert "offers 10 tools" in result["MCP server demo"][0]["found"]
    assert (status, result["MCP server away"][0]["state"]) == (1, "problem")
    assert "sk-secret" not in json.dumps(result)


def test_the_service_on_the_port(look: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local proxy is not used for the request."""
    answers: dict[str, tuple[int, str, bytes]] = {
        "ours": (200, "application/json", b'{"status":"ok"}'),
        "not ready": (503, "application/problem+json", b"{}"),
        "another": (200, "text/html", b"<html>"),
    }
    value: tuple[int, str, bytes] = answers["ours"]

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(value[0])
            self.send_header("Content-Type", value[1])
            self.end_headers()
            self.wfile.write(value[2])

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        seen = {}
        for name, value in answers.items():  # noqa: B007 - the server sends it
            (item,) = look(port=server.server_port)[1]["server"]
            seen[name] = item["state"]
        server.shutdown()
    assert seen == {"ours": "ok", "not ready": "problem", "another": "warning"}


def test_the_database_of_the_server_on_the_port(
    look: Doctor, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that serves another database is a warning that names it."""
    other = f"sqlite:///{tmp_path}/other.db"
    with contextmanager(serve)(other, None, tenant="acme") as served:
        port = int(served.url.rpartition(":")[2])
        (check,) = look(port=port)[1]["server"]
        assert (check["state"], "MEMORIST_KEY" in check["todo"]) == ("ok", True)
        assert f"--url {served.url}" in check["todo"]
        monkeypatch.setenv("MEMORIST_KEY", served.key)
        (check,) = look("--url", served.url)[1]["server"]
        assert check["state"] == "warning"
        assert other in check["found"]
        assert url in check["todo"]
        (check,) = look("--url", served.url, database=other)[1]["server"]
        assert (check["state"], check["found"].endswith(f"serves {other}.")) == ("ok", True)
    for wrong in (served.url, "http://localhost:abc", "http://[::1"):
        (check,) = look("--url", wrong)[1]["server"]
        assert (check["state"], check["todo"]) == ("problem", "Correct --url.")


def test_the_key_goes_only_to_a_server_that_the_user_names(
    look: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any program may listen on the port; and a redirect is not followed."""
    keys: list[tuple[str, str | None]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append((self.path, self.headers["Authorization"]))
            is_status = self.path == "/api/status"
            self.send_response(302 if is_status else 200)
            if is_status:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b'{"status": "ok"}')

        def log_message(self, *_: Any) -> None:
            pass

    monkeypatch.setenv("MEMORIST_KEY", "mst_secret")
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        look(port=server.server_port)
        assert keys == [("/readyz", None), ("/api/status", None)]
        keys.clear()
        look("--url", f"http://127.0.0.1:{server.server_port}")
        assert keys == [("/readyz", None), ("/api/status", "Bearer mst_secret")]
        server.shutdown()


@BOTH
def test_a_public_server_without_a_key(look: Doctor, url: str) -> None:
    status, result = look(host="192.0.2.1")
    assert (status, result["keys"][0]["state"]) == (1, "problem")
    with Memory.open(url, settings=Settings()) as memory:
        create_key(memory, "default", "a test", ["read"])
    _, result = look(host="192.0.2.1")
    assert result["keys"][0]["state"] == "ok"


def test_a_nearly_full_disk(look: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 1 << 60)
    monkeypatch.setattr(doctor, "WARN_FREE_BYTES", 1 << 60)
    status, result = look()
    assert (status, result["disk"][0]["state"], "purge" in result["disk"][0]["todo"]) == (
        1,
        "problem",
        True,
    )


def test_a_large_database_is_not_verified(
    look: Doctor, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`memorist verify` does it; `memorist doctor` must not take minutes."""
    monkeypatch.setattr(doctor, "MAX_VERIFIED_ROWS", 0)
    with Memory.open(url, settings=Settings()) as memory:
        memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("s")
    _, result = look()
    assert [item["found"] for item in result["verify"]] == ["Not verified: the database is large."]


def test_a_table_for_people(look: Doctor, capsys: pytest.CaptureFixture[str]) -> None:
    look()
    assert main(["doctor"]) == 0
    output = capsys.readouterr().out
    assert "check" in output
    assert "what to do" in output
    assert output.rstrip().endswith(("warning.", "warnings."))


@BOTH
def test_a_summary_that_was_given_up(look: Doctor, open_memory: Callable[..., Memory]) -> None:
    clock = Now()
    clock.micros = time.time_ns() // 1000
    model = ScriptedModel("I'm sorry, I can't help with that.", name="refusing")
    memory = with_model(open_memory(clock=clock, summary_enabled=True), model)
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("long")
    for number in range(41):
        me.messages.append("long", "user", f"Message {number}")
    for _ in range(20):
        memory.run_jobs()
        clock.pass_days(1 / 24)
    service = {"base_url": "http://127.0.0.1:9", "api_key": "k", "summary_model": "refusing"}
    _, checks = look(summary_enabled=True, **service)
    (check,) = checks["jobs"]
    assert check["state"] == "warning"
    assert check["found"].startswith("Summary of session long: failed 5 times, given up for a day.")
    assert "summary_model" in check["todo"]


def test_an_unknown_setting(look: Doctor) -> None:
    status, result = look(make=False, modell="x")
    assert (status, list(result)) == (1, ["settings"])


def test_a_damaged_fact_reader(
    look: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed_encoder: None
) -> None:
    folder = onnx_embedder.package_folder()
    assert folder is not None
    damaged = tmp_path / "memorist_encoder"
    shutil.copytree(folder, damaged)
    (damaged / "reader.onnx").write_bytes(b"damaged")
    monkeypatch.setattr(reader, "package_folder", lambda: damaged)
    reader.forget_network()
    status, result = look()
    reader.forget_network()
    assert (status, result["facts"][0]["state"]) == (1, "problem")
    assert "memorist-encoder" in result["facts"][0]["todo"]
