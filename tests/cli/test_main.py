"""The command line: output and exit statuses; as a process where that matters."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from retain import Memory
from retain.api.endpoints import ENDPOINTS, KIND_HELP
from retain.cli.main import COMMANDS
from retain.kinds import KINDS
from retain.storage.migrate import shipped
from retain.testing import FakeService
from tests.cli.commands import BOTH, Run, answer
from tests.conftest import SETTINGS
from tests.text import pdfs

NEWEST = shipped("sqlite")[-1].number


@pytest.mark.parametrize(
    "engine", ["sqlite"]
)  # tests/test_every_way.py has every verb on every engine
def test_every_example_works(run: Run, tmp_path: Path) -> None:
    """Each line of `--help`, in order, on an empty database."""
    (tmp_path / "turns.jsonl").write_text(
        '{"role": "assistant", "content": "Lisbon"}\n\n{"role": "user", "content": "Yes"}\n'
    )
    (tmp_path / "scout.json").write_text('[{"id": "0199…", "content": "Ada likes trains."}]')
    (tmp_path / "handbook.pdf").write_bytes(pdfs.pdf("Reset the router with a pin."))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "router.md").write_text("# Router\n\nReset it.")
    run('retain refs add "npm ERR! peer dependency" "an install" --key npm-install-7f3a09c1')
    run("retain entries add-many scout.json --agent scout")
    (tmp_path / "scout.json").write_text('[{"content": "Ada likes trains."}]')
    last = {
        "agents remove",
        "sessions remove",
        "state remove",
        "refs remove",
        "entries remove",
        "entries remove-many",
    }
    not_made_by_a_command = {
        *(f"consolidations {verb}" for verb in ("get", "accept", "refuse", "undo")),
        *(f"facts {verb}" for verb in ("get", "history", "correct", "retract", "confirm")),
        *(f"facts {verb}" for verb in ("undo", "forget")),
        *(f"knowledge {verb}" for verb in ("get", "text", "passages", "remove")),
        "turns get",
    }
    for endpoint in sorted(ENDPOINTS, key=lambda endpoint: endpoint.command in last):
        command = endpoint.example.rpartition("| ")[2].partition(" > ")[
            0
        ]  # shell syntax is not ours
        done = run(
            command,
            stdin="npm ERR!",
            RETAIN_SUMMARY_MODEL="extractive",
            RETAIN_SUMMARY_KEEP_LAST="1",
        )
        if endpoint.command in not_made_by_a_command:
            assert (done.returncode, "There is no" in done.stderr) == (3, True), endpoint.example
            continue
        assert done.returncode == 0, f"{endpoint.example}: {done.stderr}"
        assert done.stdout or endpoint.command == "notes read"  # there are no notes yet
        assert "retain:" not in done.stderr


@pytest.mark.slow_on_postgres
@BOTH
def test_a_second_process_reads_exactly_what_the_first_wrote(process: Run) -> None:
    session = answer(process("retain sessions resume --user ada --agent scout --json"))["id"]
    process(f"retain messages append {session} user -", stdin="Grüß\nGott 👋\n")
    (message,) = json.loads(process(f"retain messages window {session} --json").stdout)
    assert message["content"] == {"text": "Grüß\nGott 👋"}


@pytest.mark.slow_on_postgres
@BOTH
def test_a_conversation(run: Run) -> None:
    session = answer(run("retain sessions resume --user ada --agent scout --json"))
    assert (
        answer(run(f"retain sessions resume {session['id']} --user ada --agent scout --json"))["id"]
        == session["id"]
    )
    first = answer(
        run(f'retain messages append {session["id"]} user "Grüß Gott 👋" --key k --json')
    )
    assert (
        answer(run(f'retain messages append {session["id"]} user "Grüß Gott 👋" --key k --json'))
        == first
    )
    assert first["content"] == {"text": "Grüß Gott 👋"}
    run(f"retain messages append {session['id']} assistant -", stdin="two\nlines\n")
    run(f'retain messages append {session["id"]} tool \'{{"a": 1.0, "b": 1e2}}\' --as-json')
    window = run(f"retain messages window {session['id']} --last 5 --json")
    assert [message["content"] for message in json.loads(window.stdout)] == [
        {"text": "Grüß Gott 👋"},
        {"text": "two\nlines"},
        {"a": 1.0, "b": 1e2},
    ]
    page = answer(run(f"retain messages list {session['id']} --limit 2 --json"))
    rest = answer(
        run(f"retain messages list {session['id']} --limit 2 --after {page['next']} --json")
    )
    assert [m["seq"] for m in [*page["data"], *rest["data"]]] == [1, 2, 3]  # type: ignore[misc]
    assert rest["next"] is None
    shown = run(f"retain messages window {session['id']}")
    assert "Grüß Gott" in shown.stdout


@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize(
    ("command", "status", "says"),
    [
        ("retain sessions list", 5, "there is no file"),
        ("retain verify", 5, "there is no file"),
        ("retain status --database sqlite:///no.db", 5, "migrate up --database sqlite:///no.db`"),
        ("retain export retain.yaml", 2, "file: retain.yaml already exists"),
        ("retain notes diff 9 --user ada --agent scout", 3, "There is no notes version 9."),
        ("retain erase --user ada --yes", 5, "there is no file"),
        ("retain messages window nothing", 3, "no session 'nothing'"),
        ("retain state get nothing --user ada", 3, "no state 'nothing'"),
        ("retain sessions resume --agent scout", 2, "user: is required"),
        ("retain sessions add '' --user ada --agent scout", 2, "id: must not be blank"),
        ("retain sessions list --limit 0", 2, "limit: must be from 1"),
        ("retain sessions list --limit ten", 2, "limit: must be a whole number"),
        ("retain sessions list --after nonsense", 2, "after: is not a valid cursor"),
        ("retain state set theme dark --user ada", 2, "value: is not valid JSON"),
        ("retain state set theme 1 --user ada --ttl -1", 2, "ttl: must be"),
        ("retain state set theme 1 --user ada --if-version 7", 4, "version 0, not 7"),
        ("retain messages append s poet hello", 2, "invalid choice: 'poet'"),
        (
            "retain messages append s user hello --created-at 2026-01-01T00:00:00",
            2,
            "has no time zone",
        ),
        ("retain messages extend s missing.jsonl", 2, "cannot be read from missing.jsonl"),
        ("retain interactions add chat m --latency-ms nan", 2, "latency_ms: must be"),
        ("retain status --database mysql://x", 6, "is not a database address"),
        (
            "retain status --database oracle://x",
            6,
            "write oracle://USER:PASSWORD@HOST:PORT/SERVICE",
        ),
        (
            "retain status --database sqlite:///no/such/folder/x.db",
            5,
            "does not exist or cannot be entered",
        ),
        ("retain status --config missing.yaml", 6, "there is no such file"),
        ("retain import missing.jsonl", 2, "file: missing.jsonl cannot be read"),
        ("retain import .", 2, "file: . cannot be read: it is a folder"),
        (
            "retain export no/such/x.jsonl --all-tenants",
            2,
            "file: no/such/x.jsonl cannot be written",
        ),
        ("retain erase --yes", 2, "user: is required"),
        ("retain erase --user ada", 2, "--yes: is required without a terminal"),
        ("retain export - --tenant nobody", 3, "no tenant 'nobody'"),
        ("retain export - --all-tenants --user ada", 2, "cannot be combined with"),
        ("retain --user ada purge", 2, "--user: is not an option of this command"),
        ("retain backup no/such/folder/x", 2, "cannot be written"),
        ("retain status --database foo.db", 6, "did you mean sqlite:///foo.db?"),
        ("retain migrate down --to 99 --yes", 2, "to: must be a version"),
        ("retain purge --days -1", 2, "days: must be"),
        ("retain nonsense", 2, "invalid choice"),
        ("retain status --database :memory:", 6, "did you mean memory:?"),
        (
            "retain messages append nosuch user hi",
            3,
            "no session 'nosuch'. Create one with `sessions add` or `sessions resume`",
        ),
        ("retain backup no/such/folder/y", 2, "create the folder no/such/folder first"),
        (
            "retain refs get x --lines 5-1",
            2,
            "lines: must be the first and the last line, such as 1 and 40",
        ),
        ("retain refs get x --tokens 0", 2, "tokens: must be from 50 to 100000"),
    ],
)
def test_errors_give_advice_and_have_their_status(
    run: Run, command: str, status: int, says: str, tmp_path: Path
) -> None:
    if "there is no file" in says:
        (tmp_path / "agent.db").unlink()
    else:
        run("retain migrate up")
    (tmp_path / "retain.yaml").touch()
    done = run(command)
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr
    assert not done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_error_of_the_system_names_the_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """For example a settings file that may not be read."""
    (tmp_path / "retain.yaml").write_text("user: ada\n")

    def refuse(path: Path, **options: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refuse)
    done = run("retain status")
    assert (done.returncode, done.stderr) == (1, "retain: retain.yaml: Permission denied\n")


@pytest.mark.parametrize("engine", ["sqlite"])
def test_every_setting_is_an_option(run: Run) -> None:
    command = "config show --set user=eve --set api-key=s=1 --user ada --json"
    values = answer(run(f"retain --set context_tokens=9000 --set user=bob {command}"))
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
        done = run(f"retain status --set {wrong}")
        assert (done.returncode, says in done.stderr) == (status, True), done.stderr


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_command_alone_shows_its_help(run: Run) -> None:
    for command, usage in (("retain ", "retain [-h]"), ("retain sessions", "retain sessions [-h]")):
        done = run(command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"usage: {usage}")


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_agent_is_switched_off_and_on(run: Run) -> None:
    added = run("retain agents add scout --no-active --model-label Small --json")
    assert json.loads(added.stdout)["active"] is False, added.stderr
    edited = json.loads(run("retain agents edit scout --prompt p --json").stdout)
    assert (edited["active"], edited["model_label"]) == (False, "Small")
    assert json.loads(run("retain agents edit scout --active --json").stdout)["active"]
    assert json.loads(run("retain agents add cook --json").stdout)["active"] is True


@pytest.mark.parametrize("engine", ["sqlite"])
def test_models_are_listed(run: Run) -> None:
    with FakeService() as service:
        done = run(f"retain models --set base_url={service.url}")
        assert "fake" in done.stdout.split(), done.stderr
        listed = run(f"retain models --set base_url={service.url} --json")
        assert json.loads(listed.stdout) == {"models": ["fake"]}
    assert run("retain models").returncode == 7


@pytest.mark.parametrize("engine", ["sqlite"])
def test_the_help_of_erase_says_what_it_does(run: Run) -> None:
    words = run("retain erase --help").stdout
    assert "permanently removes everything that belongs to the user" in words
    assert "backups" in words
    assert "retain export FILE --user NAME" in words


@pytest.mark.parametrize("engine", ["sqlite"])
def test_errors_are_json_with_json_output(run: Run) -> None:
    run("retain migrate up")
    done = run("retain sessions get nothing --json")
    assert json.loads(done.stderr) == {
        "error": "NotFound",
        "message": "There is no session 'nothing'.",
        "details": {"what": "session", "id": "nothing"},
    }


@pytest.mark.slow_on_postgres
@BOTH
def test_operations(run: Run, tmp_path: Path, engine: str) -> None:
    """migrate, verify, status, export, import, purge, erase and config, in sequence."""
    assert answer(run("retain migrate up --json"))["version"] == NEWEST
    run("retain sessions add s --user ada --agent scout")
    run("retain messages append s user hello")
    status = answer(run("retain status --json"))
    assert status["rows"]["messages"] == 1  # type: ignore[index]
    assert (status["embedder"], status["vectors"]["pending"]) == ("static-256@2", 1)  # type: ignore[index]
    verified = answer(run("retain verify --json"))
    assert verified["ok"] is True
    assert len(verified["checks"]) > 5  # type: ignore[arg-type]
    assert "All" in run("retain verify").stdout
    assert answer(run("retain export all.jsonl --json"))["rows"]["messages"] == 1  # type: ignore[index]
    assert (tmp_path / "all.jsonl").stat().st_mode & 0o077 == 0
    assert run("retain export -").stdout.encode() == (tmp_path / "all.jsonl").read_bytes()
    again = answer(run("retain import all.jsonl --json"))
    assert again["new"] == 0
    copy = "retain import all.jsonl --json --database sqlite:///copy.db"
    assert answer(run(copy))["new"] == 3
    assert answer(run("retain purge --days 1 --json")) == {
        "messages": 0, "state": 0, "items": 0, "threads": 0, "contents": 0, "compacted": True,
    }  # fmt: skip
    receipt = answer(run("retain erase --user ada --yes --json"))
    assert receipt["removed"]["messages"] == 1  # type: ignore[index]
    assert run("retain sessions get s").returncode == 3
    run("retain entries add 'I like maps.' --agent scout")
    receipt = answer(run("retain erase --agent scout --yes --json"))
    assert (receipt["agent"], receipt["removed"]["entries"]) == ("scout", 1)  # type: ignore[index]
    shown = answer(run("retain config show --json"))
    assert shown["database"]["from"] == "RETAIN_DATABASE"  # type: ignore[index]
    if engine == "sqlite":
        assert answer(run("retain backup copy-of-it.db --json"))["bytes"]
        assert run("retain backup copy-of-it.db").returncode == 2


@BOTH
def test_migrate_sql_prints_the_statements(run: Run, url: str) -> None:
    """`--sql` runs nothing and prints exactly what would run."""
    run("retain migrate up")
    run("retain migrate down --to 1 --yes")
    printed = run("retain migrate up --sql").stdout
    assert "create table state" in printed
    assert "create table interactions" in printed
    assert "create table messages" not in printed
    assert answer(run("retain migrate status --json"))["version"] == 1
    with Memory.open(url, settings=SETTINGS, migrate_up=False) as memory:
        assert memory.database.script(memory.migrations[1].step(up=True)) in printed
    assert "0003 interactions applied" in run("retain migrate up").stdout
    undone = run("retain migrate down --sql").stdout
    assert f"delete from retain_schema where version = {NEWEST}" in undone
    assert answer(run("retain migrate status --json"))["version"] == NEWEST


@BOTH
def test_verify_fails_on_damage(url: str, run: Run) -> None:
    with Memory.open(url, settings=SETTINGS) as memory:
        me = memory.scope(user="ada", agent="scout")
        session = me.sessions.resume()
        me.messages.extend(session.id, [{"role": "user", "content": str(n)} for n in range(3)])
        memory.database.write(
            "default", lambda tx: tx.run("delete from messages where tenant = :tenant and seq = 2")
        )
    done = run("retain verify")
    assert done.returncode == 1
    assert " of " in done.stdout
    assert session.id in done.stdout
    assert run("retain verify --start 30").stdout
    assert "must be from 1 to" in run("retain verify --start 1000").stderr


@pytest.mark.parametrize("engine", ["sqlite"])
def test_settings_come_from_file_environment_and_flags(run: Run, tmp_path: Path) -> None:
    (tmp_path / "retain.yaml").write_text(
        "tenant: from-file\nuser: ada\nagent: scout\nretention_days: 7\n"
    )
    run("retain sessions add s")
    assert answer(run("retain sessions active --json"))["user"] == "ada"
    assert answer(run("retain sessions list --json --user bob"))["data"] == []
    assert answer(run("retain --tenant other sessions list --json"))["data"] == []
    shown = answer(run("retain config show --json", RETAIN_RETENTION_DAYS="9"))
    assert shown["retention_days"] == {"value": "9", "from": "RETAIN_RETENTION_DAYS"}
    assert shown["user"]["from"].endswith("retain.yaml")  # type: ignore[index]
    assert run("retain config show", RETAIN_NONSENSE="1").returncode == 6


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_password_is_never_shown(run: Run) -> None:
    secret = "postgresql://ada:hunter2@127.0.0.1:1/x"
    for command in ("retain config show", "retain config show --json", "retain status"):
        done = run(
            command,
            RETAIN_DATABASE=secret,
            RETAIN_API_KEY="sk-proj-0123456789abcdef",
            RETAIN_SUMMARY_API_KEY="hunter2",
        )
        assert "hunter2" not in done.stdout + done.stderr
        assert "0123456789" not in done.stdout + done.stderr


@pytest.mark.parametrize("engine", ["sqlite"])
def test_stored_text_cannot_control_the_terminal(run: Run) -> None:
    run("retain sessions add s --user ada --agent scout")
    run("retain messages append s user -", stdin="\x1b[2J\x1b]0;owned\x07 \u202e evil")
    shown = run("retain messages window s").stdout
    assert "evil" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_closed_pipe_is_no_error(url: str, tmp_path: Path) -> None:
    env = {**os.environ, "RETAIN_DATABASE": url}
    retain = f"{sys.executable} -m retain.cli.main"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {retain} config example | true"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=env,
    )
    assert (done.returncode, done.stderr) == (0, "")


@BOTH
def test_commands_default_to_one_tenant(run: Run, tmp_path: Path) -> None:
    """Purge and export cover one tenant unless all are requested."""
    for tenant in ("acme", "globex"):
        run(f"retain sessions add s --tenant {tenant} --user ada --agent scout")
        run(
            f"retain messages append s user {tenant}-secret --tenant {tenant} --created-at 2020-01-01T00:00:00Z"
        )
    mine = run("retain export - --user ada", RETAIN_TENANT="acme").stdout
    assert "acme-secret" in mine
    assert "globex" not in mine
    everybody = run("retain export - --all-tenants").stdout
    assert "acme-secret" in everybody
    assert "globex-secret" in everybody
    assert answer(run("retain purge --days 30 --tenant acme --json"))["messages"] == 1
    assert "globex-secret" in run("retain messages window s --tenant globex").stdout
    assert answer(run("retain purge --days 30 --all-tenants --json"))["messages"] == 1


@pytest.mark.parametrize("engine", ["sqlite"])
def test_import_reads_a_pipe(run: Run) -> None:
    run("retain sessions add s --user ada --agent scout")
    copy = run("retain export -").stdout
    assert (
        answer(run("retain import - --database sqlite:///copy.db --json", stdin=copy))["new"] == 2
    )


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_full_disk_and_a_plain_terminal_give_no_traceback(
    run: Run, url: str, tmp_path: Path
) -> None:
    run("retain sessions add s --user ada --agent scout --label Grüße")
    env = {**os.environ, "RETAIN_DATABASE": url, "PYTHONIOENCODING": "ascii"}
    retain = f"{sys.executable} -m retain.cli.main"
    for command, status, says in (
        ("sessions list > /dev/full", 1, "No space left"),
        ("sessions list", 0, ""),
    ):
        done = subprocess.run(
            ["bash", "-c", f"{retain} {command}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=env,
        )
        assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (
            status,
            True,
            False,
        ), done.stderr


@pytest.mark.parametrize("engine", ["sqlite"])
def test_output_can_be_redirected_to_a_file(run: Run) -> None:
    """Notes and values are printed verbatim; metadata goes to standard error."""
    whose = "--user ada --agent scout"
    run("retain migrate up")
    empty = run(f"retain notes read {whose}")
    assert (empty.stdout, empty.stderr) == ("", "(no notes yet)\n")
    run(f"retain notes overwrite - {whose}", stdin="# Trips\n\n\t- Lisbon\r\n- Porto\n")
    done = run(f"retain notes read {whose}")
    assert (done.stdout, done.stderr) == ("# Trips\n\n\t- Lisbon\r\n- Porto\n", "(version 1)\n")
    run("""retain state set theme '{"dark":  1.0}' --user ada""")
    done = run("retain state get theme --user ada")
    assert (done.stdout, done.stderr) == ('{"dark":  1.0}\n', "(version 1)\n")
    assert answer(run(f"retain notes read {whose} --json"))["version"] == 1
    assert answer(run("retain state get theme --user ada --json"))["value"] == {"dark": 1.0}


@pytest.mark.parametrize("engine", ["sqlite"])
def test_piped_output_has_no_trailing_white_space(run: Run) -> None:
    run("retain sessions add trip --user ada --agent scout")
    run("retain messages append trip user short")
    run(f"retain messages append trip user '{'long ' * 15}'")
    for command in (
        "retain messages list trip",
        "retain sessions list",
        "retain sessions get trip",
        "retain config show",
    ):
        shown = run(command).stdout.splitlines()
        assert shown
        assert [line for line in shown if line != line.rstrip()] == []


@pytest.mark.parametrize("engine", ["sqlite"])
def test_raw_content_is_written_to_a_file(run: Run, url: str, tmp_path: Path) -> None:
    """Byte for byte, with `--raw` in pieces."""
    data = bytes(range(256)) * 5000
    with Memory.open(url, settings=SETTINGS) as memory:
        memory.scope().refs.add(data, "bytes", key="bytes-1")
    env = {**os.environ, "RETAIN_DATABASE": url}
    for words in (["content", "bytes-1"], ["get", "bytes-1", "--raw"]):
        command = [sys.executable, "-m", "retain.cli.main", "refs", *words]
        assert (
            subprocess.run(command, capture_output=True, check=True, cwd=tmp_path, env=env).stdout
            == data
        )
    done = run("retain refs get bytes-1 --raw --head 3")
    assert (done.returncode, done.stderr) == (
        2, "retain: --raw: cannot be combined with --head.\n",
    )  # fmt: skip
    done = run("retain refs get bytes-2")
    assert (done.returncode, done.stderr) == (
        3,
        "retain: There is no reference 'bytes-2'. Did you mean bytes-1?\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_gives_no_traceback(
    run: Run, url: str, tmp_path: Path, closed: str
) -> None:
    """The database file does not take its file descriptor either."""
    run("retain sessions add trip --user ada --agent scout")
    env = {**os.environ, "RETAIN_DATABASE": url}
    command = f'"{sys.executable}" -m retain.cli.main sessions list {closed}'
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path, env=env
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert answer(run("retain verify --json"))["ok"] is True


@pytest.mark.parametrize("engine", ["sqlite"])
def test_help_describes_an_option_per_kind(run: Run) -> None:
    refs, messages = (
        " ".join(run(f"retain {endpoint} --help").stdout.split())
        for endpoint in ("refs get", "messages append")
    )
    assert "The key, as shown in the placeholder." in refs
    assert "Maximum number of tokens to show, 50 to 100000." in refs
    assert "Idempotency" not in refs
    assert "Idempotency key." in messages


@pytest.mark.parametrize("engine", ["sqlite"])
def test_unmeasured_values_are_not_zero(run: Run) -> None:
    """T1."""
    run("retain interactions add chat gpt-5-mini --tokens-in 9")
    shown = run("retain interactions totals model").stdout.splitlines()[-1].split()
    assert shown == ["gpt-5-mini", "1", "0", "9", "–", "–", "–", "–", "–"]
    run("retain interactions add chat other --latency-ms 0 --tokens-out 0")
    shown = run("retain interactions totals model").stdout.splitlines()[-1].split()
    assert shown == ["other", "1", "0", "–", "0", "–", "–", "–", "–"]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_date_is_accepted_as_a_time(run: Run) -> None:
    fact = answer(run("retain facts add 'Ada lives in Lisbon.' --user ada --json"))
    correct = f"retain facts correct {fact['id']} 'Ada lives in Porto.' --user ada --json"
    assert "T" in answer(run(f"{correct} --since 2026-05-01"))["valid_from"]  # type: ignore[operator]


def test_help_hides_kinds_without_commands() -> None:
    command = [sys.executable, "-m", "retain", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "\n    notes " in shown
    assert "\n    graph " not in shown
    assert "\n    checkpoints " not in shown


def test_every_command_and_kind_has_its_help() -> None:
    assert [*KIND_HELP] == [kind.name for kind in KINDS]
    for module, about_by_name in COMMANDS.items():
        commands = importlib.import_module(f"retain.cli.{module}").COMMANDS
        assert [command.name for command in commands] == [*about_by_name]
