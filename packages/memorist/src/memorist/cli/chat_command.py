"""`memorist chat`: talk with an agent in the terminal, or line by line through a pipe."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from memorist.base.errors import Invalid, MemoristError, NotFound
from memorist.base.wording import counted
from memorist.chat.enter_session import AGENT, USER
from memorist.chat.no_model_answer import NO_MODEL
from memorist.cli import context_command
from memorist.cli.chat_backend import LocalBackend, RemoteBackend
from memorist.cli.command import Arguments, Command, load_settings, open_memory, scope_names
from memorist.cli.options import SCOPE
from memorist.cli.output import plain, show, styled
from memorist.client import Client
from memorist.memory import Memory, Scope

HELP = """/new           start a new conversation
/sessions      list conversations
/go ID         continue another conversation
/why           show what the last answer is based on
/quit          leave (or Ctrl-D); Ctrl-C stops an answer"""
QUIT_COMMANDS = ("/quit", "/exit")
MAX_LISTED_SESSIONS = 20


Backend = LocalBackend | RemoteBackend


def chat(arguments: Arguments) -> int:
    """Answer one message, the lines of a pipe, or a person at a terminal."""
    with _open_backend(arguments) as backend:
        if arguments.new:
            backend.start_new()
        if arguments.message is not None:
            _answer(backend, arguments.message, arguments)
        elif sys.stdin.isatty() and not arguments.json:
            with backend.warming_up():
                _Terminal(backend).run()
        else:
            _answer_lines(backend, arguments)
    return 0


@contextlib.contextmanager
def _open_backend(arguments: Arguments) -> Iterator[Backend]:
    if arguments.new and arguments.session:
        raise Invalid(field="--new", problem="cannot be combined with --session")
    if arguments.url is None:
        with open_memory(arguments, create=True) as memory:
            tenant, user, agent = scope_names(arguments, memory.settings)
            if agent is None and not arguments.session:
                agent = AGENT
            scope = memory.scope(tenant=tenant, user=user or USER, agent=agent)
            yield _open_local(memory, scope, arguments.session)
        return
    for name in ("database", "tenant"):
        if getattr(arguments, name) is not None:
            raise Invalid(
                field=f"--{name}", problem="is set on the server; it cannot be combined with --url"
            )
    _, user, agent = scope_names(arguments, load_settings(arguments))
    with Client(arguments.url) as client:
        yield RemoteBackend(client, user, agent, arguments.session)


def _open_local(memory: Memory, scope: Scope, session: str | None) -> LocalBackend:
    """Open a local conversation; create an agent that does not exist yet."""
    try:
        return LocalBackend(memory, scope, session)
    except NotFound as error:
        if error.what != "agent" or scope.owner.agent is None:
            raise
    name = scope.agents.add(scope.owner.agent).name
    message = (
        f"Created the agent {name!r}. Describe it with `memorist agents edit {name} --prompt …`."
    )
    print(plain(message), file=sys.stderr)
    return LocalBackend(memory, scope, session)


def _answer_lines(backend: Backend, arguments: Arguments) -> None:
    """Answer the lines of a pipe. A line that begins with a command is not a message."""
    terminal = _Terminal(backend, json_wanted=arguments.json)
    for line in sys.stdin.buffer:
        message = line.decode("utf-8", "replace").strip()
        command = message.partition(" ")[0]
        if command in QUIT_COMMANDS:
            return
        if _is_command(command):
            terminal.run_command(message)
        elif message:
            _answer(backend, message, arguments)


def _is_command(word: str) -> bool:
    """Return whether a word is a slash and letters; a path such as /etc/hosts is not a command."""
    return word.startswith("/") and word[1:].isalpha()


def _answer(backend: Backend, message: str, arguments: Arguments) -> None:
    """Print the reply to one message."""
    reply = backend.send(message, lambda name, data: None)
    if arguments.json:
        print(json.dumps(reply, ensure_ascii=False), flush=True)
    else:
        print(plain(reply["message"]), flush=True)


class _Terminal:
    """A conversation at a terminal."""

    def __init__(self, backend: Backend, *, json_wanted: bool = False) -> None:
        self._backend = backend
        self._json_wanted = json_wanted
        self._is_notice_shown = False  # the notice that no model is set
        self._is_listening = False
        self._is_line_open = False

    def run(self) -> None:
        """Read messages and commands until the end of input."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives input() a history and line editing
        self._greet()
        while True:
            try:
                line = input("> ").strip()
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                continue
            if line in QUIT_COMMANDS:
                return
            try:
                if _is_command(line.partition(" ")[0]):
                    self.run_command(line)
                elif line:
                    self._send(line)
            except MemoristError as error:
                self._print_note(f"memorist: {error}")
            except KeyboardInterrupt:
                self._print_note(self._backend.stopped)
            finally:
                self._is_listening = False

    def _greet(self) -> None:
        session = self._backend.session
        if self._json_wanted:
            show(session, json_wanted=True)
            return
        state = f"{counted(session.count, 'message')} so far" if session.count else "new"
        label = f" {session.label!r}" if session.label else ""
        agent = styled(plain(session.agent), "bold")
        print(f"{agent} · session {plain(session.id + label)} ({state}) · /help")

    def run_command(self, line: str) -> None:
        """Run a command such as `/why`."""
        command, _, argument = line.partition(" ")
        argument = argument.strip()
        if command == "/new":
            self._backend.start_new()
            self._greet()
        elif command == "/sessions":
            self._list_sessions()
        elif command == "/go" and argument:
            self._backend.switch(argument)
            self._greet()
        elif command == "/why":
            self._explain()
        elif command in ("/go", "/help"):
            print(HELP)
        else:
            print(f"Unknown command {command}; /help lists them.", file=sys.stderr)

    def _explain(self) -> None:
        """Show what the newest answer of the conversation is based on."""
        scope = self._backend.scope
        turns = scope.turns.list(self._backend.session.id, limit=1).items
        if not turns:
            raise NotFound(what="answer in session", id=self._backend.session.id)
        context_command.explain(scope, turns[0].id, json_wanted=self._json_wanted)

    def _list_sessions(self) -> None:
        sessions = self._backend.scope.sessions.list(limit=MAX_LISTED_SESSIONS)
        if self._json_wanted:
            show(sessions, json_wanted=True)
            return
        for session in sessions:
            marker = "*" if session.id == self._backend.session.id else " "
            updated = f"{session.updated_at:%Y-%m-%d %H:%M}"
            row = f"{marker} {session.id}  {updated}  {session.count:>4}  {session.label}"
            print(plain(row))

    def _send(self, message: str) -> None:
        self._is_listening = True
        self._is_line_open = False
        self._backend.send(message, self._on_event)
        if self._is_line_open:
            print()

    def _on_event(self, name: str, data: Mapping[str, Any]) -> None:
        """Show an event, unless the answer was stopped."""
        if not self._is_listening:
            return
        if name == "text":
            text = str(data["text"])
            if text.startswith(NO_MODEL):
                if self._is_notice_shown:
                    text = text.partition("\n\n")[2]
                self._is_notice_shown = True
            print(plain(text), end="", flush=True)
            self._is_line_open = True
        elif name == "tool_call":
            self._print_note(f"· {data['name']}")
        elif name == "tool_result" and not data["ok"]:
            self._print_note(f"  {data['short']}")
        elif name == "waiting":
            self._print_note("· waiting for the previous answer")

    def _print_note(self, text: str) -> None:
        """Print a line that is not part of the answer."""
        line_break = "\n" if self._is_line_open else ""
        print(line_break + styled(plain(text), "dim"), flush=True)
        self._is_line_open = False


COMMANDS = (
    Command(
        "chat",
        chat,
        'memorist chat --agent scout\n  echo "Where do we go?" | memorist chat --json\n'
        "  MEMORIST_KEY=… memorist chat --url https://…",
        SCOPE,
        {
            "message": {"nargs": "?", "metavar": "MESSAGE", "help": "one message"},
            "--session": {
                "metavar": "ID",
                "help": "the session (default: the active one, or a new one)",
            },
            "--new": {"action": "store_true", "help": "start a new session"},
            "--url": {
                "metavar": "URL",
                "help": "a memorist server; the key comes from MEMORIST_KEY",
            },
        },
        details=f"commands, also in a pipe:\n{textwrap.indent(HELP, '  ')}",
    ),
)
