"""`retain doctor`: check settings, database, models and server, and say what to do."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from retain.api.status import database_address, job_problems
from retain.auth.api_keys import Keys
from retain.auth.jwt_tokens import jwt_authenticator
from retain.auth.local import allows_requests_without_key, is_loopback
from retain.base import limits
from retain.base.errors import Invalid, ReadOnly, RetainError, SettingsError, install_hint
from retain.base.settings import Settings
from retain.base.version import version
from retain.base.wording import counted
from retain.chat.mcp_servers import McpConnections
from retain.cli.command import Arguments, Command, load_settings
from retain.cli.output import print_table, show
from retain.client import KEY_VARIABLE
from retain.jobs.embed import lag
from retain.kinds.extra_tools import ToolFailure
from retain.memory import CHECKS, Memory
from retain.models import EXTRACTIVE
from retain.search.embedders import embed_texts
from retain.search.index import open_index
from retain.search.service_embedder import ServiceEmbedder
from retain.storage.blobs import Blobs
from retain.storage.connect import connect, folder, in_memory, lost_commits, verify_backup
from retain.storage.database import Finding
from retain.storage.verify import verify

State = Literal["ok", "warning", "problem"]

WARN_FREE_BYTES = 1 << 30
MIN_FREE_BYTES = 128 << 20
WARN_LAG_SECONDS = 60.0
MAX_VERIFIED_BYTES = 256 << 20  # only `retain verify` checks larger files
MAX_VERIFIED_ROWS = 300_000
SERVER_SECONDS = 2.0
MAX_STATUS_BYTES = 64 << 10
_CHANGE_NOTHING = "delete from search_behind where tenant = :tenant and round < 0"


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    check: str
    state: State
    found: str
    todo: str = ""


def doctor(arguments: Arguments) -> int:
    """Run every check; the exit status is 1 if one found a problem."""
    if arguments.url is not None and not arguments.url.startswith(("http://", "https://")):
        problem = f"must begin with http:// or https://, not {arguments.url!r}"
        raise Invalid(field="--url", problem=problem)
    checks = list(_check_backup(arguments) if arguments.backup else _run_checks(arguments))
    problems = sum(check.state == "problem" for check in checks)
    warnings = sum(check.state == "warning" for check in checks)
    if arguments.json:
        show({"ok": not problems, "version": version(), "checks": checks}, json_wanted=True)
    else:
        rows = [(check.check, check.state, check.found, check.todo) for check in checks]
        print_table(("check", "state", "found", "what to do"), rows)
        print(
            f"{counted(len(checks), 'check')}: {counted(problems, 'problem')}, {counted(warnings, 'warning')}."
        )
    return 1 if problems else 0


def _run_checks(arguments: Arguments) -> Iterator[Check]:
    try:
        settings = load_settings(arguments)
    except RetainError as error:
        todo = "Correct or remove it. `retain config example` lists all settings."
        yield Check("settings", "problem", str(error), todo)
        return
    yield from _check_settings(settings)
    address = ""  # of the database, if it can be opened
    try:
        if _can_be_created(settings):
            message = f"There is no database yet at {settings.shown('database')}."
            yield Check("database", "ok", message, "The first write or `retain serve` creates it.")
        elif lost := lost_commits(settings):
            # Opening the database would discard the rest of these commits.
            yield Check(
                "database",
                "problem",
                f"The write-ahead log is damaged: {lost} commits in it are lost when it is opened.",
                "Copy the file with its -wal and -shm now; then restore a backup, or accept the loss.",
            )
        else:
            with Memory.open(settings=settings, migrate_up=False, create=False) as memory:
                address = database_address(memory)
                yield from _check_database(memory)
                yield from _check_models(memory, call=arguments.models)
                yield from _check_mcp_servers(memory, call=arguments.models)
    except RetainError as error:
        yield Check("database", "problem", str(error), "See `retain config show`.")
    yield _check_server(settings, address, arguments.url)


def _check_backup(arguments: Arguments) -> Iterator[Check]:
    """Check a file that `retain backup` wrote, and the contents beside it; nothing is changed."""
    file: Path = arguments.backup
    settings = load_settings(arguments)
    todo = "Make a new backup, or use an older one."
    try:
        findings = verify_backup(file, settings, _verify_file)
    except OSError as error:
        unfinished = file.with_name(file.name + ".unfinished").exists()
        message = "The backup was not finished" if unfinished else "The file cannot be read"
        todo = "Run `retain backup` again." if unfinished else "Check the name of the file."
        yield Check("backup", "problem", f"{message}: {file} ({error.strerror}).", todo)
        return
    except RetainError as error:
        yield Check("backup", "problem", str(error), todo)
        return
    failed = [finding for finding in findings if not finding.ok]
    for finding in failed:
        yield Check(
            "backup", "problem", f"Check failed: {finding.check} ({finding.problem}).", todo
        )
    if not failed:
        yield Check("backup", "ok", f"All {len(findings)} checks of {file} passed.")


def _verify_file(settings: Settings) -> list[Finding]:
    """Verify a copy of a database file without changing it."""
    database, migrations = connect(settings, create=False, read_only=True)
    with closing(database):
        checks = (*CHECKS, *open_index(database).engine.checks)
        # A backup may have an older schema: opening the restored file migrates it.
        schema = min(database.version(), migrations[-1].number)
        if schema < migrations[-1].number:
            checks = ()
        return verify(database, checks, Blobs(database, folder(settings)), schema)


def _can_be_created(settings: Settings) -> bool:
    """Return whether the database is a file that does not exist yet, in a writable folder."""
    if in_memory(settings) or not settings.database.startswith("sqlite:///"):
        return False
    file = Path(settings.database.removeprefix("sqlite:///"))
    return not file.exists() and os.access(file.parent, os.W_OK | os.X_OK)


def _check_settings(settings: Settings) -> Iterator[Check]:
    origins = ", ".join(sorted(set(settings.origins.values()))) or "all defaults"
    yield Check(
        "settings", "ok", f"{counted(len(settings.origins), 'setting')} configured ({origins})."
    )
    model = settings.model or settings.summary_model not in ("", EXTRACTIVE)
    needed_extras = {
        "models": ("pydantic_ai", bool(model)),
        "encoder": ("onnxruntime", settings.embedder.startswith(("encoder", "onnx:"))),
        "postgres": ("psycopg", settings.database.startswith("postgres")),
        "oracle": ("oracledb", settings.database.startswith("oracle:")),
        "server": ("jwt", bool(settings.jwt_issuer)),
    }
    for extra, (module, is_needed) in needed_extras.items():
        if is_needed and not find_spec(module):
            hint = install_hint(extra)
            todo = f"{hint[0].upper()}{hint[1:]}."
            yield Check("settings", "problem", f"The extra `{extra}` is not installed.", todo)
    try:
        if find_spec("jwt"):
            jwt_authenticator(settings)
    except SettingsError as error:
        yield Check(
            "settings",
            "problem",
            str(error),
            "Correct the setting; until then, the server does not start.",
        )
    if "*" in settings.allowed_origins or "*" in settings.allowed_hosts:
        yield Check(
            "settings",
            "problem",
            "allowed_origins or allowed_hosts contains *.",
            "Name each origin and host; otherwise any web page can read every memory.",
        )
    if settings.workers > 1 and in_memory(settings):
        todo = "Use a database file, or one worker: workers do not share memory."
        message = f"{settings.workers} workers with a database in memory."
        yield Check("settings", "problem", message, todo)
    if settings.summary_enabled and not (settings.model or settings.summary_model):
        todo = f"Set model or summary_model; `{EXTRACTIVE}` needs no service."
        yield Check("settings", "warning", "summary_enabled is set without a model.", todo)
    if not settings.model and (settings.base_url or settings.api_key):
        todo = "Set model to a model of that service."
        yield Check("settings", "warning", "base_url or api_key is set without model.", todo)


def _check_database(memory: Memory) -> Iterator[Check]:
    database = memory.database
    yield Check("database", "ok", f"{database.name}: {database.engine()}")
    schema = database.version()
    expected = memory.migrations[-1].number
    if schema > expected:
        todo = "Use the version of retain that wrote it, or a newer one."
        yield Check(
            "schema", "problem", f"Schema {schema}; this version of retain needs {expected}.", todo
        )
    elif schema < expected:
        todo = "Run `retain migrate up`, or start the server, which also migrates."
        yield Check("schema", "warning", f"Schema {schema} of {expected}.", todo)
    else:
        yield Check("schema", "ok", f"Schema {schema} is current.")
    replica = database.check_replica()
    if replica is not None:
        todo = "" if replica.ok else "Reads go to `database`. Check `read_database` and its server."
        message = replica.problem or "It has replayed everything that the primary has written."
        state: State = "ok" if replica.ok else "warning"
        yield Check("replica", state, f"{replica.check}: {message}", todo)
    figures = database.figures()
    yield from _check_disk(figures)
    if schema != expected:
        return
    try:
        database.write(memory.settings.tenant, lambda tx: tx.run(_CHANGE_NOTHING))
    except ReadOnly as error:
        todo = (
            "Check the permissions of the file and its folder, or the server's role in replication."
        )
        yield Check("database", "problem", f"It is read-only: {error.problem}.", todo)
    is_large = figures.get("file_bytes", 0) > MAX_VERIFIED_BYTES
    if is_large or sum(memory.counts().values()) > MAX_VERIFIED_ROWS:
        yield Check("verify", "ok", "Not verified: the database is large.", "Run `retain verify`.")
    else:
        yield from _verify(memory)
    yield _check_keys(memory)
    for problem in job_problems(memory, memory.tenants()):
        todo = "Choose another summary_model, or `extractive`, which needs no service."
        yield Check("jobs", "warning", problem, todo)


def _check_disk(figures: dict[str, float]) -> Iterator[Check]:
    free = figures.get("disk_free_bytes")
    if free is None:
        return
    state: State = "ok"
    if free < WARN_FREE_BYTES:
        state = "problem" if free < MIN_FREE_BYTES else "warning"
    todo = "Free some space, or run `retain purge --days N`." if state != "ok" else ""
    yield Check("disk", state, f"{free / (1 << 30):.1f} GiB free.", todo)


def _verify(memory: Memory) -> Iterator[Check]:
    findings = memory.verify()
    failed = [finding for finding in findings if not finding.ok]
    for finding in failed:
        message = f"Check failed: {finding.check} ({finding.problem})."
        yield Check("verify", "problem", message, "See `retain verify` and the operations guide.")
    if not failed:
        yield Check("verify", "ok", f"All {len(findings)} checks of the data passed.")


def _check_keys(memory: Memory) -> Check:
    settings = memory.settings
    if Keys(memory.database).exist():
        return Check("keys", "ok", "There are API keys.")
    if settings.jwt_issuer:
        return Check("keys", "ok", f"Tokens of {settings.jwt_issuer} are accepted.")
    todo = "Run `retain keys create NAME --permissions read,write,delete,admin`."
    if allows_requests_without_key(settings):
        return Check("keys", "ok", "None: programs on this machine need no key.", todo)
    state: State = "warning" if is_loopback(settings.host) else "problem"
    return Check("keys", state, f"There is no API key, and {settings.host} requires one.", todo)


def _check_models(memory: Memory, *, call: bool) -> Iterator[Check]:
    settings = memory.settings
    models = memory.services.models
    if models.main is None:
        todo = "Set model, base_url and api_key. Without a model, chat answers are limited."
        yield Check("model", "ok", "No model is set.", todo)
    models_by_name = {"model": models.main}
    if models.summary is not models.main:
        models_by_name["summary model"] = models.summary
    for name, model in models_by_name.items():
        if model is None:
            continue
        description = model.name
        if settings.api_key and name == "model":
            description += f", key {settings.shown('api_key')}"
        if not call:
            yield Check(name, "ok", description, "Add --models to call it.")
            continue
        try:
            model.complete("Answer with one word.", "Say ok.", max_tokens=64)
            yield Check(name, "ok", f"{description} answered.")
        except RetainError as error:
            todo = "Check the model's name, the address and the key."
            yield Check(name, "problem", f"{description}: {error}", todo)
    yield from _check_embedder(memory, call=call)


def _check_mcp_servers(memory: Memory, *, call: bool) -> Iterator[Check]:
    """Check the MCP servers whose tools agents can use; with `call`, start them."""
    for name, server in memory.services.extra_tools.servers.items():
        check = f"MCP server {name}"
        address = urlsplit(server.url).hostname or server.command  # the rest may contain a key
        if not call:
            yield Check(check, "ok", address, "Add --models to connect to it.")
            continue
        try:
            with McpConnections(lambda: limits.TOOL_SECONDS) as connections:
                tools = connections.tools(server)
            yield Check(check, "ok", f"{address} offers {counted(len(tools), 'tool')}.")
        except ToolFailure as failure:
            todo = "Check mcp_servers in the settings; run the command yourself to see its output."
            yield Check(check, "problem", str(failure), todo)


def _check_embedder(memory: Memory, *, call: bool) -> Iterator[Check]:
    embedder = memory.services.embedder
    if embedder is None:
        yield Check("embedder", "ok", "None: search uses words only.")
        return
    if isinstance(embedder, ServiceEmbedder) and not call:
        message = f"The service's model {embedder.model}."
        yield Check("embedder", "ok", message, "Add --models to call it.")
        return
    try:
        dimensions = len(embed_texts(embedder, ["hello"])[0])
    except RetainError as error:
        todo = "Check embedding_base_url and its key."
        yield Check("embedder", "problem", str(error), todo)
        return
    yield Check("embedder", "ok", f"{embedder.identity}, {dimensions} dimensions.")
    if memory.database.version() != memory.migrations[-1].number:
        return
    lags = [lag(memory.services, tenant) for tenant in memory.tenants()]
    pending = sum(item.pending for item in lags)
    seconds = max((item.seconds for item in lags), default=0.0)
    is_late = pending > 0 and seconds > WARN_LAG_SECONDS
    todo = "Run `retain serve` or `retain jobs --every 5 --all-tenants`." if is_late else ""
    message = "All texts have a vector."
    if pending:
        message = f"{counted(pending, 'text')} without a vector, the oldest for {seconds:.0f} s."
    yield Check("vectors", "warning" if is_late else "ok", message, todo)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an error: the key is not meant for another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _check_server(settings: Settings, database: str, named_url: str | None) -> Check:
    """Check the server that the user named, or the program that listens on the configured port."""
    url = _local_url(settings) if named_url is None else named_url.rstrip("/")
    if named_url is None and not _is_listening(settings):
        return Check("server", "ok", f"No server is running at {url}.", "Run `retain serve`.")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
    # Any program may listen on the port: the key is only for a server that the user named.
    key = "" if named_url is None else os.environ.get(KEY_VARIABLE, "")
    try:
        with opener.open(f"{url}/readyz", timeout=SERVER_SECONDS) as response:
            if json.loads(response.read(1000)) == {"status": "ok"}:
                return _check_served_database(url, opener, database, key)
    except urllib.error.HTTPError as error:
        if "problem" in error.headers.get("content-type", ""):
            return Check("server", "problem", f"The server at {url} is not ready.", "See its log.")
    except (OSError, ValueError, HTTPException):
        pass
    if named_url is not None:
        return Check("server", "problem", f"There is no retain server at {url}.", "Correct --url.")
    message = f"Another program listens on port {settings.port}."
    return Check("server", "warning", message, "Set another `port`.")


def _local_host(settings: Settings) -> str:
    is_every_address = settings.host in ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound
    return "127.0.0.1" if is_every_address else settings.host


def _local_url(settings: Settings) -> str:
    host = _local_host(settings)
    address = f"[{host}]" if ":" in host else host
    return f"http://{address}:{settings.port}"


def _is_listening(settings: Settings) -> bool:
    address = (_local_host(settings), settings.port)
    try:
        socket.create_connection(address, SERVER_SECONDS).close()
    except OSError:
        return False
    return True


def _check_served_database(
    url: str, opener: urllib.request.OpenerDirector, database: str, key: str
) -> Check:
    """Compare the database of a server that is ready with the database in the settings."""
    request = urllib.request.Request(f"{url}/api/status")  # noqa: S310 - http or https
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with opener.open(request, timeout=SERVER_SECONDS) as response:
            served = str(json.loads(response.read(MAX_STATUS_BYTES))["database"])
    except (OSError, ValueError, LookupError, TypeError):
        served = ""
    if not served:
        todo = (
            f"To see which database it serves, set {KEY_VARIABLE} to an admin key "
            f"and add --url {url}, which sends the key there."
        )
        return Check("server", "ok", f"The server at {url} is ready.", todo)
    if database and served != database:
        message = f"The server at {url} serves another database: {served}."
        return Check("server", "warning", message, f"The settings here name {database}.")
    return Check("server", "ok", f"The server at {url} is ready and serves {served}.")


COMMANDS = (
    Command(
        "doctor",
        doctor,
        "retain doctor\n  retain doctor --models --json\n  retain doctor --backup monday.db",
        (),
        {
            "--backup": {
                "metavar": "FILE",
                "type": Path,
                "help": "check only this file that `retain backup` wrote, and the files beside it",
            },
            "--models": {
                "action": "store_true",
                "help": "also call each model once with a few tokens, which may cost money, and connect "
                "to the MCP servers of agents",
            },
            "--url": {
                "metavar": "URL",
                "help": "check this server, with the key in RETAIN_KEY, instead of the local port",
            },
        },
    ),
)
