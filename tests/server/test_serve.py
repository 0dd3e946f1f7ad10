"""`memorist serve` as a real process: start, shutdown, and no acknowledged write lost."""

from __future__ import annotations

import gc
import http.client
import os
import platform
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from memorist import Memory
from memorist.admin.credentials import KeyChecker
from memorist.admin.local import check_host
from memorist.base.errors import SettingsError
from memorist.base.settings import Settings
from memorist.cli import run_command, serve_command
from memorist.cli.main import main
from memorist.server.process import serve
from testkit.databases import new_database
from testkit.keys import create_key
from testkit.running import Process, run_script, running


def fail_if_listening(address: str) -> None:
    raise AssertionError(f"it listens on {address}")


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        settings = Settings(database=f"sqlite:///{tmp_path}/a.db", port=port)
        with pytest.raises(SettingsError, match=f"{port}.*--port"):
            serve.serve(settings, fail_if_listening)


@pytest.mark.parametrize(
    ("host", "port", "said"),
    [
        ("127.0.0.1", 70_000, "not a valid port"),
        ("no-such-host.invalid", 0, "cannot bind to"),
        ("192.0.2.1", 0, "cannot bind to"),
    ],
)
def test_an_invalid_address_is_reported_before_a_database_is_created(
    tmp_path: Path, host: str, port: int, said: str
) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path}/a.db", host=host, port=port)
    with pytest.raises(SettingsError, match=said):
        serve.bind(host, port)
    with pytest.raises(SettingsError):
        serve.serve(settings, fail_if_listening)
    assert not list(tmp_path.iterdir())


def test_a_public_address_requires_a_key(tmp_path: Path) -> None:
    """S1, P0.1: nothing listens before a key exists; with one, the server starts."""
    settings = Settings(database=f"sqlite:///{tmp_path}/a.db", host="0.0.0.0", port=0)
    for workers in (1, 2):
        with pytest.raises(SettingsError, match="memorist keys add"):
            serve.serve(replace(settings, workers=workers), fail_if_listening)
        assert not list(tmp_path.iterdir())
    with Memory.open(settings=settings) as memory:
        with pytest.raises(SettingsError, match="memorist keys add"):
            serve.serve(settings, fail_if_listening)
        create_key(memory, "acme", "a test", ["read"])
        check_host(memory.settings, keys_exist=KeyChecker(memory.database).keys_exist())


def test_a_server_that_always_requires_keys_starts_before_the_first_one(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/a.db"
    with Process(database, host="0.0.0.0", auth="keys") as process:
        process.address = ("127.0.0.1", process.address[1])
        assert process.request("GET", "/readyz")[0] == 200
        assert process.request("GET", "/api/sessions")[0] == 401
        with Memory.open(database) as memory:
            _, key = create_key(memory, "acme", "first", ["read"])
        process.key = key
        assert process.request("GET", "/api/sessions")[0] == 200


@pytest.mark.parametrize("trusted", ["127.0.0.1", ""])
def test_clients_behind_a_trusted_proxy_have_their_own_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str
) -> None:
    """Without the variable, the server ignores the header, because any client could send it."""
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    settings = Settings(
        database=f"sqlite:///{tmp_path}/a.db", auth="keys", rate_per_second=5, embedder="static"
    )

    def status(connection: http.client.HTTPConnection, client: str, number: int = 0) -> int:
        headers = {"X-Forwarded-For": client, "Authorization": f"Bearer mst_wrong{number}"}
        connection.request("GET", "/api/sessions", headers=headers)
        response = connection.getresponse()
        response.read()
        return response.status

    with Memory.open(settings=settings) as memory, running(memory, jobs=False) as (_, address):
        connection = http.client.HTTPConnection(*address, timeout=10)
        statuses = {status(connection, "203.0.113.1", number) for number in range(1, 20)}
        assert statuses == {401, 429}
        assert status(connection, "203.0.113.2") == (401 if trusted else 429)
        connection.close()


@pytest.mark.parametrize("keyed", [False, True])
def test_the_server_warns_when_a_key_is_needed_and_missing(tmp_path: Path, keyed: bool) -> None:
    database = f"sqlite:///{tmp_path}/a.db"
    if keyed:
        with Memory.open(database) as memory:
            create_key(memory, "acme", "a test", ["read"])
    with Process(database, auth="keys") as server:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(30)
    assert ("memorist keys add" in "".join(server.errors)) is not keyed


