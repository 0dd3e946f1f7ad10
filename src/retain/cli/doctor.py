"""`retain doctor`: everything that can be in the way, looked at once, each line with what to do about it."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from retain.api.rendering import show, table
from retain.auth.api_keys import Keys
from retain.auth.local import loopback, may_be_open
from retain.base import clock
from retain.base.errors import RetainError
from retain.base.settings import Settings
from retain.base.version import version
from retain.cli.command import Arguments
from retain.jobs.embed import lag
from retain.memory import Memory
from retain.models import EXTRACTIVE, Model
from retain.search.embedders import embed_texts
from retain.search.service_embedder import ServiceEmbedder
from retain.storage import leases
from retain.storage.connect import embedded, in_memory
from retain.storage.database import EVERY_TENANT

ABOUT = "Look at settings, database, disk, models, embedder and server, and say what to do."
EXAMPLE = """retain doctor
  retain doctor --models --json"""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "--models": {
        "action": "store_true",
        "help": "call each model once, with a few tokens, which may cost something",
    },
}
State = Literal["ok", "warning", "problem"]
EXTRAS = {
    "postgres": "psycopg",
    "models": "pydantic_ai",
    "server": "fastapi",
    "mcp": "mcp",
    "client": "httpx2",
    "minilm": "onnxruntime",
    "pdf": "pypdf",
    "tokens": "rs_bpe",
}
"""Each extra, and a module by which it is known to be there."""
LONG_LAG = 60.0
LITTLE_SPACE, MUCH_TOO_LITTLE = 1 << 30, 128 << 20
_QUICK = 256 << 20  # a file up to this size is read whole in a second or two
_CLOCK_SECONDS = 2.0
_WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Seen:
    """One thing that was looked at: how it is, what was found, and what to do."""

    check: str
    state: State
    found: str
    todo: str = ""


def doctor(arguments: Arguments) -> int:
    """Look at everything; the exit status is 1 where something is in the way."""
    seen = list(_looked(arguments))
    problems, warnings = (
        sum(one.state == state for one in seen) for state in ("problem", "warning")
    )
    if arguments.json:
        show({"ok": not problems, "version": version(), "checks": seen}, json_wanted=True)
    else:
        table(
            ("check", "state", "found", "what to do"),
            [(one.check, one.state, one.found, one.todo) for one in seen],
        )
        print(f"{len(seen)} checks: {problems} problems, {warnings} warnings.")
    return 1 if problems else 0


def _looked(arguments: Arguments) -> Iterator[Seen]:
    try:
        settings = Settings.load(arguments.config, database=arguments.database)
    except RetainError as error:
        yield Seen(
            "settings",
            "problem",
            str(error),
            "correct it, or take it out; `retain config example` shows them all",
        )
        return
    yield from _settings(settings)
    yield from _extras(settings)
    if _is_fresh(settings):
        yield Seen(
            "database",
            "ok",
            f"there is none yet at {settings.shown('database')}",
            "the first write, or `retain serve`",
        )
        yield from _guarded(_port, settings)
        return
    try:
        memory = Memory.open(settings=settings, migrate_up=False, create=False)
    except RetainError as error:
        yield Seen(
            "database",
            "problem",
            str(error),
            "see `database` in the settings: `retain config show`",
        )
    else:
        with memory:
            for look in (_database, _schema, _clock, _disk, _health, _keys):
                yield from _guarded(look, memory)
            for look_or_call in (_embedder, _models):
                yield from _guarded(look_or_call, memory, arguments.models)
    yield from _guarded(_port, settings)


def _guarded(look: Callable[..., Iterator[Seen]], *given: Any) -> Iterator[Seen]:
    """What one look finds; a look that fails is a finding, and not the end of the others."""
    try:
        yield from look(*given)
    except RetainError as error:
        yield Seen(look.__name__.strip("_"), "problem", str(error), "the message says what to do")
    except Exception as error:
        said = f"it cannot be looked at: {type(error).__name__}: {error}"
        yield Seen(
            look.__name__.strip("_"), "problem", said, "this is a mistake in retain: report it"
        )


def _is_fresh(settings: Settings) -> bool:
    """Whether nothing was written yet, in a folder where it can be."""
    if in_memory(settings) or not settings.database.startswith("sqlite:///"):
        return False
    file = Path(settings.database.removeprefix("sqlite:///"))
    return not file.exists() and os.access(file.parent, os.W_OK | os.X_OK)


def _settings(settings: Settings) -> Iterator[Seen]:
    where = sorted(set(settings.origins.values()))
    yield Seen(
        "settings",
        "ok",
        f"{len(settings.origins)} are set ({', '.join(where) or 'all are the defaults'})",
    )
    wrong: list[tuple[bool, State, str, str]] = [
        (
            bool(settings.jwt_issuer) and not (settings.jwt_audience and settings.jwt_keys),
            "problem",
            "jwt_issuer is set without jwt_audience and jwt_keys",
            "set both: a token for another service must not open this one",
        ),
        (
            settings.embedder == "service" and not settings.embedding_model,
            "problem",
            "embedder is `service`, and embedding_model is empty",
            "name the service's model, or choose another embedder",
        ),
        (
            "*" in settings.allowed_origins or "*" in settings.allowed_hosts,
            "problem",
            "allowed_origins or allowed_hosts has a *",
            "name each page and each host: any page could read every memory",
        ),
        (
            settings.workers > 1 and in_memory(settings),
            "problem",
            f"{settings.workers} workers, and a database in memory",
            "each would have its own: use a file, or one worker",
        ),
        (
            settings.summary_enabled and not (settings.model or settings.summary_model),
            "warning",
            "summary_enabled, and there is no model",
            f"set model, or summary_model: {EXTRACTIVE}",
        ),
        (
            not settings.model and bool(settings.base_url or settings.api_key),
            "warning",
            "base_url or api_key is set, and model is empty",
            "set model to the name of one that the service has",
        ),
        (
            not settings.model
            and (settings.consolidate != "off" or settings.ref_describe == "model"),
            "warning",
            "consolidate or ref_describe wants a model, and there is none",
            "set model, or leave them as they were",
        ),
    ]
    yield from (
        Seen("settings", state, found, todo) for applies, state, found, todo in wrong if applies
    )


def _extras(settings: Settings) -> Iterator[Seen]:
    there = [name for name, module in EXTRAS.items() if find_spec(module)]
    missing = [name for name in EXTRAS if name not in there]
    needed = {
        "models": bool(settings.model or settings.summary_model not in ("", EXTRACTIVE)),
        "minilm": settings.embedder == "minilm" or settings.reranker == "late",
        "postgres": not embedded(settings),
    }
    for name in missing:
        if needed.get(name):
            advice = f"install retain[{name}] from where you got retain"
            yield Seen("extras", "problem", f"the settings need `{name}`", advice)
    yield Seen(
        "extras",
        "ok",
        f"installed: {', '.join(there) or 'none'}" + f"; not: {', '.join(missing)}" * bool(missing),
    )


def _database(memory: Memory) -> Iterator[Seen]:
    tenants = memory.tenants() if memory.database.version() else []
    yield Seen("database", "ok", f"{memory.database.name}: {memory.database.engine()}")
    if tenants:
        leases.sweep(memory.database, tenants[0])
    yield Seen(
        "writing",
        "ok",
        f"{len(tenants)} tenants, and it can be written to"
        if tenants
        else "nothing is written yet",
    )


def _schema(memory: Memory) -> Iterator[Seen]:
    found, wanted = memory.database.version(), memory.migrations[-1].number
    if found == wanted:
        yield Seen("schema", "ok", f"{found}, which is this version's")
    elif found < wanted:
        yield Seen(
            "schema",
            "warning",
            f"{found} of {wanted}",
            "retain migrate up (a start of the server does it too)",
        )
    else:
        yield Seen(
            "schema",
            "problem",
            f"{found}; this version knows {wanted}",
            "use the retain that wrote it, or a newer one",
        )


def _clock(memory: Memory) -> Iterator[Seen]:
    behind = abs(memory.database.read(EVERY_TENANT, lambda tx: tx.now) - clock.now()) / clock.SECOND
    late = behind > _CLOCK_SECONDS
    todo = (
        "set both machines' clocks by NTP: what expires does so by the database's" if late else ""
    )
    yield Seen("clock", "warning" if late else "ok", f"{behind:.1f} s from the database's", todo)


def _disk(memory: Memory) -> Iterator[Seen]:
    figures = memory.database.figures()
    free = figures.get("disk_free_bytes")
    if free is None:
        yield Seen("disk", "ok", "the database's server has its own: look there")
        return
    state: State = (
        "problem" if free < MUCH_TOO_LITTLE else "warning" if free < LITTLE_SPACE else "ok"
    )
    sizes = ", ".join(
        f"{name} {_size(figures.get(key, 0))}"
        for name, key in (("file", "file_bytes"), ("log", "log_bytes"))
    )
    todo = (
        ""
        if state == "ok"
        else "make room, or `retain purge --days N`: writing stops before the disk is full"
    )
    yield Seen("disk", state, f"{_size(free)} free ({sizes})", todo)


def _health(memory: Memory) -> Iterator[Seen]:
    if memory.database.figures().get("file_bytes", 0) > _QUICK:
        yield Seen(
            "health", "ok", "not looked at: the file is large", "`retain verify` reads all of it"
        )
        return
    findings = memory.database.health()
    wrong = [one for one in findings if not one.ok]
    yield from (
        Seen("health", "problem", f"{one.check}: no, {one.problem}", "docs/operations.md, Checking")
        for one in wrong
    )
    if not wrong:
        yield Seen(
            "health",
            "ok",
            f"{len(findings)} checks of the engine are well",
            "`retain verify` proves the rest",
        )


def _embedder(memory: Memory, call: bool) -> Iterator[Seen]:
    embedder = memory.services.embedder
    if embedder is None:
        yield Seen("embedder", "ok", "none: search goes by words alone")
        return
    if isinstance(embedder, ServiceEmbedder):
        yield Seen(
            "embedder",
            "ok",
            f"a service: {memory.settings.embedding_model}",
            "" if call else "--models calls it once",
        )
        if (
            not call and not memory.settings.embedding_dimensions
        ):  # whose vectors these are, the service alone knows
            yield Seen(
                "vectors",
                "ok",
                "not looked at: the service must be asked first",
                "--models asks it",
            )
            return
    else:
        vectors = embed_texts(embedder, ["hello"])
        yield Seen("embedder", "ok", f"{embedder.identity}, {len(vectors[0])} dimensions")
    yield from _lag(memory)


def _lag(memory: Memory) -> Iterator[Seen]:
    if memory.database.version() != memory.migrations[-1].number:
        return
    lags = [lag(memory.services, tenant) for tenant in memory.tenants()]
    pending, seconds = (
        sum(one.pending for one in lags),
        max((one.seconds for one in lags), default=0.0),
    )
    state: State = "warning" if pending and seconds > LONG_LAG else "ok"
    todo = "run `retain serve` or `retain jobs --every 5 --all-tenants`" if state != "ok" else ""
    yield Seen(
        "vectors",
        state,
        f"{pending} are due, the oldest for {seconds:.0f} s" if pending else "none is due",
        todo,
    )


def _keys(memory: Memory) -> Iterator[Seen]:
    settings = memory.settings
    if memory.database.version() != memory.migrations[-1].number:
        return
    any_keys = Keys(memory.database).any()
    opened = settings.jwt_issuer or any_keys
    if not opened and may_be_open(settings):
        yield Seen(
            "keys",
            "ok",
            "none: whoever is on this machine comes in",
            "`retain keys create NAME` closes the door",
        )
    elif opened:
        yield Seen(
            "keys", "ok", "there are some" if any_keys else f"tokens of {settings.jwt_issuer}"
        )
    else:
        state: State = "warning" if loopback(settings.host) else "problem"
        found = (
            "none, and nobody comes in without one"
            if loopback(settings.host)
            else f"none, and the server needs some on {settings.host}"
        )
        yield Seen("keys", state, found, "retain keys create NAME")


def _models(memory: Memory, call: bool) -> Iterator[Seen]:
    settings, models = memory.settings, memory.services.models
    named: list[tuple[str, Model | None, str]] = [("model", models.main, "base_url")]
    if models.summary is not models.main:
        named.append(("summary model", models.summary, "summary_base_url"))
    for what, model, address in named:
        if model is None:
            todo = (
                ""
                if what != "model"
                else "set model (and base_url, api_key): a chat answers without one, but not well"
            )
            yield Seen(what, "ok", "none", todo)
            continue
        found = f"{model.name} at {settings.shown(address) or 'its provider'}"
        found += (
            f", key {settings.shown('api_key')}" if what == "model" and settings.api_key else ""
        )
        yield (
            _called(what, model, found)
            if call
            else Seen(what, "ok", found, "--models calls it once")
        )
    if call and isinstance(memory.services.embedder, ServiceEmbedder):
        try:
            embed_texts(memory.services.embedder, ["hello"])
            yield Seen(
                "embedding service", "ok", f"{memory.services.embedder.dimensions} dimensions"
            )
        except RetainError as error:
            yield Seen(
                "embedding service", "problem", str(error), "look at embedding_base_url and its key"
            )


def _called(what: str, model: Model, found: str) -> Seen:
    started = time.monotonic()
    try:
        model.complete("Answer with one word.", "Say ok.", max_tokens=64)
    except RetainError as error:
        return Seen(
            what, "problem", f"{found}: {error}", "look at the name, the address and the key"
        )
    return Seen(what, "ok", f"{found}: answered in {time.monotonic() - started:.1f} s")


def _port(settings: Settings) -> Iterator[Seen]:
    import urllib.error
    import urllib.request

    host = settings.host if settings.host not in ("0.0.0.0", "::", "") else "127.0.0.1"  # noqa: S104 - not to bind to
    url = f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
    try:
        socket.create_connection((host, settings.port), _WAIT_SECONDS).close()
    except OSError:
        yield Seen("server", "ok", f"not running: port {settings.port} is free", "retain serve")
        return
    try:
        ask = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        ).open  # this machine is behind no proxy
        with ask(f"{url}/readyz", timeout=_WAIT_SECONDS) as answer:
            ours = json.loads(answer.read(1000)) == {"status": "ok"}
    except urllib.error.HTTPError as error:
        kind = error.headers.get("content-type", "")
        if "problem" in kind:
            yield Seen(
                "server", "problem", f"it runs at {url}, and is not ready", "its log says why"
            )
            return
        ours = False
    except (OSError, ValueError):
        ours = False
    if ours:
        yield Seen("server", "ok", f"it runs at {url}, and is ready")
    else:
        yield Seen(
            "server",
            "warning",
            f"another program listens on port {settings.port}",
            "choose another `port`",
        )


def _size(size: float) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"
