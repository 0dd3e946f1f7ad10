"""Commands for operators: migration, verification, export, retention, erasure, backup, settings.

They are no verbs: they concern the whole database, its file or the settings, or ask before they act.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from memorist.admin.users import Users
from memorist.base.errors import Invalid
from memorist.base.settings import FIELDS, Settings
from memorist.base.verbs import declared_verb
from memorist.cli.command import (
    ALL_TENANTS,
    Arguments,
    Command,
    add_to_audit_log,
    audited,
    load_settings,
    naming,
    open_memory,
    tenants,
)
from memorist.cli.options import PROJECT_OPTION, SCOPE
from memorist.cli.output import print_table, progress, show
from memorist.coding_agents.hook_log import last_calls
from memorist.jobs.reindex import catch_up
from memorist.memory import Memory
from memorist.models.model import list_models
from memorist.storage import design_views, migrate
from memorist.storage.connect import liquibase_changelog
from memorist.storage.files import umask, writing
from memorist.storage.transfer.erase import AgentReceipt, Receipt, rewrite


def status(arguments: Arguments) -> int:
    """Show the status, and the newest calls of hooks on this machine, which no verb knows."""
    with open_memory(arguments) as memory:
        result = memory.status.get()
    hooks = last_calls()
    if arguments.json:
        show({**vars(result), "hooks": hooks}, json_wanted=True)
        return 0
    show(result, json_wanted=False)
    if hooks:
        print("\nNewest calls of the hooks of coding agents:")
        names = ("at", "host", "event", "project", "result")
        print_table(names, [[str(call.get(name, "")) for name in names] for call in hooks])
    return 0


def migrate_status(arguments: Arguments) -> int:
    """List the migrations."""
    with open_memory(arguments, migrate_up=False) as memory:
        current = migrate.check(memory.database, memory.migrations)
        rows = [
            (
                f"{migration.number:04}",
                migration.name,
                "applied" if migration.number <= current else "waiting",
            )
            for migration in memory.migrations
        ]
    if arguments.json:
        migrations = [dict(zip(("number", "name", "state"), row, strict=True)) for row in rows]
        show({"version": current, "migrations": migrations}, json_wanted=True)
    else:
        print_table(("number", "name", "state"), rows)
    return 0


def migrate_up(arguments: Arguments) -> int:
    """Apply missing migrations, or print their SQL."""
    with open_memory(arguments, migrate_up=False, create=True) as memory:
        if arguments.sql:
            return _print_sql(
                memory, migrate.due_up(memory.database, memory.migrations, arguments.to), up=True
            )
        applied = migrate.up(memory.database, memory.migrations, arguments.to)
        layout = ""
        if memory.database.version() == memory.migrations[-1].number:
            layout = memory.database.distribute()
            with progress("indexing") as bar:
                catch_up(memory.services, bar, wait=True)
        return _report_migrations(memory, applied, arguments, "applied", layout)


def migrate_down(arguments: Arguments) -> int:
    """Revert migrations, or print their SQL."""
    with open_memory(arguments, migrate_up=False) as memory:
        to = max(0, memory.database.version() - 1) if arguments.to is None else arguments.to
        due = migrate.due_down(memory.database, memory.migrations, to)
        if arguments.sql:
            return _print_sql(memory, due, up=False)
        names = ", ".join(migration.name for migration in due) or "nothing"
        _confirm(
            arguments,
            f"This reverts {names} in {memory.database.name} and deletes their data.",
        )
        return _report_migrations(
            memory, migrate.down(memory.database, memory.migrations, to), arguments, "reverted"
        )


def migrate_views(arguments: Arguments) -> int:
    """Create or drop the views of earlier designs, or print their SQL."""
    designs = arguments.design or ()
    with open_memory(arguments, migrate_up=not arguments.sql) as memory:
        store = memory.database.views
        if arguments.sql:
            print(design_views.script(store, designs), end="")
            return 0
        if arguments.drop:
            dropped = design_views.drop(store)
            result: Any = {"dropped": dropped}
            rows = [(view.design, view.name, view.address, "dropped") for view in dropped]
        else:
            created = design_views.create(store, designs)
            result = created
            rows = [(view.design, view.name, view.address, "created") for view in created.views]
            rows += [(view.design, view.name, "", view.reason) for view in created.skipped]
    if arguments.json:
        show(result, json_wanted=True)
    else:
        print_table(("design", "table", "view", "result"), rows)
    return 0


def migrate_liquibase(arguments: Arguments) -> int:
    """Write a changelog with every migration and its rollback."""
    text = liquibase_changelog(load_settings(arguments))
    if arguments.file == "-":
        print(text, end="")
        return 0
    path = Path(arguments.file)
    with writing(path, replace=True, mode=0o666 & ~umask()) as file:
        file.write(text.encode())
    show(
        {"file": str(path), "changesets": text.count("\n--changeset ")}, json_wanted=arguments.json
    )
    return 0


def verify(arguments: Arguments) -> int:
    """Check order, references, indexes and isolation."""
    next_check = arguments.start
    with open_memory(arguments, migrate_up=False) as memory, progress("verifying") as bar:

        def show_progress(done: int, total: int) -> None:
            nonlocal next_check
            next_check = max(arguments.start, done + 1)
            bar(done, total)

        try:
            findings = memory.verify(start=arguments.start, progress=show_progress)
        except KeyboardInterrupt:
            print(
                f"Interrupted. To continue: memorist verify --start {next_check}", file=sys.stderr
            )
            raise
    failed = [finding for finding in findings if not finding.ok]
    if arguments.json:
        show({"ok": not failed, "checks": findings}, json_wanted=True)
    else:
        print_table(
            ("check", "result"), [(finding.check, finding.problem or "ok") for finding in findings]
        )
        if failed:
            count = f"{len(failed)} of {len(findings)}"
            print(f"{count} checks failed. See docs/guides/operations.md.")
        else:
            print(f"All {len(findings)} checks passed.")
    return 1 if failed else 0


def export(arguments: Arguments) -> int:
    """Write an export; the file appears only when it is complete."""
    if arguments.file != "-" and Path(arguments.file).exists():
        problem = f"{arguments.file} already exists; an export never overwrites a file"
        raise Invalid(field="file", problem=problem)
    with open_memory(arguments) as memory, progress("exporting") as bar:
        chosen: dict[str, Any] = {
            "tenants": tenants(arguments, memory),
            "user": arguments.user,
            "progress": bar,
        }
        subject = "" if arguments.user is None else f"users {arguments.user}"
        out = sys.stdout.buffer if arguments.file == "-" else arguments.file
        with naming(arguments.file), writing(out) as file:
            # Only now: a file that cannot be written is refused before.
            add_to_audit_log(memory, chosen["tenants"] or memory.tenants(), "export", subject)
            copied = memory.export(file, **chosen)
        if arguments.file == "-":
            return 0
    show({"file": arguments.file, "rows": copied.rows}, json_wanted=arguments.json)
    return 0


def reindex(arguments: Arguments) -> int:
    """Complete the search index."""
    with open_memory(arguments) as memory, progress("indexing") as bar:
        result = memory.reindex(tenants=tenants(arguments, memory), progress=bar)
    show(result, json_wanted=arguments.json)
    return 0


def purge(arguments: Arguments) -> int:
    """Remove old messages, unused checkpoint threads, old events and what has expired."""
    with open_memory(arguments) as memory, progress("purging") as bar:
        if arguments.days is None and not memory.settings.retention_days:
            print(
                "Neither --days nor retention_days is set: messages and checkpoint threads are kept.",
                file=sys.stderr,
            )
        chosen = tenants(arguments, memory)
        # On a full disk, an audit entry can only be written after space was freed.
        purged_memory = memory
        if not arguments.emergency:
            purged_memory = audited(memory, memory.settings.tenant, "purge")
        result = purged_memory.purge(
            days=arguments.days, tenants=chosen, emergency=arguments.emergency, progress=bar
        )
        if arguments.emergency:
            add_to_audit_log(memory, chosen or memory.tenants(), "purge", "emergency")
    show(result, json_wanted=arguments.json)
    return 0


def models(arguments: Arguments) -> int:
    """List the models of the service in the settings. It needs no database, unlike the verb."""
    names = list_models(load_settings(arguments))
    if arguments.json:
        show({"models": names}, json_wanted=True)
    else:
        print_table(("name",), [(name,) for name in names])
    return 0


def erase(arguments: Arguments) -> int:
    """Erase a user or an agent, after a confirmation: verbs do not ask."""
    if bool(arguments.user) == bool(arguments.agent):
        problem = "is required: the user to erase, such as --user ada, or an agent: --agent scout"
        raise Invalid(field="user", problem=problem)
    with open_memory(arguments) as memory:
        tenant = arguments.tenant or memory.settings.tenant
        warning = f"This permanently removes all data of user {arguments.user} of tenant {tenant}."
        if arguments.agent:
            warning = (
                f"This permanently removes agent {arguments.agent} of tenant {tenant} with its "
                "entries, notes and sessions."
            )
        plan = memory.database.plan_rewrite() if arguments.compact else ""
        _confirm(arguments, f"{warning} {plan}".rstrip())
        if plan and arguments.yes:
            print(plan, file=sys.stderr)
        verb = declared_verb(Users.erase_agent if arguments.agent else Users.erase)
        users = audited(memory, tenant, verb.name).scope(tenant=tenant).admin.users
        receipt: Receipt | AgentReceipt
        if arguments.agent:
            receipt = users.erase_agent(arguments.agent)
        else:
            receipt = users.erase(arguments.user)
        try:
            if arguments.compact:
                with progress("rewriting tables") as bar:
                    receipt = rewrite(memory.database, memory.services.blobs, receipt, bar)
        finally:  # the rows are erased, even if the tables cannot be rewritten now
            show(receipt, json_wanted=arguments.json)
    return 0


def backup(arguments: Arguments) -> int:
    """Copy the database."""
    with open_memory(arguments) as memory:
        memory.backup(arguments.file, damaged=arguments.damaged)
    show(
        {"backup": str(arguments.file), "bytes": arguments.file.stat().st_size},
        json_wanted=arguments.json,
    )
    return 0


def config_show(arguments: Arguments) -> int:
    """Show the settings without their secrets."""
    settings = load_settings(arguments, **{name: getattr(arguments, name) for name in SCOPE})
    rows = [
        (f.name, settings.shown(f.name), settings.origins.get(f.name, "default")) for f in FIELDS
    ]
    if arguments.json:
        show(
            {name: {"value": value, "from": origin} for name, value, origin in rows},
            json_wanted=True,
        )
    else:
        print_table(("setting", "value", "from"), rows)
    return 0


def config_example(arguments: Arguments) -> int:
    """Print a settings file."""
    print(Settings.example(), end="")
    return 0


def _print_sql(memory: Memory, due: list[migrate.Migration], *, up: bool) -> int:
    for migration in due:
        print(f"begin;\n{memory.database.script(migration.step(up=up))}commit;\n")
    if not due:
        print("-- Nothing to do.")
    return 0


def _report_migrations(
    memory: Memory,
    migrations: list[migrate.Migration],
    arguments: Arguments,
    action: str,
    layout: str = "",
) -> int:
    current = memory.database.version()
    if arguments.json:
        show(
            {"version": current, "migrations": [migration.number for migration in migrations]},
            json_wanted=True,
        )
        return 0
    for migration in migrations:
        print(f"{migration.number:04} {migration.name} {action}")
    print(f"{memory.database.name} is at schema {current}.")
    if layout:
        print(layout)
    return 0


def _confirm(arguments: Arguments, warning: str) -> None:
    """Ask for confirmation unless --yes is given."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(
            field="--yes",
            problem=f"is required without a terminal. {warning.removesuffix('.')}",
        )
    print(warning, file=sys.stderr)
    try:
        answer = input("Type yes to continue: ")
    except EOFError:
        answer = ""
    if answer.strip().lower() != "yes":
        raise KeyboardInterrupt


