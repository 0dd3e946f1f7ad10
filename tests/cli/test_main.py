"""The command line: output and exit statuses; as a process where that matters."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memorist import Memory
from memorist.api.endpoints import ENDPOINTS, KIND_HELP
from memorist.cli.main import COMMANDS, main
from memorist.kinds import KINDS
from memorist.storage.migrate import shipped
from testkit import pdfs
from testkit.commands import BOTH, Run, answer
from testkit.databases import SETTINGS
from testkit.model_service import FakeService

NEWEST = shipped("sqlite")[-1].number


def test_every_example_works(run: Run, tmp_path: Path) -> None:
    """Each line of `--help`, in order, on an empty database."""
    (tmp_path / "turns.jsonl").write_text(
        '{"role": "assistant", "content": "Lisbon"}\n\n{"role": "user", "content": "Yes"}\n'
    )
    (tmp_path / "scout.json").write_text('[{"id": "0199…", "content": "Ada likes trains."}]')
    (tmp_path / "handbook.pdf").write_bytes(pdfs.pdf("Reset the router with a pin."))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "router.md").write_text("# Router\n\nReset it.")
    run('memorist refs add "npm ERR! peer dependency" "an install" --key npm-install-7f3a09c1')
    run("memorist entries add-many scout.json --agent scout")
    (tmp_path / "scout.json").write_text('[{"content": "Ada likes trains."}]')
    last = {f"{kind} remove" for kind in ("agents", "sessions", "state", "refs", "entries")}
    last |= {"entries remove-many"}
    not_made_by_a_command = {
        *(f"consolidations {verb}" for verb in ("get", "accept", "refuse", "undo")),
        *(f"facts {verb}" for verb in ("get", "history", "correct", "retract", "confirm")),
        *(f"facts {verb}" for verb in ("undo", "forget")),
        *(f"documents {verb}" for verb in ("get", "text", "passages", "remove")),
        "turns get",
    }
    for endpoint in sorted(ENDPOINTS, key=lambda endpoint: endpoint.command in last):
        command = endpoint.example.rpartition("| ")[2].partition(" > ")[
            0
        ]  # shell syntax is not ours
        done = run(
            command,
            stdin="npm ERR!",
            MEMORIST_SUMMARY_MODEL="extractive",
            MEMORIST_SUMMARY_KEEP_LAST="1",
        )
        if endpoint.command in not_made_by_a_command:
            assert (done.returncode, "There is no" in done.stderr) == (3, True), endpoint.example
            continue
        assert done.returncode == 0, f"{endpoint.example}: {done.stderr}"
        assert done.stdout or endpoint.command == "notes read"  # there are no notes yet
        assert "memorist:" not in done.stderr


@pytest.mark.slow_on_postgres
@BOTH
def test_a_second_process_reads_exactly_what_the_first_wrote(process: Run) -> None:
    session = answer(process("memorist sessions resume --user ada --agent scout --json"))["id"]
    process(f"memorist messages append {session} user -", stdin="Grüß\nGott 👋\n")
    (message,) = json.loads(process(f"memorist messages window {session} --json").stdout)
    assert message["content"] == {"text": "Grüß\nGott 👋"}


@pytest.mark.parametrize(
    ("command", "status", "names"),
    [
        ("sessions list", 5, "there is no file"),
        ("verify", 5, "there is no file"),
        ("status --database sqlite:///no.db", 5, "migrate up --database sqlite:///no.db"),
        ("export memorist.yaml", 2, "file: memorist.yaml"),
        ("notes diff 9 --user ada --agent scout", 3, "notes version 9"),
        ("erase --user ada --yes", 5, "there is no file"),
        ("messages window nothing", 3, "session 'nothing'"),
        ("state get nothing --user ada", 3, "state 'nothing'"),
        ("sessions resume --agent scout", 2, "user: is required"),
        ("sessions add '' --user ada --agent scout", 2, "id: must not be blank"),
        ("sessions list --limit 0", 2, "limit: must be from 1"),
        ("sessions list --limit ten", 2, "limit: must be a whole"),
        ("sessions list --after nonsense", 2, "after: is not"),
        ("state set theme dark --user ada", 2, "value: is not"),
        ("state set theme 1 --user ada --ttl -1", 2, "ttl: must be"),
        ("state set theme 1 --user ada --if-version 7", 4, "version 0, not 7"),
        ("messages append s poet hello", 2, "'poet'"),
        ("messages append s user hello --created-at 2026-01-01T00:00:00", 2, "created_at"),
        ("messages extend s missing.jsonl", 2, "missing.jsonl"),
        ("interactions add chat m --latency-ms nan", 2, "latency_ms: must be"),
        ("status --database mysql://x", 6, "database"),
        ("status --database oracle://x", 6, "oracle://USER:PASSWORD@HOST:PORT/SERVICE"),
        ("status --database sqlite:///no/such/folder/x.db", 5, "no/such/folder"),
        ("status --config missing.yaml", 6, "missing.yaml"),
        ("import missing.jsonl", 2, "file: missing.jsonl"),
        ("import .", 2, "file: . cannot be read"),
        ("export no/such/x.jsonl --all-tenants", 2, "file: no/such/x.jsonl"),
        ("erase --yes", 2, "user: is required"),
        ("erase --user ada", 2, "--yes: is required"),
        ("export - --tenant nobody", 3, "tenant 'nobody'"),
        ("export - --all-tenants --user ada", 2, "cannot be combined"),
        ("--user ada purge", 2, "--user: is not an option"),
        ("backup no/such/folder/x", 2, "create the folder no/such/folder first"),
        ("status --database foo.db", 6, "did you mean sqlite:///foo.db?"),
        ("migrate down --to 99 --yes", 2, "to: must be"),
        ("purge --days -1", 2, "days: must be"),
        ("nonsense", 2, "'nonsense'"),
        ("status --database :memory:", 6, "did you mean memory:?"),
        ("messages append nosuch user hi", 3, "`sessions add`"),
        ("refs get x --lines 5-1", 2, "lines: must be"),
        ("refs get x --tokens 0", 2, "tokens: must be"),
    ],
)
def test_errors_give_advice_and_have_their_status(
    run: Run, command: str, status: int, names: str, tmp_path: Path
) -> None:
    """The error names the field, the record or the file that is wrong."""
    if "there is no file" in names:
        (tmp_path / "agent.db").unlink()
    else:
        run("memorist migrate up")
    (tmp_path / "memorist.yaml").touch()
    done = run(command)
    assert (done.returncode, names in done.stderr) == (status, True), done.stderr
    assert not done.stdout
    assert "Traceback" not in done.stderr


def test_an_error_of_the_system_names_the_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For example a settings file that may not be read."""
    (tmp_path / "memorist.yaml").write_text("user: ada\n")

    def refuse(path: Path, **options: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    done = run("memorist status")
    assert (done.returncode, done.stderr) == (1, "memorist: memorist.yaml: Permission denied\n")


def test_every_setting_is_an_option(run: Run) -> None:
    command = "config show --set user=eve --set api-key=s=1 --user ada --json"
    values = answer(run(f"memorist --set context_tokens=9000 --set user=bob {command}"))
    shown = {name: values[name]["value"] for name in ("context_tokens", "user", "api_key")}  # type: ignore[index]
    assert shown == {"context_tokens": "9000", "user": "ada", "api_key": "***"}
    for wrong, status, says in (
        ("nonsense", 2, "--set: must be name=value"),
        ("contxt_tokens=1", 6, "did you mean context_tokens?"),
        ("workers=none", 6, "must be a number"),
        ("env=x", 6, "there is no setting env"),
        ("file=x", 6, "there is no setting file"),
        ("cls=x", 6, "there is no setting cls"),
    ):
        done = run(f"memorist status --set {wrong}")
        assert (done.returncode, says in done.stderr) == (status, True), done.stderr


def test_a_command_alone_shows_its_help(run: Run) -> None:
    for command, usage in (
        ("memorist ", "memorist [-h]"),
        ("memorist sessions", "memorist sessions [-h]"),
    ):
        done = run(command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: {usage}")


def test_an_agent_is_switched_off_and_on(run: Run) -> None:
    added = run("memorist agents add scout --no-active --model-label Small --json")
    assert json.loads(added.stdout)["active"] is False, added.stderr
    edited = json.loads(run("memorist agents edit scout --prompt p --json").stdout)
    assert (edited["active"], edited["model_label"]) == (False, "Small")
    assert json.loads(run("memorist agents edit scout --active --json").stdout)["active"]
    assert json.loads(run("memorist agents add cook --json").stdout)["active"] is True


def test_models_are_listed(run: Run) -> None:
    with FakeService() as service:
        done = run(f"memorist models --set base_url={service.url}")
        assert "fake" in done.stdout.split(), done.stderr
        listed = run(f"memorist models --set base_url={service.url} --json")
        assert json.loads(listed.stdout) == {"models": ["fake"]}
    assert run("memorist models").returncode == 7


def test_the_help_of_erase_says_what_it_does(run: Run) -> None:
    words = run("memorist erase --help").stdout
    assert "permanently removes everything that belongs to the user" in words
    assert "backups" in words
    assert "memorist export FILE --user NAME" in words


def test_errors_are_json_with_json_output(run: Run) -> None:
    run("memorist migrate up")
    done = run("memorist sessions get nothing --json")
    assert json.loads(done.stderr) == {
        "error": "NotFound",
        "message": "There is no session 'nothing'.",
        "details": {"what": "session", "id": "nothing"},
    }


@pytest.mark.slow_on_postgres
@BOTH
def test_operations(run: Run, tmp_path: Path, engine: str) -> None:
    """migrate, verify, status, export, import, purge, erase and config, in sequence."""
    assert answer(run("memorist migrate up --json"))["version"] == NEWEST
    run("memorist sessions add s --user ada --agent scout")
    run("memorist messages append s user hello")
    status = answer(run("memorist status --json"))
    assert status["rows"]["messages"] == 1  # type: ignore[index]
    assert (status["embedder"], status["vectors"]["pending"]) == ("static-256@2", 1)  # type: ignore[index]
    verified = answer(run("memorist verify --json"))
    assert verified["ok"] is True
    assert len(verified["checks"]) > 5  # type: ignore[arg-type]
    assert "All" in run("memorist verify").stdout
    assert answer(run("memorist export all.jsonl --json"))["rows"]["messages"] == 1  # type: ignore[index]
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o077 == 0
    assert run("memorist export -").stdout.encode() == (tmp_path / "all.jsonl").read_bytes()
    again = answer(run("memorist import all.jsonl --json"))
    assert again["new"] == 0
    copy = "memorist import all.jsonl --json --database sqlite:///copy.db"
    assert answer(run(copy))["new"] == 3
    assert answer(run("memorist purge --days 1 --json")) == {
        "messages": 0, "state": 0, "items": 0, "threads": 0, "events": 0, "dead_letters": 0,
        "contents": 0, "compacted": engine == "sqlite",
    }  # fmt: skip
    receipt = answer(run("memorist erase --user ada --yes --json"))
    assert receipt["removed"]["messages"] == 1  # type: ignore[index]
    repeated = run("memorist erase --user ada --compact --yes --json")
    assert answer(repeated)["compacted"] is True
    assert repeated.stderr
    assert run("memorist sessions get s").returncode == 3
    run("memorist entries add 'I like maps.' --agent scout")
    receipt = answer(run("memorist erase --agent scout --yes --json"))
    assert (receipt["agent"], receipt["removed"]["entries"]) == ("scout", 1)  # type: ignore[index]
    shown = answer(run("memorist config show --json"))
    assert shown["database"]["from"] == "MEMORIST_DATABASE"  # type: ignore[index]
    if engine == "sqlite":
        assert answer(run("memorist backup copy-of-it.db --json"))["bytes"]
        assert run("memorist backup copy-of-it.db").returncode == 2


@BOTH
def test_migrate_sql_prints_the_statements(run: Run, url: str) -> None:
    """`--sql` runs nothing and prints exactly what would run."""
    run("memorist migrate up")
    assert "create table" not in run("memorist migrate up --sql").stdout
    run("memorist migrate down --to 0 --yes")
    printed = run("memorist migrate up --sql").stdout
    assert "create table state" in printed
    assert answer(run("memorist migrate status --json"))["version"] == 0
    with Memory.open(url, settings=SETTINGS, migrate_up=False) as memory:
        assert memory.database.script(memory.migrations[0].step(up=True)) in printed
    assert "0001 baseline applied" in run("memorist migrate up").stdout
    undone = run("memorist migrate down --sql").stdout
    assert f"delete from memorist_schema where version = {NEWEST}" in undone
    assert answer(run("memorist migrate status --json"))["version"] == NEWEST


@BOTH
def test_verify_fails_on_damage(url: str, run: Run) -> None:
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.resume()
        me.messages.extend(session.id, [{"role": "user", "content": str(n)} for n in range(3)])
        memory.database.write(
            "default", lambda tx: tx.run("delete from messages where tenant = :tenant and seq = 2")
        )
    done = run("memorist verify")
    assert done.returncode == 1
    assert " of " in done.stdout
    assert session.id in done.stdout
    assert run("memorist verify --start 30").stdout
    assert "must be from 1 to" in run("memorist verify --start 1000").stderr


def test_settings_come_from_file_environment_and_flags(run: Run, tmp_path: Path) -> None:
    (tmp_path / "memorist.yaml").write_text(
        "tenant: from-file\nuser: ada\nagent: scout\nretention_days: 7\n"
    )
    run("memorist sessions add s")
    assert answer(run("memorist sessions active --json"))["user"] == "ada"
    assert answer(run("memorist sessions list --json --user bob"))["data"] == []
    assert answer(run("memorist --tenant other sessions list --json"))["data"] == []
    shown = answer(run("memorist config show --json", MEMORIST_RETENTION_DAYS="9"))
    assert shown["retention_days"] == {"value": "9", "from": "MEMORIST_RETENTION_DAYS"}
    assert shown["user"]["from"].endswith("memorist.yaml")  # type: ignore[index]
    assert run("memorist config show", MEMORIST_NONSENSE="1").returncode == 6


def test_a_password_is_never_shown(run: Run) -> None:
    secret = "postgresql://ada:hunter2@127.0.0.1:1/x"
    for command in ("memorist config show", "memorist config show --json", "memorist status"):
        done = run(
            command,
            MEMORIST_DATABASE=secret,
            MEMORIST_API_KEY="sk-proj-0123456789abcdef",
            MEMORIST_SUMMARY_API_KEY="hunter2",
        )
        assert "hunter2" not in done.stdout + done.stderr
        assert "0123456789" not in done.stdout + done.stderr


def test_stored_text_cannot_control_the_terminal(run: Run) -> None:
    run("memorist sessions add s --user ada --agent scout")
    run("memorist messages append s user -", stdin="\x1b[2J\x1b]0;owned\x07 \u202e evil")
    shown = run("memorist messages window s").stdout
    assert "evil" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@BOTH
def test_commands_default_to_one_tenant(run: Run, tmp_path: Path) -> None:
    """Purge and export cover one tenant unless all are requested."""
    for tenant in ("acme", "globex"):
        run(f"memorist sessions add s --tenant {tenant} --user ada --agent scout")
        run(
            f"memorist messages append s user {tenant}-secret --tenant {tenant} --created-at 2020-01-01T00:00:00Z"
        )
    mine = run("memorist export - --user ada", MEMORIST_TENANT="acme").stdout
    assert "acme-secret" in mine
    assert "globex" not in mine
    everybody = run("memorist export - --all-tenants").stdout
    assert "acme-secret" in everybody
    assert "globex-secret" in everybody
    assert answer(run("memorist purge --days 30 --tenant acme --json"))["messages"] == 1
    assert "globex-secret" in run("memorist messages window s --tenant globex").stdout
    assert answer(run("memorist purge --days 30 --all-tenants --json"))["messages"] == 1


def test_import_reads_a_pipe(run: Run) -> None:
    run("memorist sessions add s --user ada --agent scout")
    copy = run("memorist export -").stdout
    imported = run("memorist import - --database sqlite:///copy.db --json", stdin=copy)
    assert answer(imported)["new"] == 2


def test_output_can_be_redirected_to_a_file(run: Run) -> None:
    """Notes and values are printed verbatim; metadata goes to standard error."""
    whose = "--user ada --agent scout"
    run("memorist migrate up")
    empty = run(f"memorist notes read {whose}")
    assert (empty.stdout, empty.stderr) == ("", "(no notes yet)\n")
    run(f"memorist notes overwrite - {whose}", stdin="# Trips\n\n\t- Lisbon\r\n- Porto\n")
    done = run(f"memorist notes read {whose}")
    assert (done.stdout, done.stderr) == ("# Trips\n\n\t- Lisbon\r\n- Porto\n", "(version 1)\n")
    run("""memorist state set theme '{"dark":  1.0}' --user ada""")
    done = run("memorist state get theme --user ada")
    assert (done.stdout, done.stderr) == ('{"dark":  1.0}\n', "(version 1)\n")
    assert answer(run(f"memorist notes read {whose} --json"))["version"] == 1
    assert answer(run("memorist state get theme --user ada --json"))["value"] == {"dark": 1.0}


def test_piped_output_has_no_trailing_white_space(run: Run) -> None:
    run("memorist sessions add trip --user ada --agent scout")
    run("memorist messages append trip user short")
    run(f"memorist messages append trip user '{'long ' * 15}'")
    for command in (
        "memorist messages list trip",
        "memorist sessions list",
        "memorist sessions get trip",
        "memorist config show",
    ):
        shown = run(command).stdout.splitlines()
        assert shown
        assert [line for line in shown if line != line.rstrip()] == []


def test_raw_content_is_written_to_a_file(run: Run, url: str, tmp_path: Path) -> None:
    """Byte for byte, with `--raw` in pieces."""
    data = bytes(range(256)) * 5000
    with Memory.open(url, settings=SETTINGS) as memory:
        memory.scope().refs.add(data, "bytes", key="bytes-1")
    env = {**os.environ, "MEMORIST_DATABASE": url}
    for words in (["content", "bytes-1"], ["get", "bytes-1", "--raw"]):
        command = [sys.executable, "-m", "memorist.cli.main", "refs", *words]
        done = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path, env=env)
        assert done.stdout == data
    assert run("memorist refs get bytes-1 --raw --head 3").returncode == 2
    missing = json.loads(run("memorist refs get bytes-2 --json").stderr)
    assert (missing["error"], missing["details"]["id"]) == ("NotFound", "bytes-2")


def test_help_describes_an_option_per_kind(run: Run) -> None:
    refs, messages = (
        " ".join(run(f"memorist {endpoint} --help").stdout.split())
        for endpoint in ("refs get", "messages append")
    )
    assert "The key, as shown in the placeholder." in refs
    assert "Maximum number of tokens to show, 50 to 100000." in refs
    assert "Idempotency" not in refs
    assert "Idempotency key." in messages


def test_unmeasured_values_are_not_zero(run: Run) -> None:
    """T1."""
    run("memorist interactions add chat gpt-5-mini --tokens-in 9")
    shown = run("memorist interactions totals model").stdout.splitlines()[-1].split()
    assert shown == ["gpt-5-mini", "1", "0", "9", "–", "–", "–", "–", "–"]
    run("memorist interactions add chat other --latency-ms 0 --tokens-out 0")
    shown = run("memorist interactions totals model").stdout.splitlines()[-1].split()
    assert shown == ["other", "1", "0", "–", "0", "–", "–", "–", "–"]


def test_a_date_is_accepted_as_a_time(run: Run) -> None:
    fact = answer(run("memorist facts add 'Ada lives in Lisbon.' --user ada --json"))
    correct = f"memorist facts correct {fact['id']} 'Ada lives in Porto.' --user ada --json"
    assert "T" in answer(run(f"{correct} --since 2026-05-01"))["valid_from"]  # type: ignore[operator]


def test_help_hides_kinds_without_commands() -> None:
    command = [sys.executable, "-m", "memorist", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\n    notes " in shown
    assert "\n    graph " not in shown
    assert "\n    checkpoints " not in shown


def test_every_command_and_kind_has_its_help() -> None:
    assert [*KIND_HELP] == [kind.name for kind in KINDS]
    for module, about_by_name in COMMANDS.items():
        commands = importlib.import_module(f"memorist.cli.{module}").COMMANDS
        assert [command.name for command in commands] == [*about_by_name]


def test_a_command_of_a_missing_package_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("memorist.base.extensions.extensions", lambda group: {})
    for words in (["eval"], ["eval", "--only", "beam", "file.json"], ["eval", "--help"]):
        assert main(words) == 6
        assert "pip install 'memorist[eval]'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "eval" not in capsys.readouterr().out


def test_help_lists_the_commands_of_other_packages_without_importing_them() -> None:
    script = """
import sys
from memorist.cli.main import main
try:
    main(["--help"])
except SystemExit:
    print("memorist_eval" in sys.modules, file=sys.stderr)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\n    eval " in done.stdout
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("{} sessions list > /dev/full", 1, "No space left"),
        pytest.param("set -o pipefail; {} config example | true", 0, "", marks=pytest.mark.slow),
        pytest.param("PYTHONIOENCODING=ascii {} sessions list", 0, "", marks=pytest.mark.slow),
        *(
            pytest.param(f"{{}} sessions list {closed}", 0, "", marks=pytest.mark.slow)
            for closed in (">&-", "2>&-", "<&-", ">&- 2>&- <&-")
        ),
    ],
)
def test_a_stream_that_takes_nothing_gives_no_traceback(
    run: Run, url: str, tmp_path: Path, line: str, status: int, says: str
) -> None:
    """The database file does not take the descriptor of a closed stream either."""
    run("memorist sessions add trip --user ada --agent scout --label Grüße")
    env = {**os.environ, "MEMORIST_DATABASE": url}
    command = ["bash", "-c", line.format(f'"{sys.executable}" -m memorist.cli.main')]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env
    )
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (
        status, True, False,
    ), done.stderr  # fmt: skip
    assert says or not done.stderr
    assert answer(run("memorist verify --json"))["ok"] is True
