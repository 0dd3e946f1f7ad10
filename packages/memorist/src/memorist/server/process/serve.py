"""The server process: bind the port, open the memory, run the app, shut down without data loss.

On SIGTERM, a server behind a proxy first fails `/readyz` and still accepts requests, until the proxy
has noticed. Then the server accepts no new work, finishes running requests, ends streams and closes
the memory. Acknowledged writes are safe at any moment, so a second signal or the time limit may end
the process at once.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from memorist.admin.credentials import KeyChecker
from memorist.admin.local import allows_requests_without_key, check_host
from memorist.base import limits
from memorist.base.errors import SettingsError
from memorist.base.settings import Settings
from memorist.chat.warm_up import WARM_UP_THREAD, warming_up
from memorist.memory import Memory
from memorist.server.http.app import create_app
from memorist.server.http.middleware import ProtectionMiddleware
from memorist.server.observe import logs, metrics
from memorist.server.process.background import JOBS_THREAD
from memorist.server.process.connection import Connection
from memorist.server.process.supervisor import Supervisor, WorkerCommand, WorkerConfig
from memorist.storage.connect import in_memory, is_missing

KEEP_ALIVE_SECONDS = 75
"""Longer than that of proxies, which would otherwise send a request on a closing connection."""
GARBAGE_THRESHOLD = 20_000
"""Objects between two searches for garbage; a response of 50 messages makes a few hundred."""
MAX_MALLOC_ARENAS = 2
"""Heaps of the C library for all threads. The default of glibc is 8 for each core. Each keeps what
its threads freed: 30 MiB more under a mixed load, on 2 cores."""
MMAP_THRESHOLD_BYTES = 256 << 10
"""malloc uses mmap for larger blocks, so that freeing them returns the memory to the system. By
default, glibc raises this threshold to the largest freed block. Then, in three minutes of mixed load,
the heap grew from 98 to 132 MiB with 70 MiB in use."""
_FINISHING = 0.8  # share of the stop time for requests; the rest is for background tasks
_NO_KEY = """memorist: no API key exists yet, so the server rejects every request.
Create one in this database: memorist keys add NAME --permissions read,write,delete,admin"""
WAIT_SECONDS = 2.0
"""A request waits this long for the database; then the client is asked to retry."""
OnListening = Callable[[str], None]


def serve(settings: Settings, on_listening: OnListening, *, jobs: bool = True) -> int:
    """Serve until a signal to stop; return the exit status.

    on_listening: called with the URL once the server listens
    jobs:         also run the background jobs
    """
    if settings.workers > 1 and in_memory(settings):
        problem = f"{settings.workers} processes would each have a database of their own in memory: use a file, or one worker"
        raise SettingsError(where="workers", problem=problem)
    _allow_many_files()
    # Bind before opening the database: do not create one that cannot be served.
    with bind(settings.host, settings.port) as listener:
        if is_missing(settings):
            check_host(settings, keys_exist=False)
        # One process migrates before the workers open the database.
        with Memory.open(
            settings=settings, wait_seconds=WAIT_SECONDS, complete_index=False
        ) as memory:
            keys_exist = KeyChecker(memory.database).keys_exist()
            check_host(settings, keys_exist=keys_exist)
            if not (allows_requests_without_key(settings) or settings.jwt_issuer or keys_exist):
                print(_NO_KEY, file=sys.stderr, flush=True)
            listener.listen(2048)
            if settings.workers == 1:
                status = run(memory, listener, lambda: on_listening(_address(listener)), jobs=jobs)
        if settings.workers == 1:
            _exit_if_busy(status)
            return status

        gc.enable()
        with metrics.shared() as folder:
            mark = str(folder / "readiness")

            def config(ready: int) -> bytes:
                return WorkerConfig(settings, listener.fileno(), ready, mark, jobs).encode()

            command = WorkerCommand(
                [sys.executable, "-P", "-m", "memorist.server.process.worker"],
                config,
                [listener.fileno()],
            )
            return Supervisor(
                settings.workers,
                command,
                on_ready=lambda: on_listening(_address(listener)),
                on_exit=metrics.worker_exited,
                # Workers stop on their own before this.
                stop_seconds=limits.DRAIN_SECONDS + limits.STOP_SECONDS + 1,
            ).run()


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet. Raise SettingsError if that fails."""
    if port > 65535:
        raise SettingsError(
            where="port", problem=f"{port} is not a valid port; the maximum is 65535"
        )
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except BaseException:  # close the socket even on Ctrl+C
            listener.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = (
                f"{port} on {host} is already in use; stop the process that uses it, or choose "
                "another port with --port (0: any free port)"
            )
            raise SettingsError(where="port", problem=problem) from None
        if error.errno == errno.EACCES:
            raise SettingsError(
                where="port", problem=f"{port} requires root privileges; choose a port above 1023"
            ) from None
        problem = f"cannot bind to {host}: {error.strerror or error}. It must be an address of this machine"
        raise SettingsError(where="host", problem=problem) from None
    return listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(
    memory: Memory,
    listener: socket.socket,
    ready: Callable[[], None],
    parent: int | None = None,
    readiness_mark: Path | None = None,
    *,
    jobs: bool,
) -> int:
    """Serve a memory on a socket; return the exit status.

    parent:         standard input of a worker, which closes when its supervisor exits
    readiness_mark: a file that exists once a proxy has checked the readiness of any worker
    """
    # Imported before other threads start: they would import its parts at the same time, in another
    # order, and one of them would fail.
    import numpy  # noqa: F401

    log = logs.configure(memory.settings)
    try:
        with warming_up(memory, start=False) as loading:

            def start_loading() -> None:
                """Load models only now: before, they would delay the first response."""
                ready()
                loading.start()

            http_server = server(memory, start_loading, parent, readiness_mark, jobs=jobs)
            if parent is not None:
                # Keep this handler to the end: a signal must not interrupt closing the memory.
                signal.signal(signal.SIGTERM, http_server.handle_exit)
            http_server.run(sockets=[listener])
    except SystemExit as error:  # it could not start, and has printed why
        return error.code if isinstance(error.code, int) else 1
    finally:
        log.flush()  # a worker exits without the interpreter's exit handlers
    return 0


