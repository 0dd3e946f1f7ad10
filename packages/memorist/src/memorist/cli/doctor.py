"""`memorist doctor`: check settings, database, models and server, and say what to do."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from memorist.admin.credentials import KeyChecker
from memorist.admin.jwt_tokens import jwt_authenticator
from memorist.admin.local import allows_requests_without_key, is_loopback
from memorist.base import http, limits
from memorist.base.errors import Invalid, MemoristError, ReadOnly, SettingsError, install_hint
from memorist.base.settings import Settings
from memorist.base.version import version
from memorist.base.wording import counted
from memorist.chat.mcp_servers import McpConnections
from memorist.cli.command import Arguments, Command, load_settings
from memorist.cli.output import print_table, show
from memorist.client import KEY_VARIABLE
from memorist.jobs.embed import lag
from memorist.jobs.status import database_address, job_problems
from memorist.kinds.extra_tools import ToolFailure
from memorist.learning import reader
from memorist.memory import CHECKED_TABLES, CHECKS, Memory
from memorist.models import EXTRACTIVE
from memorist.search.embedders import embed_texts
from memorist.search.service_embedder import ServiceEmbedder
from memorist.storage import former_name
from memorist.storage.connect import connect, folder, in_memory, lost_commits, verify_backup
from memorist.storage.contents.blobs import Blobs
from memorist.storage.database import Finding
from memorist.storage.transfer.verify import verify

State = Literal["ok", "warning", "problem"]

WARN_FREE_BYTES = 1 << 30
MIN_FREE_BYTES = 128 << 20
WARN_LAG_SECONDS = 60.0
MAX_VERIFIED_BYTES = 256 << 20  # only `memorist verify` checks larger files
MAX_VERIFIED_ROWS = 300_000
SERVER_SECONDS = 2.0
MAX_STATUS_BYTES = 64 << 10
_CHANGE_NOTHING = "delete from search_behind where tenant = :tenant and round < 0"


@dataclass(frozen=True)
class DoctorCheck:
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


def _run_checks(arguments: Arguments) -> Iterator[DoctorCheck]:
    try:
        settings = load_settings(arguments)
    except MemoristError as error:
        todo = "Correct or remove it. `memorist config example` lists all settings."
        yield DoctorCheck("settings", "problem", str(error), todo)
        return
    yield from _check_settings(settings)
    yield from _check_reader(settings)
    address = ""  # of the database, if it can be opened
    try:
        former_name.reject_default_file(settings)
        if _can_be_created(settings):
            message = f"There is no database yet at {settings.shown('database')}."
            yield DoctorCheck(
                "database", "ok", message, "The first write or `memorist serve` creates it."
            )
        elif lost := lost_commits(settings):
            # Opening the database would discard the rest of these commits.
            yield DoctorCheck(
                "database",
                "problem",
                f"The write-ahead log is damaged: {lost} commits in it are lost when it is opened.",
                "Copy the file with its -wal and -shm now; then restore a backup, or accept the loss.",
            )
        else:
            with Memory.open(settings=settings, migrate_up=False, create=False) as memory:
                address = database_address(memory.database)
                yield from _check_database(memory)
                yield from _check_models(memory, call=arguments.models)
                yield from _check_mcp_servers(memory, call=arguments.models)
    except MemoristError as error:
        yield DoctorCheck("database", "problem", str(error), "See `memorist config show`.")
    yield _check_server(settings, address, arguments.url)


def _check_backup(arguments: Arguments) -> Iterator[DoctorCheck]:
    """Check a file that `memorist backup` wrote, and the contents beside it; nothing is changed."""
    file: Path = arguments.backup
    settings = load_settings(arguments)
    todo = "Make a new backup, or use an older one."
    try:
        findings = verify_backup(file, settings, _verify_file)
    except OSError as error:
        unfinished = file.with_name(file.name + ".unfinished").exists()
        message = "The backup was not finished" if unfinished else "The file cannot be read"
        todo = "Run `memorist backup` again." if unfinished else "Check the name of the file."
        yield DoctorCheck("backup", "problem", f"{message}: {file} ({error.strerror}).", todo)
        return
    except MemoristError as error:
        yield DoctorCheck("backup", "problem", str(error), todo)
        return
    failed = [finding for finding in findings if not finding.ok]
    for finding in failed:
        yield DoctorCheck(
            "backup", "problem", f"Check failed: {finding.check} ({finding.problem}).", todo
        )
    if not failed:
        yield DoctorCheck("backup", "ok", f"All {len(findings)} checks of {file} passed.")


def _verify_file(settings: Settings) -> list[Finding]:
    """Verify a copy of a database file without changing it."""
    database, migrations = connect(settings, create=False, read_only=True)
    with closing(database):
        checks = CHECKS
        # A backup may have an older schema: opening the restored file migrates it.
        schema = min(database.version(), migrations[-1].number)
        if schema < migrations[-1].number:
            checks = ()
        else:
            database.checked_tables = CHECKED_TABLES
        return verify(database, checks, Blobs(database, folder(settings)), schema)


def _can_be_created(settings: Settings) -> bool:
    """Return whether the database is a file that does not exist yet, in a writable folder."""
    if in_memory(settings) or not settings.database.startswith("sqlite:///"):
        return False
    file = Path(settings.database.removeprefix("sqlite:///"))
    return not file.exists() and os.access(file.parent, os.W_OK | os.X_OK)


def _check_settings(settings: Settings) -> Iterator[DoctorCheck]:
    origins = ", ".join(sorted(set(settings.origins.values()))) or "all defaults"
    yield DoctorCheck(
        "settings", "ok", f"{counted(len(settings.origins), 'setting')} configured ({origins})."
    )
    model = settings.model or settings.summary_model not in ("", EXTRACTIVE)
    needed_extras = {
        "models": ("pydantic_ai", bool(model)),
        "encoder": ("onnxruntime", settings.embedder.startswith(("encoder", "onnx:"))),
        "postgres": ("psycopg", settings.database.startswith("postgres")),
        "oracle": ("memorist_oracle", settings.database.startswith("oracle:")),
        "server": ("jwt", bool(settings.jwt_issuer)),
    }
    for extra, (module, is_needed) in needed_extras.items():
        if is_needed and not find_spec(module):
            hint = install_hint(extra)
            todo = f"{hint[0].upper()}{hint[1:]}."
            yield DoctorCheck("settings", "problem", f"The extra `{extra}` is not installed.", todo)
    try:
        if find_spec("jwt"):
            jwt_authenticator(settings)
    except SettingsError as error:
        yield DoctorCheck(
            "settings",
            "problem",
            str(error),
            "Correct the setting; until then, the server does not start.",
        )
    if "*" in settings.allowed_origins or "*" in settings.allowed_hosts:
        yield DoctorCheck(
            "settings",
            "problem",
            "allowed_origins or allowed_hosts contains *.",
            "Name each origin and host; otherwise any web page can read every memory.",
        )
    if settings.workers > 1 and in_memory(settings):
        todo = "Use a database file, or one worker: workers do not share memory."
        message = f"{settings.workers} workers with a database in memory."
        yield DoctorCheck("settings", "problem", message, todo)
    if settings.summary_enabled and not (settings.model or settings.summary_model):
        todo = f"Set model or summary_model; `{EXTRACTIVE}` needs no service."
        yield DoctorCheck("settings", "warning", "summary_enabled is set without a model.", todo)
    if not settings.model and (settings.base_url or settings.api_key):
        todo = "Set model to a model of that service."
        yield DoctorCheck("settings", "warning", "base_url or api_key is set without model.", todo)


def _check_reader(settings: Settings) -> Iterator[DoctorCheck]:
    """Check the weights of the fact reader, which learns more than the built-in rules."""
    if settings.facts == "off":
        return
    if not reader.is_installed():
        message = (
            "Only the built-in rules learn facts. Install the extra `encoder` to learn far more."
        )
        yield DoctorCheck("facts", "ok", message)
        return
    try:
        reader.read("")
    except SettingsError as error:
        todo = "Reinstall memorist-encoder. Until then, only the built-in rules learn facts."
        yield DoctorCheck("facts", "problem", str(error), todo)
    else:
        yield DoctorCheck("facts", "ok", "The fact reader is installed.")


def _check_database(memory: Memory) -> Iterator[DoctorCheck]:
    database = memory.database
    yield DoctorCheck("database", "ok", f"{database.name}: {database.engine()}")
    schema = database.version()
    expected = memory.migrations[-1].number
    if schema > expected:
        todo = "Use the version of memorist that wrote it, or a newer one."
        yield DoctorCheck(
            "schema",
            "problem",
            f"Schema {schema}; this version of memorist needs {expected}.",
            todo,
        )
    elif schema < expected:
        todo = "Run `memorist migrate up`, or start the server, which also migrates."
        yield DoctorCheck("schema", "warning", f"Schema {schema} of {expected}.", todo)
    else:
        yield DoctorCheck("schema", "ok", f"Schema {schema} is current.")
    replica = database.check_replica()
    if replica is not None:
        todo = "" if replica.ok else "Reads go to `database`. Check `read_database` and its server."
        message = replica.problem or "It has replayed everything that the primary has written."
        state: State = "ok" if replica.ok else "warning"
        yield DoctorCheck("replica", state, f"{replica.check}: {message}", todo)
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
        yield DoctorCheck("database", "problem", f"It is read-only: {error.problem}.", todo)
    is_large = figures.get("file_bytes", 0) > MAX_VERIFIED_BYTES
    if is_large or sum(memory.counts().values()) > MAX_VERIFIED_ROWS:
        yield DoctorCheck(
            "verify", "ok", "Not verified: the database is large.", "Run `memorist verify`."
        )
    else:
        yield from _verify(memory)
    yield _check_keys(memory)
    for found in job_problems(memory.services, memory.tenants()):
        yield DoctorCheck("jobs", "warning", found.problem, found.todo)


def _check_disk(figures: dict[str, float]) -> Iterator[DoctorCheck]:
    free = figures.get("disk_free_bytes")
    if free is None:
        return
    state: State = "ok"
    if free < WARN_FREE_BYTES:
        state = "problem" if free < MIN_FREE_BYTES else "warning"
    todo = "Free some space, or run `memorist purge --days N`." if state != "ok" else ""
    yield DoctorCheck("disk", state, f"{free / (1 << 30):.1f} GiB free.", todo)


def _verify(memory: Memory) -> Iterator[DoctorCheck]:
    findings = memory.verify()
    failed = [finding for finding in findings if not finding.ok]
    for finding in failed:
        message = f"Check failed: {finding.check} ({finding.problem})."
        yield DoctorCheck(
            "verify", "problem", message, "See `memorist verify` and the operations guide."
        )
    if not failed:
        yield DoctorCheck("verify", "ok", f"All {len(findings)} checks of the data passed.")


def _check_keys(memory: Memory) -> DoctorCheck:
    settings = memory.settings
    if KeyChecker(memory.database).keys_exist():
        return DoctorCheck("keys", "ok", "There are API keys.")
    if settings.jwt_issuer:
        return DoctorCheck("keys", "ok", f"Tokens of {settings.jwt_issuer} are accepted.")
    todo = "Run `memorist keys add NAME --permissions read,write,delete,admin`."
    if allows_requests_without_key(settings):
        return DoctorCheck("keys", "ok", "None: programs on this machine need no key.", todo)
    state: State = "warning" if is_loopback(settings.host) else "problem"
    return DoctorCheck(
        "keys", state, f"There is no API key, and {settings.host} requires one.", todo
    )


def _check_models(memory: Memory, *, call: bool) -> Iterator[DoctorCheck]:
    settings = memory.settings
    models = memory.services.models
    if models.main is None:
        todo = "Set model, base_url and api_key. Without a model, chat answers are limited."
        yield DoctorCheck("model", "ok", "No model is set.", todo)
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
            yield DoctorCheck(name, "ok", description, "Add --models to call it.")
            continue
        try:
            model.complete("Answer with one word.", "Say ok.", max_tokens=64)
            yield DoctorCheck(name, "ok", f"{description} answered.")
        except MemoristError as error:
            todo = "Check the model's name, the address and the key."
            yield DoctorCheck(name, "problem", f"{description}: {error}", todo)
    yield from _check_embedder(memory, call=call)


def _check_mcp_servers(memory: Memory, *, call: bool) -> Iterator[DoctorCheck]:
    """Check the MCP servers whose tools agents can use; with `call`, start them."""
    for name, server in memory.services.extra_tools.servers.items():
        check = f"MCP server {name}"
        address = urlsplit(server.url).hostname or server.command  # the rest may contain a key
        if not call:
            yield DoctorCheck(check, "ok", address, "Add --models to connect to it.")
            continue
        try:
            with McpConnections(lambda: limits.TOOL_SECONDS) as connections:
                tools = connections.tools(server)
            yield DoctorCheck(check, "ok", f"{address} offers {counted(len(tools), 'tool')}.")
        except ToolFailure as failure:
            todo = "Check mcp_servers in the settings; run the command yourself to see its output."
            yield DoctorCheck(check, "problem", str(failure), todo)


def _check_embedder(memory: Memory, *, call: bool) -> Iterator[DoctorCheck]:
    embedder = memory.services.embedder
    if embedder is None:
        yield DoctorCheck("embedder", "ok", "None: search uses words only.")
        return
    if isinstance(embedder, ServiceEmbedder) and not call:
        message = f"The service's model {embedder.model}."
        yield DoctorCheck("embedder", "ok", message, "Add --models to call it.")
        return
    try:
        dimensions = len(embed_texts(embedder, ["hello"])[0])
    except MemoristError as error:
        todo = "Check embedding_base_url and its key."
        yield DoctorCheck("embedder", "problem", str(error), todo)
        return
    yield DoctorCheck("embedder", "ok", f"{embedder.identity}, {dimensions} dimensions.")
    if memory.database.version() != memory.migrations[-1].number:
        return
    lags = [lag(memory.services, tenant) for tenant in memory.tenants()]
    pending = sum(item.pending for item in lags)
    seconds = max((item.seconds for item in lags), default=0.0)
    is_late = pending > 0 and seconds > WARN_LAG_SECONDS
    todo = "Run `memorist serve` or `memorist jobs --every 5 --all-tenants`." if is_late else ""
    message = "All texts have a vector."
    if pending:
        message = f"{counted(pending, 'text')} without a vector, the oldest for {seconds:.0f} s."
    yield DoctorCheck("vectors", "warning" if is_late else "ok", message, todo)


def _check_server(settings: Settings, database: str, named_url: str | None) -> DoctorCheck:
    """Check the server that the user named, or the program that listens on the configured port."""
    url = _local_url(settings) if named_url is None else named_url.rstrip("/")
    if named_url is None and not _is_listening(settings):
        return DoctorCheck(
            "server", "ok", f"No server is running at {url}.", "Run `memorist serve`."
        )
    # Any program may listen on the port: the key is only for a server that the user named.
    key = "" if named_url is None else os.environ.get(KEY_VARIABLE, "")
    try:
        response = _get(f"{url}/readyz", {})
        if response.status >= 400 and "problem" in response.headers.get("content-type", ""):
            return DoctorCheck(
                "server", "problem", f"The server at {url} is not ready.", "See its log."
            )
        if response.status < 300 and json.loads(response.body) == {"status": "ok"}:
            return _check_served_database(url, database, key)
    except (http.RequestFailed, ValueError):
        pass
    if named_url is not None:
        return DoctorCheck(
            "server", "problem", f"There is no memorist server at {url}.", "Correct --url."
        )
    message = f"Another program listens on port {settings.port}."
    return DoctorCheck("server", "warning", message, "Set another `port`.")


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


def _get(url: str, headers: Mapping[str, str]) -> http.Response:
    """Read a URL of a server. A redirect is not followed: the key is not for another address."""
    request = http.OutgoingRequest(
        "GET", url, headers, max_response_bytes=MAX_STATUS_BYTES, allow_private=True
    )
    return http.send(request, SERVER_SECONDS)


def _check_served_database(url: str, database: str, key: str) -> DoctorCheck:
    """Compare the database of a server that is ready with the database in the settings."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        response = _get(f"{url}/api/status", headers)
        served = str(json.loads(response.body)["database"]) if response.status < 300 else ""
    except (http.RequestFailed, ValueError, LookupError, TypeError):
        served = ""
    if not served:
        todo = (
            f"To see which database it serves, set {KEY_VARIABLE} to an admin key "
            f"and add --url {url}, which sends the key there."
        )
        return DoctorCheck("server", "ok", f"The server at {url} is ready.", todo)
    if database and served != database:
        message = f"The server at {url} serves another database: {served}."
        return DoctorCheck("server", "warning", message, f"The settings here name {database}.")
    return DoctorCheck("server", "ok", f"The server at {url} is ready and serves {served}.")


COMMANDS = (
    Command(
        "doctor",
        doctor,
        "memorist doctor\n  memorist doctor --models --json\n  memorist doctor --backup monday.db",
        (),
        {
            "--backup": {
                "metavar": "FILE",
                "type": Path,
                "help": "check only this file that `memorist backup` wrote, and the files beside it",
            },
            "--models": {
                "action": "store_true",
                "help": "also call each model once with a few tokens, which may cost money, and connect "
                "to the MCP servers of agents",
            },
            "--url": {
                "metavar": "URL",
                "help": "check this server, with the key in MEMORIST_KEY, instead of the local port",
            },
        },
    ),
)