def test_a_database_in_memory_needs_a_single_worker() -> None:
    for database in ("memory:", "sqlite:///:memory:"):
        with pytest.raises(SettingsError, match="workers: 2"):
            serve.serve(Settings(database=database, workers=2, port=0), fail_if_listening)


def test_first_signal_stops_gracefully_and_second_at_once(tmp_path: Path) -> None:
    """Running requests may finish, new ones get 503; a second signal ends the process at once."""
    limits = {"STOP_SECONDS": 60, "REQUEST_SECONDS": 50, "DRAIN_SECONDS": 0.1}
    with Process(f"sqlite:///{tmp_path}/a.db", limits=limits) as process:
        assert process.address[1] > 0
        assert b"memorist" in process.request("GET", "/")[1]
        with (
            socket.create_connection(process.address) as unfinished,
            socket.create_connection(process.address) as stream,
        ):
            stream.sendall(
                b"GET /api/notes/stream?user=ada&agent=scout HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
            )
            assert stream.recv(65536).startswith(b"HTTP/1.1 200 ")
            unfinished.sendall(
                b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            )
            unfinished.sendall(b"Content-Length: 100\r\n\r\n{")
            assert process.request("GET", "/readyz")[0] == 200
            process.process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 10
            while (result := process.request("GET", "/api/sessions"))[
                0
            ] != 503 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert result[0] == 503
            assert "stopping" in result[1]["detail"]
            assert process.request("GET", "/healthz")[0] == 200
            assert process.request("GET", "/readyz")[0] == 503
            stream.settimeout(20)
            read(stream, b"0\r\n\r\n")  # the stream ends completely
            assert process.process.poll() is None
            assert process.stop(timeout=5) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_server_behind_a_proxy_accepts_requests_until_the_proxy_notices(
    tmp_path: Path, number: signal.Signals
) -> None:
    """After SIGTERM `/readyz` fails first. Ctrl-C stops at once, as it does without a proxy."""
    limits = {"STOP_SECONDS": 60, "REQUEST_SECONDS": 50, "DRAIN_SECONDS": 60}
    with Process(f"sqlite:///{tmp_path}/a.db", limits=limits) as process:
        connection = http.client.HTTPConnection(*process.address, timeout=20)
        assert process.request("GET", "/readyz", connection=connection)[0] == 200
        with socket.create_connection(process.address) as unfinished:
            unfinished.sendall(
                b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            process.process.send_signal(number)
            wait_until(lambda: process.request("GET", "/readyz")[0] == 503)
            connection.request("GET", "/api/sessions")
            response = connection.getresponse()
            assert response.status == (200 if number == signal.SIGTERM else 503)
            # The next request of this client is for another server.
            assert response.getheader("Connection") == "close"
            if number == signal.SIGTERM:
                assert process.stop() == 128 + signal.SIGTERM
                return
        assert process.process.wait(20) == 0


def test_workers_accept_requests_until_a_proxy_that_checked_one_of_them_notices(
    tmp_path: Path,
) -> None:
    with Process(
        f"sqlite:///{tmp_path}/a.db", "--workers", "2", limits={"DRAIN_SECONDS": 60}
    ) as process:
        workers = psutil.Process(process.process.pid).children()
        assert len(workers) == 2

        def connect(worker: psutil.Process, path: str) -> http.client.HTTPConnection:
            """Return a connection to this worker: the other one is paused meanwhile."""
            other = next(item for item in workers if item != worker)
            other.suspend()
            wait_until(lambda: other.status() == psutil.STATUS_STOPPED)
            connection = http.client.HTTPConnection(*process.address, timeout=20)
            assert process.request("GET", path, connection=connection)[0] == 200
            other.resume()
            return connection

        def is_draining(connection: http.client.HTTPConnection) -> bool:
            connection.request("GET", "/api/sessions")
            response = connection.getresponse()
            response.read()
            assert response.status == 200
            return response.getheader("Connection") == "close"

        checked = connect(workers[0], "/readyz")
        unchecked = connect(workers[1], "/healthz")
        process.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_draining(checked))
        wait_until(lambda: is_draining(unchecked))
        assert process.request("GET", "/readyz")[0] == 503
        assert process.request("GET", "/api/sessions")[0] == 200


