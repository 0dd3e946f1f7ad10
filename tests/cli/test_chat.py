"""`memorist chat`: interactively, from a pipe, on a file and against a server."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base.errors import ModelUnavailable
from memorist.cli.main import main
from memorist.models.model import RemoteModel
from memorist.testing import ModelRequest, ScriptedModel, calling
from testkit.model_service import FakeService
from testkit.talking import serve

PYTHON = sys.executable
WAIT = 90.0
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "MEMORIST_DATABASE": f"sqlite:///{tmp_path}/chat.db",
        "MEMORIST_EMBEDDER": "static",
        "PYTHONUTF8": "1",
        "TERM": "xterm",
    }


@pytest.fixture
def run(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Run:
    """Run `memorist chat …` in this process, with lines on its standard input."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    def run_it(*words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        lines = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        capfd.readouterr()
        with monkeypatch.context() as patch:
            for name, value in more.items():
                patch.setenv(name, value)
            patch.setattr("sys.stdin", lines)
            status = main(["chat", *words])
        return subprocess.CompletedProcess(words, status, *capfd.readouterr())

    return run_it


@pytest.fixture
def process(env: dict[str, str], tmp_path: Path) -> Run:
    """Run `memorist chat …` as a process, with lines on its standard input."""

    def run_it(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        line = [PYTHON, "-m", "memorist.cli.main", "chat", *words]
        return subprocess.run(
            line, input=stdin, capture_output=True, check=False, cwd=tmp_path, env=env, text=True
        )

    return run_it


class Typed:
    """A `memorist chat` at a terminal with typed input."""

    def __init__(self, env: dict[str, str], *words: str) -> None:
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            os.execve(PYTHON, [PYTHON, "-m", "memorist.cli.main", "chat", *words], env)
        self.seen = ""

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._terminal, text.encode())

    def until(self, what: str) -> str:
        """Read until a text appears; return and consume the output up to it."""
        end = time.monotonic() + WAIT
        while what not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self._terminal], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._terminal, 65_536).decode("utf-8", "replace")
                except OSError:
                    assert what in self.seen, self.seen
        result, _, self.seen = self.seen.partition(what)
        return result

    def ended(self) -> int:
        """Wait for the end and return the exit status."""
        with contextlib.suppress(OSError):
            while select.select([self._terminal], [], [], WAIT)[0]:
                self.seen += os.read(self._terminal, 65_536).decode("utf-8", "replace")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def served(tmp_path: Path, *answers: object) -> Iterator[tuple[str, str]]:
    """Yield the URL of a server and a key for it."""
    model = ScriptedModel(*answers)  # type: ignore[arg-type]
    with contextmanager(serve)(f"sqlite:///{tmp_path}/served.db", model) as there:
        yield there.url, there.key


def test_at_a_terminal(env: dict[str, str]) -> None:
    """It streams, stops at Ctrl-C, explains turns, switches sessions, and exits at Ctrl-D."""
    with FakeService(
        lambda request: "You said hello." if "Hello" in request.prompt else "And more."
    ) as service:
        typed = Typed(
            {
                **env,
                "MEMORIST_MODEL": "fake",
                "MEMORIST_BASE_URL": service.url,
                "MEMORIST_API_KEY": "k",
            }
        )
        greeting = typed.until("/help")
        assert "assistant" in greeting
        assert "(new)" in greeting
        session = re.findall(r"session (\S+)", greeting)[0]
        typed.until("> ")
        typed.type("Hello!\n")
        typed.until("You said hello.")
        typed.until("> ")
        typed.type("/why\n")
        assert "of the budget" in typed.until("> ")
        service.misbehave("hang", times=1)
        typed.type("Are you there?\n")
        typed.until("Are you there?")
        while len(service.requests) < 2:
            time.sleep(0.02)
        typed.type("\x03")
        assert "\x1b[2m" in typed.until("Stopped.")
        typed.until("> ")
        typed.type("/new\n")
        typed.until("(new)")
        typed.until("> ")
        typed.type("/sessions\n")
        typed.until(session)
        typed.until("> ")
        typed.type(f"/go {session}\n")
        typed.until("3 messages so far")
        typed.until("> ")
        typed.type("/go nowhere\n")
        typed.until("There is no session")
        typed.until("> ")
        typed.type("\x04")
        assert typed.ended() == 0


