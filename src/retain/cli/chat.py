"""`retain chat`: an agent with memory in the terminal, on the database here or behind a server; line by line for scripts."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from retain.api.rendering import plain
from retain.base.errors import Invalid, NotFound, RetainError
from retain.base.settings import Settings
from retain.chat.recollection import NO_MODEL
from retain.chat.session import AGENT, USER
from retain.cli import context
from retain.cli.chat_backend import Here, There
from retain.cli.command import Arguments, open_memory, whose
from retain.client import Client
from retain.memory import Memory, Scope

ABOUT = "Talk with an agent that remembers; lines from a pipe are answered one by one."
EXAMPLE = 'retain chat --agent scout\n  echo "Where do we go?" | retain chat --json\n  RETAIN_KEY=… retain chat --url https://…'
ARGUMENTS: dict[str, dict[str, Any]] = {
    "message": {"nargs": "?", "metavar": "MESSAGE", "help": "one message, answered once"},
    "--session": {"metavar": "ID", "help": "the session (default: the active one, else a new one)"},
    "--new": {"action": "store_true", "help": "start a new session"},
    "--url": {"metavar": "URL", "help": "a retain server; its key is taken from RETAIN_KEY"},
}
HELP = """/new           start a new conversation
/sessions      the conversations there are, with how many messages
/go ID         go on in one of them
/why           what the last answer was given to go by
/quit          leave (or Ctrl-D); Ctrl-C stops an answer"""
_SESSIONS = 20
_DIM, _BOLD, _PLAIN = "\x1b[2m", "\x1b[1m", "\x1b[0m"

Partner = Here | There


def chat(arguments: Arguments) -> int:
    """Talk until there is nothing more to say."""
    with _partner(arguments) as partner:
        if arguments.new:
            partner.new()
        if arguments.message is not None:
            _answer(partner, arguments.message, arguments)
        elif sys.stdin.isatty() and not arguments.json:
            _Terminal(partner).run()
        else:
            for line in sys.stdin.buffer:
                if said := line.decode("utf-8", "replace").strip():
                    _answer(partner, said, arguments)
    return 0


@contextlib.contextmanager
def _partner(arguments: Arguments) -> Iterator[Partner]:
    if arguments.new and arguments.session:
        raise Invalid(field="--new", problem="cannot go with --session")
    if arguments.url is None:
        with open_memory(arguments, create=True) as memory:
            tenant, user, agent = whose(arguments, memory.settings)
            scope = memory.scope(
                tenant=tenant,
                user=user or USER,
                agent=agent or (None if arguments.session else AGENT),
            )
            yield _here(memory, scope, arguments.session)
        return
    for name in ("database", "tenant"):
        if getattr(arguments, name) is not None:
            raise Invalid(
                field=f"--{name}", problem="is the server's own, and cannot go with --url"
            )
    _, user, agent = whose(arguments, Settings.load(arguments.config))
    with Client(arguments.url) as client:
        yield There(client, user, agent, arguments.session)


def _here(memory: Memory, scope: Scope, session: str | None) -> Here:
    """An agent on the database here; whoever sits at it may name a new one, and has it."""
    try:
        return Here(memory, scope, session)
    except NotFound as error:
        if error.what != "agent" or scope.owner.agent is None:
            raise
    name = scope.agents.add(scope.owner.agent).name
    said = f"The agent {name!r} is new here, and was made. `retain agents edit {name} --prompt …` says who it is."
    print(plain(said), file=sys.stderr)
    return Here(memory, scope, session)


def _answer(partner: Partner, said: str, arguments: Arguments) -> None:
    """One turn for a script."""
    reply = partner.say(said, lambda name, data: None)
    print(
        json.dumps(reply, ensure_ascii=False) if arguments.json else plain(reply["message"]),
        flush=True,
    )


class _Terminal:
    """Somebody who types, and sees the answer as it is written."""

    def __init__(self, partner: Partner) -> None:
        self._partner = partner
        self._colours = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._turn = ""
        self._told = False
        self._listening = self._open = False

    def run(self) -> None:
        """Ask and answer until the end."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 which gives input() its history and its editing
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
            if line in ("/quit", "/exit"):
                return
            try:
                if line.startswith("/"):
                    self._command(line)
                elif line:
                    self._say(line)
            except RetainError as error:
                self._line(f"retain: {error}")
            except KeyboardInterrupt:
                self._line(self._partner.stopped)
            finally:
                self._listening = False

    def _greet(self) -> None:
        session = self._partner.session
        about = f"goes on: {session.count} messages so far" if session.count else "new"
        name = f" {session.label!r}" if session.label else ""
        print(
            f"{self._in(_BOLD, plain(session.agent))} · session {plain(session.id + name)} ({about}) · /help"
        )

    def _command(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "/new":
            self._partner.new()
            self._greet()
        elif word == "/sessions":
            for session in self._partner.scope.sessions.list(limit=_SESSIONS):
                here = "*" if session.id == self._partner.session.id else " "
                print(
                    plain(
                        f"{here} {session.id}  {session.updated_at:%Y-%m-%d %H:%M}  {session.count:>4}  {session.label}"
                    )
                )
        elif word == "/go" and rest.strip():
            self._partner.go(rest.strip())
            self._greet()
        elif word == "/why":
            if not self._turn:
                raise NotFound(what="answer", id="of this talk")
            context.explain(self._partner.scope, self._turn, Namespace(json=False))
        else:
            print(HELP)

    def _say(self, line: str) -> None:
        self._listening, self._open = True, False
        self._turn = self._partner.say(line, self._hear)["turn_id"]
        if self._open:
            print()

    def _hear(self, name: str, data: Mapping[str, Any]) -> None:
        """Show what happens; what comes after a stop is shown to nobody."""
        if not self._listening:
            return
        if name == "text":
            text = str(data["text"])
            if text.startswith(NO_MODEL):
                text = text.partition("\n\n")[2] if self._told else text
                self._told = True
            print(plain(text), end="", flush=True)
            self._open = True
        elif name == "tool_call":
            self._line(f"· {data['name']}")
        elif name == "tool_result" and not data["ok"]:
            self._line(f"  {data['short']}")
        elif name == "waiting":
            self._line("· waiting for the answer before")

    def _line(self, text: str) -> None:
        """A line beside the answer."""
        print(("\n" if self._open else "") + self._in(_DIM, plain(text)), flush=True)
        self._open = False

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colours else text
