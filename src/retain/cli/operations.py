"""The commands for whoever runs retain: migrations, checks, copies, retention, erasure, settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from retain.api.rendering import progress, show, table
from retain.api.status import status as status_of
from retain.base.errors import Invalid
from retain.base.settings import FIELDS, Settings
from retain.cli import (
    audit,
    chat,
    context,
    doctor,
    importing,
    jobs,
    keys,
    knowledge,
    mcp,
    run,
    search,
    serve,
)
from retain.cli.command import (
    EVERY,
    Arguments,
    Command,
    add_to_audit_log,
    audited,
    open_memory,
    tenants,
)
from retain.jobs.reindex import catch_up
from retain.memory import Memory
from retain.storage import migrate


def status(arguments: Arguments) -> int:
    """Count what there is and what is due."""
    with open_memory(arguments) as memory:
        shown = status_of(memory)
    show(shown, json_wanted=arguments.json)
    return 0


def migrate_status(arguments: Arguments) -> int:
    """List the migrations."""
    with open_memory(arguments, migrate_up=False) as memory:
        found = migrate.check(memory.database, memory.migrations)
        rows = [
            (f"{m.number:04}", m.name, "applied" if m.number <= found else "waiting")
            for m in memory.migrations
        ]
    if arguments.json:
        listed = [dict(zip(("number", "name", "state"), row, strict=True)) for row in rows]
        show({"version": found, "migrations": listed}, json_wanted=True)
    else:
        table(("number", "name", "state"), rows)
    return 0


def migrate_up(arguments: Arguments) -> int:
    """Apply what is missing, or print it."""
    with open_memory(arguments, migrate_up=False, create=True) as memory:
        if arguments.sql:
            return _print_sql(
                memory, migrate.due_up(memory.database, memory.migrations, arguments.to), up=True
            )
        done = migrate.up(memory.database, memory.migrations, arguments.to)
        if memory.database.version() == memory.migrations[-1].number:
            memory.database.refit()
            with progress("indexing") as bar:
                catch_up(memory.services, bar)
        return _say_done(memory, done, arguments, "applied")


def migrate_down(arguments: Arguments) -> int:
    """Take migrations back, or print how."""
    with open_memory(arguments, migrate_up=False) as memory:
        to = max(0, memory.database.version() - 1) if arguments.to is None else arguments.to
        due = migrate.due_down(memory.database, memory.migrations, to)
        if arguments.sql:
            return _print_sql(memory, due, up=False)
        names = ", ".join(migration.name for migration in due) or "nothing"
        _ask(
            arguments,
            f"This takes back {names} in {memory.database.name} and deletes what it held.",
        )
        return _say_done(
            memory, migrate.down(memory.database, memory.migrations, to), arguments, "taken back"
        )


def verify(arguments: Arguments) -> int:
    """Run every check."""
    with open_memory(arguments, migrate_up=False) as memory:
        findings = memory.verify()
    wrong = [finding for finding in findings if not finding.ok]
    if arguments.json:
        show({"ok": not wrong, "checks": findings}, json_wanted=True)
    else:
        table(
            ("check", "result"), [(finding.check, finding.problem or "ok") for finding in findings]
        )
        all_well = f"All {len(findings)} checks are well."
        some_not = f"{len(wrong)} of {len(findings)} checks found something; docs/guides/operations.md says what to do."
        print(some_not if wrong else all_well)
    return 1 if wrong else 0


def export(arguments: Arguments) -> int:
    """Write an export; a file appears only when it is whole."""
    with open_memory(arguments) as memory, progress("exporting") as bar:
        chosen: dict[str, Any] = {
            "tenants": tenants(arguments, memory),
            "user": arguments.user,
            "progress": bar,
        }
        about = "" if arguments.user is None else f"users {arguments.user}"
        add_to_audit_log(memory, chosen["tenants"] or memory.tenants(), "export", about)
        if arguments.file == "-":
            memory.export(sys.stdout.buffer, **chosen)
            return 0
        done = memory.export(arguments.file, **chosen)
    show({"file": arguments.file, "rows": done.rows}, json_wanted=arguments.json)
    return 0


def reindex(arguments: Arguments) -> int:
    """Fill the index."""
    with open_memory(arguments) as memory, progress("indexing") as bar:
        done = memory.reindex(tenants=tenants(arguments, memory), progress=bar)
    show(done, json_wanted=arguments.json)
    return 0


def purge(arguments: Arguments) -> int:
    """Apply retention."""
    with open_memory(arguments) as memory, progress("purging") as bar:
        if arguments.days is None and not memory.settings.retention_days:
            print(
                "No --days and no retention_days: only expired state and unused contents are removed.",
                file=sys.stderr,
            )
        chosen = tenants(arguments, memory)
        # A full disk takes no row before it has room for one.
        purging = (
            memory if arguments.emergency else audited(memory, memory.settings.tenant, "purge")
        )
        done = purging.purge(
            days=arguments.days, tenants=chosen, emergency=arguments.emergency, progress=bar
        )
        if arguments.emergency:
            add_to_audit_log(memory, chosen or memory.tenants(), "purge", "emergency")
    show(done, json_wanted=arguments.json)
    return 0


def erase(arguments: Arguments) -> int:
    """Erase one user."""
    if not arguments.user:
        raise Invalid(field="user", problem="is needed: whom to erase, as in --user ada")
    with open_memory(arguments) as memory:
        tenant = arguments.tenant or memory.settings.tenant
        _ask(
            arguments,
            f"This removes everything of user {arguments.user} of tenant {tenant} for good.",
        )
        receipt = audited(memory, tenant, "users_erase").erase(arguments.user, tenant=tenant)
    show(receipt, json_wanted=arguments.json)
    return 0


def backup(arguments: Arguments) -> int:
    """Copy the database."""
    with open_memory(arguments) as memory:
        memory.backup(arguments.file)
    show(
        {"backup": str(arguments.file), "bytes": arguments.file.stat().st_size},
        json_wanted=arguments.json,
    )
    return 0


def config_show(arguments: Arguments) -> int:
    """Show the settings without their secrets."""
    flags = {name: getattr(arguments, name) for name in ("database", "tenant", "user", "agent")}
    settings = Settings.load(arguments.config, **flags)
    rows = [
        (f.name, settings.shown(f.name), settings.origins.get(f.name, "default")) for f in FIELDS
    ]
    if arguments.json:
        show(
            {name: {"value": value, "from": origin} for name, value, origin in rows},
            json_wanted=True,
        )
    else:
        table(("setting", "value", "from"), rows)
    return 0


def config_example(arguments: Arguments) -> int:
    """Print a settings file."""
    print(Settings.example(), end="")
    return 0


_FLAG: dict[str, Any] = {"action": "store_true"}
_YES = {"--yes": {**_FLAG, "help": "do not ask"}}
_STEPS: dict[str, dict[str, Any]] = {
    "--to": {"type": int, "metavar": "N", "help": "stop at this version"},
    "--sql": {**_FLAG, "help": "print the statements and run nothing"},
}
_FILE: dict[str, dict[str, Any]] = {"file": {"metavar": "FILE", "type": Path}}
_DAYS: dict[str, dict[str, Any]] = {
    "--days": {
        "type": float,
        "metavar": "N",
        "help": "messages older than this (default: retention_days)",
    },
    "--emergency": {**_FLAG, "help": "for a full disk: give up the reserve file first"},
}
COMMANDS = (
    Command("status", status, "What database this is, and how much is in it.", "retain status"),
    Command("migrate status", migrate_status, "Which migrations are applied and which wait.", "retain migrate status"),
    Command("migrate up", migrate_up, "Make the database, or apply what it misses.", "retain migrate up --sql", (), _STEPS),
    Command(
        "migrate down",
        migrate_down,
        "Take back the newest migrations; what they held is lost.",
        "retain migrate down --sql",
        (),
        {**_STEPS, **_YES},
    ),
    Command("doctor", doctor.doctor, doctor.ABOUT, doctor.EXAMPLE, (), doctor.ARGUMENTS),
    Command("verify", verify, "Prove that order, references, indexes and isolation are whole.", "retain verify"),
    Command(
        "export",
        export,
        "Write a tenant's memory, or one user's, as JSON Lines.",
        "retain export memory.jsonl --user ada",
        ("tenant", "user"),
        {"file": {"metavar": "FILE", "help": "where to, or - for standard output"}, **EVERY},
    ),
    Command("import", importing.import_, importing.ABOUT, importing.EXAMPLE, ("tenant", "user", "agent"),
            importing.ARGUMENTS),
    Command("reindex", reindex, "Put into the search index what it lacks; `verify` says whether it lacks something.",
            "retain reindex --all-tenants", ("tenant",), EVERY),
    Command("purge", purge, "Remove old messages and expired state, in small batches.", "retain purge --days 90",
            ("tenant",), {**_DAYS, **EVERY}),
    Command("erase", erase, "Remove everything of one user, with a receipt.", "retain erase --user ada --yes",
            ("tenant", "user"), _YES),
    Command("backup", backup, "Write a consistent copy while it is in use.", "retain backup retain-monday.db", (), _FILE),
    Command("jobs", jobs.jobs, jobs.ABOUT, jobs.EXAMPLE, ("tenant",), jobs.ARGUMENTS),
    Command("context", context.context, context.ABOUT, context.EXAMPLE, ("tenant", "user", "agent"), context.ARGUMENTS),
    Command("search", search.search, search.ABOUT, search.EXAMPLE, ("tenant", "user", "agent"), search.ARGUMENTS),
    Command("knowledge add", knowledge.add, knowledge.ABOUT, knowledge.EXAMPLE, ("tenant", "user", "agent"),
            knowledge.ARGUMENTS),
    Command("knowledge search", knowledge.find, knowledge.FIND_ABOUT, knowledge.FIND_EXAMPLE, ("tenant", "user", "agent"),
            knowledge.FIND_ARGUMENTS),
    Command("chat", chat.chat, chat.ABOUT, chat.EXAMPLE, ("tenant", "user", "agent"), chat.ARGUMENTS),
    Command("mcp", mcp.mcp, mcp.ABOUT, mcp.EXAMPLE, ("tenant", "user", "agent"), mcp.ARGUMENTS),
    Command("run", run.run, run.ABOUT, run.EXAMPLE, ("tenant", "user", "agent"), run.ARGUMENTS),
    Command("serve", serve.serve, serve.ABOUT, serve.EXAMPLE, (), serve.ARGUMENTS),
    Command("keys create", keys.create, keys.CREATE, keys.CREATE_EXAMPLE, ("tenant", "user", "agent"),
            keys.CREATE_ARGUMENTS),
    Command("keys list", keys.list_, keys.LIST, keys.LIST_EXAMPLE, ("tenant",), keys.LIST_ARGUMENTS),
    Command("audit", audit.audit, audit.ABOUT, audit.EXAMPLE, ("tenant",), audit.ARGUMENTS),
    Command("keys revoke", keys.revoke, keys.REVOKE, keys.REVOKE_EXAMPLE, ("tenant",), keys.REVOKE_ARGUMENTS),
    Command("config show", config_show, "Every setting, its value and where it came from.", "retain config show",
            ("tenant", "user", "agent")),
    Command("config example", config_example, "A settings file with every default.", "retain config example > retain.yaml"),
)  # fmt: skip
GROUPS = {
    "migrate": "The schema: where it is, and moving it up or down.",
    "keys": keys.GROUP,
    "config": "The settings: what they are and where each came from.",
}


def _print_sql(memory: Memory, due: list[migrate.Migration], *, up: bool) -> int:
    for migration in due:
        print(f"begin;\n{memory.database.script(migration.step(up=up))}commit;\n")
    if not due:
        print("-- There is nothing to do.")
    return 0


def _say_done(
    memory: Memory, done: list[migrate.Migration], arguments: Arguments, what: str
) -> int:
    found = memory.database.version()
    if arguments.json:
        show(
            {"version": found, "migrations": [migration.number for migration in done]},
            json_wanted=True,
        )
        return 0
    for migration in done:
        print(f"{migration.number:04} {migration.name} {what}")
    print(f"{memory.database.name} is at schema {found}.")
    return 0


def _ask(arguments: Arguments, warning: str) -> None:
    """Go on only with a yes: from a flag, or from a person."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(
            field="--yes",
            problem=f"is needed, because nobody is here to ask. {warning.removesuffix('.')}",
        )
    print(warning, file=sys.stderr)
    try:
        answer = input("Type yes to go on: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        raise KeyboardInterrupt