def server(
    memory: Memory,
    ready: Callable[[], None],
    parent: int | None = None,
    readiness_mark: Path | None = None,
    *,
    jobs: bool = True,
) -> Server:
    """Return a server for a memory, ready to run on a socket."""
    app = create_app(memory, jobs=jobs)
    app.state.health.readiness_mark = readiness_mark
    config = uvicorn.Config(
        app,
        http=partial(Connection, seconds=limits.REQUEST_SECONDS),  # type: ignore[arg-type]
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # uvicorn reads the addresses of trusted proxies from this variable.
        proxy_headers=bool(os.environ.get("FORWARDED_ALLOW_IPS")),
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    return Server(config, app, ready, parent)


class Server(uvicorn.Server):
    """A uvicorn server with our own shutdown."""

    def __init__(
        self, config: uvicorn.Config, app: Starlette, ready: Callable[[], None], parent: int | None
    ) -> None:
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._parent = parent
        self._stop_seconds: float = limits.STOP_SECONDS
        self._drain_seconds = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; at the second signal exit at once.

        A worker leaves that to its parent: both may get the same signal.
        """
        if self.should_exit and self._parent is None:
            logs.flush()
            os._exit(128 + sig)
        is_behind_proxy = self._app.state.health.readiness_was_checked
        if sig == signal.SIGTERM and is_behind_proxy and not self.should_exit:
            self._drain_seconds = limits.DRAIN_SECONDS
        self._stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report that the server is ready."""
        _tune_malloc()
        await super().startup(sockets)
        gc.freeze()  # the app itself stays: do not search it for garbage again and again
        gc.set_threshold(GARBAGE_THRESHOLD)
        gc.enable()
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._orphaned)
        self._ready()

    def _orphaned(self) -> None:
        """Stop because the parent exited and closed its end of the pipe."""
        assert self._parent is not None
        asyncio.get_running_loop().remove_reader(self._parent)
        self._stop()

    def _stop(self) -> None:
        """Start to stop; a timer ends the process if that takes too long."""
        if not self.should_exit:
            last = threading.Timer(self._drain_seconds + self._stop_seconds, _end)
            last.daemon = True
            last.start()
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait until proxies send no more requests, then finish those that are running.

        The port stays open; new requests then get a "stopping" error.
        """
        loop = asyncio.get_running_loop()
        guard = self._app.state.guard
        if self._drain_seconds:
            guard.is_draining = True
            await asyncio.sleep(self._drain_seconds)
        deadline = loop.time() + self._stop_seconds * _FINISHING
        self._app.state.stopping.set()
        while _busy(guard) and loop.time() < deadline:
            await asyncio.sleep(0.02)
        self.config.timeout_graceful_shutdown = max(0, deadline - loop.time()) + 0.1  # type: ignore[assignment]
        await super().shutdown(sockets)


def _exit_if_busy(status: int) -> None:
    """End the process at once if a thread still loads a library or runs a job.

    A thread in native code, such as the encoder's, may crash the interpreter's own exit. Everything
    is closed and flushed here.
    """
    if any(thread.name in (WARM_UP_THREAD, JOBS_THREAD) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _busy(guard: ProtectionMiddleware) -> bool:
    return guard.in_flight + guard.long_running > 0


def _end() -> None:
    """Exit although requests still run: the time to stop is over."""
    print(
        "memorist: stopped with requests unfinished: STOP_SECONDS is over",
        file=sys.stderr,
        flush=True,
    )
    logs.flush()
    os._exit(1)


def _tune_malloc() -> None:
    """Let all threads share a few heaps, and return large blocks to the system.

    An environment variable of glibc takes precedence if it is set.
    """
    if sys.platform != "linux":
        return
    import ctypes

    options = {  # environment variable: number of the option in malloc.h, and value
        "MALLOC_ARENA_MAX": (-8, MAX_MALLOC_ARENAS),
        "MALLOC_MMAP_THRESHOLD_": (-3, MMAP_THRESHOLD_BYTES),
        "MALLOC_TRIM_THRESHOLD_": (-1, 4 * MMAP_THRESHOLD_BYTES),
    }
    with suppress(OSError, AttributeError):  # only glibc has this function
        for variable, (option, value) in options.items():
            if variable not in os.environ:
                ctypes.CDLL(None).mallopt(option, value)


def _allow_many_files() -> None:
    """Raise the limit of open files, and so of connections, to the system's maximum."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (maximum, maximum))