def test_the_model_is_loaded_while_the_user_types(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = threading.Event()

    def wait_for_user(prompt: str) -> str:
        assert loaded.wait(WAIT)
        raise EOFError

    monkeypatch.setattr(RemoteModel, "prepare", lambda model: loaded.set())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", wait_for_user)
    monkeypatch.setenv("MEMORIST_DATABASE", env["MEMORIST_DATABASE"])
    monkeypatch.setenv("MEMORIST_EMBEDDER", "none")
    monkeypatch.setenv("MEMORIST_MODEL", "gpt-5-mini")
    assert main(["chat"]) == 0


def test_from_a_pipe(process: Run, env: dict[str, str]) -> None:
    """Line by line, in one session that the next run continues; without a model it names the
    setting.
    """
    first = process(stdin="My sister lives in Lisbon.\n\nWhere does my sister live?\n")
    assert first.returncode == 0
    assert "No model is set" in first.stdout
    assert "`model` and `base_url` in the settings" in first.stdout
    assert "My sister lives in Lisbon." in first.stdout
    assert "\x1b" not in first.stdout
    received = [
        json.loads(line)
        for line in process("--json", stdin="And my brother?\nAnd I?\n").stdout.splitlines()
    ]
    assert [item["memory_only"] for item in received] == [True, True]
    with Memory.open(env["MEMORIST_DATABASE"]) as memory:
        (session,) = memory.scope(user="default").sessions.list()
    assert session.count == 8
    assert {item["session_id"] for item in received} == {session.id}


def test_commands_in_a_pipe(run: Run, env: dict[str, str]) -> None:
    """`/why` explains the last answer, also of an earlier process; it is no message."""
    run(stdin="My sister lives in Lisbon.\n")
    why = run(stdin="/why\n")
    assert (why.returncode, "of the budget" in why.stdout) == (0, True), why.stderr
    lines = run("--json", stdin="/new\n/etc/hosts is a file.\n/why\n/quit\nNever sent.\n").stdout
    session, answer, report = (json.loads(line) for line in lines.splitlines())
    assert answer["session_id"] == session["id"]
    assert report["items"]
    unknown = run(stdin="/foo\n")
    assert (unknown.stdout, unknown.stderr) == ("", "Unknown command /foo; /help lists them.\n")
    empty = run("--new", stdin="/why\n")
    assert (empty.returncode, "There is no answer" in empty.stderr) == (3, True)
    with Memory.open(env["MEMORIST_DATABASE"]) as memory:
        texts = [
            message.text
            for session in memory.scope(user="default").sessions.list()
            for message in memory.scope(user="default").messages.window(session.id)
            if message.role == "user"
        ]
    assert sorted(texts) == ["/etc/hosts is a file.", "My sister lives in Lisbon."]


def test_long_sessions_are_summarized(run: Run, env: dict[str, str]) -> None:
    """By the model, without a server or a job beside the command; later answers use it."""
    summary = "Ada asked about the harbour of Porto several times."

    def answer(request: ModelRequest) -> str:
        return summary if "running summary" in request.system else "Fine."

    with FakeService(answer) as service:
        settings = {
            "MEMORIST_MODEL": "fake",
            "MEMORIST_BASE_URL": service.url,
            "MEMORIST_API_KEY": "k",
            "MEMORIST_SUMMARY_ENABLED": "true",
            "MEMORIST_SUMMARY_THRESHOLD": "4",
            "MEMORIST_SUMMARY_KEEP_LAST": "2",
        }
        lines = "".join(f"Question {n} about the harbour.\n" for n in range(4))
        chat = run(stdin=lines, **settings)
        assert chat.stdout.splitlines() == ["Fine."] * 4, chat.stderr
        assert run("And now?", **settings).returncode == 0
        assert summary in f"{service.requests[-1].body}"
    with Memory.open(env["MEMORIST_DATABASE"]) as memory:
        (session,) = memory.scope(user="default").sessions.list()
    assert session.summarized_count >= 2
    assert session.summary == summary


def test_one_message(
    env: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message as an argument; errors have their exit status."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert main(["chat", "Hello", "--json", "--user", "ada"]) == 0
    session = json.loads(capsys.readouterr().out)["session_id"]
    assert main(["chat", "Again", "--json", "--user", "ada", "--session", session]) == 0
    assert json.loads(capsys.readouterr().out)["session_id"] == session
    assert main(["chat", "Anew", "--json", "--user", "ada", "--new"]) == 0
    assert json.loads(capsys.readouterr().out)["session_id"] != session
    assert main(["chat", "Hello", "--agent", "scout", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["agent_id"] == "scout"
    assert "Created the agent 'scout'" in output.err
    assert main(["chat", "Hello", "--agent", "scout"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["chat", "Hello", "--session", "nowhere"]) == 3
    assert main(["chat", "Hello", "--new", "--session", session]) == 2
    assert main(["chat", "Hello", "--url", "http://127.0.0.1:9", "--tenant", "acme"]) == 2
    assert main(["chat", "Hello", "--url", "http://127.0.0.1:9"]) == 5


def test_against_a_server(run: Run, tmp_path: Path) -> None:
    """Through `--url`: the key comes from the environment, and problems are shown like local
    errors.
    """
    ask = calling(("save_to_core", {"content": "Ada likes tea."}))
    failing = ModelUnavailable(model="m", problem="it fails")
    with served(tmp_path, ask, "Noted.", "Tea.", failing) as (url, key):
        good = run(
            "--url", url, "--user", "ada", stdin="I like tea.\nWhat do I like?\n", MEMORIST_KEY=key
        )
        assert good.stdout.splitlines() == ["Noted.", "Tea."], good.stderr
        failed = run("Hello?", "--url", url, "--user", "ada", MEMORIST_KEY=key)
        assert failed.returncode == 7
        assert "is stored" in failed.stderr
        refused = run("Hello?", "--url", url, "--user", "ada", MEMORIST_KEY="mst_wrong")
        assert refused.returncode == 8
        assert "key" in refused.stderr


def test_at_a_terminal_against_a_server(env: dict[str, str], tmp_path: Path) -> None:
    """`/why` and `/sessions` ask the server, too."""
    with served(tmp_path, calling(("save_to_core", {"content": "Tea."})), "Noted.") as (url, key):
        typed = Typed({**env, "MEMORIST_KEY": key, "NO_COLOR": "1"}, "--url", url, "--user", "ada")
        typed.until("> ")
        typed.type("I like tea.\n")
        assert "save_to_core" in typed.until("Noted.")
        typed.until("> ")
        typed.type("/why\n")
        assert "of the budget" in typed.until("> ")
        typed.type("/sessions\n")
        typed.until("* 0")
        typed.until("> ")
        typed.type("/help\n")
        typed.until("/quit")
        typed.until("> ")
        typed.type("/quit\n")
        assert typed.ended() == 0
        assert "\x1b[2m" not in typed.seen