def test_shutdown_with_unfinished_requests_is_reported(tmp_path: Path) -> None:
    """By the exit status; the last log lines are written."""
    script = """
import logging
from memorist import Settings
from memorist.server.process import serve
from memorist.server.observe import logs
logs.configure(Settings())
for number in range(2000):
    logging.getLogger("memorist.test").warning("line %d", number)
serve._end()
"""
    done = run_script(script)
    assert done.returncode == 1
    assert "STOP_SECONDS is over" in done.stderr
    assert done.stderr.count('"event":"line ') == 2000


@pytest.mark.parametrize("name", ["memorist-work", "memorist-warm-up"])
def test_the_server_exits_at_once_while_a_thread_may_run_native_code(name: str) -> None:
    """The interpreter's own exit may crash then. It would also run exit handlers."""
    script = """
import atexit, sys, threading, time
from memorist.server.process import serve
atexit.register(print, "the interpreter's own exit")
threading.Thread(target=time.sleep, args=(60,), name=sys.argv[1], daemon=True).start()
serve._exit_if_busy(3)
"""
    done = run_script(script, name)
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="only glibc has several heaps")
def test_the_threads_of_a_server_share_two_heaps(tmp_path: Path) -> None:
    """A heap per thread keeps what its thread freed: memory would grow for hours."""
    script = """
import ctypes, sys, threading
from memorist.server.process import serve
serve._tune_malloc()
ready = threading.Barrier(12)
def work():
    block = bytearray(50_000)
    ready.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""
    env = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    report = tmp_path / "heaps.xml"
    run_script(script, str(report), env=env)
    assert 1 <= report.read_text().count("<heap nr=") <= 2


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="only glibc has an mmap threshold")
def test_freed_large_blocks_do_not_stay_in_the_heap() -> None:
    """By default, glibc takes the next block of that size from the heap, which then grows."""
    script = """