_FLAG: dict[str, Any] = {"action": "store_true"}
_YES = {"--yes": {**_FLAG, "help": "do not ask for confirmation"}}
_MIGRATE: dict[str, dict[str, Any]] = {
    "--to": {"type": int, "metavar": "N", "help": "stop at this version"},
    "--sql": {**_FLAG, "help": "print the SQL and change nothing"},
}
ERASE_DETAILS = """\
This permanently removes everything that belongs to the user: sessions with their messages and
summaries, notes, entries, references, documents, state, graph, items and model calls, and their
search index. Data of other users and data that belongs to no user stay. Earlier backups and exports
still contain the data: delete them or make new ones.

The command asks for confirmation. The receipt has the number of removed rows per table. To keep a
copy, run `memorist export FILE --user NAME` first.

With `--agent NAME` instead of `--user`, it removes that agent with its entries, notes and sessions of
all users. Messages that it wrote in sessions of other agents stay.

On PostgreSQL, deleted rows stay in the data files until the server overwrites them. `--compact` then
rewrites all tables, and locks each one for all tenants meanwhile. The receipt says what remains, such as
the write-ahead log. Repeat the command with `--compact` for a user who was erased before. On SQLite, an
erasure leaves nothing in the file."""

COMMANDS = (
    Command(
        "status",
        status,
        "memorist status",
        arguments=PROJECT_OPTION,
    ),
    Command(
        "migrate status",
        migrate_status,
        "memorist migrate status",
    ),
    Command(
        "migrate up",
        migrate_up,
        "memorist migrate up --sql",
        (),
        _MIGRATE,
    ),
    Command(
        "migrate down",
        migrate_down,
        "memorist migrate down --sql",
        (),
        {**_MIGRATE, **_YES},
    ),
    Command(
        "migrate views",
        migrate_views,
        "memorist migrate views",
        (),
        {
            "--design": {
                "action": "append",
                "metavar": "NAME",
                "help": "only this design, such as langchain; may be repeated (default: all)",
            },
            "--drop": {**_FLAG, "help": "drop all views"},
            "--sql": {**_FLAG, "help": "print the SQL and change nothing"},
        },
    ),
    Command(
        "migrate liquibase",
        migrate_liquibase,
        "memorist migrate liquibase changelog.sql",
        (),
        {"file": {"metavar": "FILE", "help": "a file, or - for standard output"}},
    ),
    Command(
        "verify",
        verify,
        "memorist verify",
        arguments={
            "--start": {
                "type": int,
                "default": 1,
                "metavar": "N",
                "help": "begin with check N, to continue an interrupted run",
            }
        },
    ),
    Command(
        "export",
        export,
        "memorist export memory.jsonl --user ada",
        ("tenant", "user"),
        {"file": {"metavar": "FILE", "help": "a file, or - for standard output"}, **ALL_TENANTS},
    ),
    Command(
        "reindex",
        reindex,
        "memorist reindex --all-tenants",
        ("tenant",),
        ALL_TENANTS,
    ),
    Command(
        "purge",
        purge,
        "memorist purge --days 90",
        ("tenant",),
        {
            "--days": {
                "type": float,
                "metavar": "N",
                "help": "remove messages older than N days, and checkpoint threads unused for so long (default: the setting retention_days)",
            },
            "--emergency": {**_FLAG, "help": "for a full disk: free the reserve file first"},
            **ALL_TENANTS,
        },
    ),
    Command(
        "erase",
        erase,
        "memorist erase --user ada --yes",
        ("tenant", "user", "agent"),
        {
            "--compact": {
                **_FLAG,
                "help": "then rewrite all tables, so that PostgreSQL's data files have no erased data",
            },
            **_YES,
        },
        details=ERASE_DETAILS,
    ),
    Command(
        "backup",
        backup,
        "memorist backup memorist-monday.db",
        (),
        {
            "file": {"metavar": "FILE", "type": Path},
            "--damaged": {
                **_FLAG,
                "help": "copy the database although it is damaged, and do not check it",
            },
        },
    ),
    Command(
        "models",
        models,
        "memorist models --set base_url=http://localhost:11434/v1",
        (),
    ),
    Command(
        "config show",
        config_show,
        "memorist config show",
        SCOPE,
    ),
    Command(
        "config example",
        config_example,
        "memorist config example > memorist.yaml",
    ),
)