import ctypes
from memorist.server.process import serve
serve._tune_malloc()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.free(libc.malloc(8 << 20))
block = libc.malloc(8 << 20)
heap = next(line for line in open("/proc/self/maps") if "[heap]" in line)
start, end = (int(address, 16) for address in heap.split()[0].split("-"))
print(start <= block < end)
"""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = run_script(script, env=env)
    assert done.stdout == "False\n"


def read(connection: socket.socket, end: bytes) -> None:
    """Read until these bytes arrive."""
    text = b""
    while not text.endswith(end):
        block = connection.recv(65536)
        assert block, text
        text += block


class Writer(threading.Thread):
    """Appends to its own session until the server is gone; acknowledged writes are in
    `acknowledged`.
    """

    def __init__(self, process: Process, name: str) -> None:
        super().__init__()
        self.process, self.session = process, name
        self.acknowledged: dict[str, int] = {}
        self.others: set[int] = set()
        self.done = threading.Event()

    def run(self) -> None:
        connection = http.client.HTTPConnection(*self.process.address, timeout=20)
        for n in range(100_000):
            body = {"role": "user", "content": f"{self.session} {n}", "key": str(n)}
            for _ in range(20):  # retry, as a client would
                try:
                    path = f"/api/messages/{self.session}"
                    status, result = self.process.request("POST", path, body, connection)
                except (OSError, http.client.HTTPException):
                    connection.close()
                    if self.done.is_set():
                        return
                    time.sleep(0.02)
                    continue
                if status == 201:
                    self.acknowledged[body["content"]] = result["seq"]
                    break
                self.others.add(status)
                if self.done.is_set() or status != 503:
                    return
                time.sleep(0.02)


@pytest.mark.slow_on_postgres
@pytest.mark.parametrize("engine", ["sqlite", "modern"])
def test_no_acknowledged_write_is_lost(engine: str, tmp_path: Path) -> None:
    """Two processes on one port, one killed and replaced, then all stopped, under load."""
    created = new_database(engine) if engine != "sqlite" else iter([f"sqlite:///{tmp_path}/a.db"])
    database = next(created)
    settings = {"rate_per_second": 0, "postgres_pool": 4}
    with Memory.open(database) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        for n in range(4):
            me.sessions.add(f"s{n}")
        _, key = create_key(memory, "acme", "a test", ["read", "write"])
    with Process(database, "--workers", "2", limits={"STOP_SECONDS": 8}, **settings) as process:
        process.key = key
        writers = [Writer(process, f"s{n}") for n in range(4)]
        for writer in writers:
            writer.start()
        first = {child.pid for child in psutil.Process(process.process.pid).children()}
        assert len(first) == 2
        wait_until(lambda: all(len(writer.acknowledged) > 5 for writer in writers))
        os.kill(min(first), signal.SIGKILL)
        wait_until(
            lambda: (
                len({c.pid for c in psutil.Process(process.process.pid).children()} - first) == 1
            )
        )
        count = sum(len(writer.acknowledged) for writer in writers)
        wait_until(lambda: sum(len(writer.acknowledged) for writer in writers) > count + 40)
        for writer in writers:
            writer.done.set()
        assert (
            process.stop() == 0
        )  # it exits with 1 if requests are still running after STOP_SECONDS
        for writer in writers:
            writer.join(30)
            assert writer.others <= {503}
        assert not psutil.pid_exists(max(first))
        assert not any("Traceback" in line for line in process.errors), "".join(process.errors)
    with Memory.open(database) as memory:
        me = memory.scope(tenant="acme", user="ada", agent="scout")
        for writer in writers:
            stored = {
                message.content["text"]: message.seq
                for message in me.messages.window(writer.session, last=1000)
            }
            assert writer.acknowledged.items() <= stored.items()
            assert len(stored) - len(writer.acknowledged) <= 1, (
                "at most the one that was not answered"
            )
        assert all(finding.ok for finding in memory.verify())
    list(created)


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("installed", [True, False])
def test_the_announcement_names_mcp_only_if_it_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], installed: bool
) -> None:
    """MCP is an extra of its own."""
    monkeypatch.setattr(serve_command, "find_spec", lambda name: object() if installed else None)
    monkeypatch.setattr(
        "memorist.server.process.serve.serve",
        lambda settings, announce, jobs: announce("http://here") or 0,
    )
    assert main(["serve", "--database", "memory:"]) == 0
    assert ("http://here/mcp" in capsys.readouterr().out) == installed


def test_a_library_that_still_loads_does_not_crash_the_exit(tmp_path: Path) -> None:
    """Its native code may abort the interpreter's exit, so that is left out."""
    script = """
import atexit, gc, os, signal, sys, threading
from memorist.chat import warm_up
from memorist.cli.main import main
atexit.register(print, "the interpreter exits")
warm_up._JOIN_SECONDS = 0.1
def load(memory, stopping):
    print("garbage is collected:", gc.isenabled())
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
warm_up._load = load
sys.exit(main(["serve", "--database", "memory:", "--port", "0"]))
"""
    done = run_script(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "memorist listens on" in done.stdout
    assert "garbage is collected: True" in done.stdout
    assert "the interpreter exits" not in done.stdout


def test_garbage_is_not_collected_until_the_server_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection over all modules would delay the start."""
    is_enabled: list[bool] = []

    def serve(settings: Settings, announce: object, *, jobs: bool) -> int:
        is_enabled.append(gc.isenabled())
        raise SettingsError(where="port", problem="is in use")

    monkeypatch.setattr("memorist.server.process.serve.serve", serve)
    assert main(["serve", "--database", "memory:"]) != 0
    assert is_enabled == [False]
    assert gc.isenabled()


def test_other_commands_collect_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if one of their arguments is `serve`."""
    is_enabled: list[bool] = []

    def check_session(arguments: object) -> None:
        is_enabled.append(gc.isenabled())
        raise SettingsError(where="session", problem="does not exist")

    monkeypatch.setattr(run_command, "_check_session", check_session)
    assert main(["run", "--database", "memory:", "--", "npx", "serve"]) != 0
    assert is_enabled == [True]


@pytest.mark.parametrize(("flags", "expected"), [([], True), (["--no-jobs"], False)])
def test_jobs_can_be_left_to_another_process(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], expected: bool
) -> None:
    started: list[bool] = []

    def serve(settings: Settings, announce: object, *, jobs: bool) -> int:
        started.append(jobs)
        return 0

    monkeypatch.setattr("memorist.server.process.serve.serve", serve)
    assert main(["serve", "--database", "memory:", *flags]) == 0
    assert started == [expected]
