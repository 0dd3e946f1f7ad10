"""The hooks of coding agents: recall memories at the start and for a prompt, save the conversation.

A hook must never disturb its host. It has a time limit, prints nothing but its answer, always ends
with success, and writes one line into a log. What it could not save, the next hook saves: messages
have keys, so a transcript can be read any number of times.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorist.base.errors import AlreadyExists, Busy, Invalid, KeyReused, NotFound
from memorist.coding_agents import hook_log
from memorist.coding_agents.project import (
    FOLDER_VARIABLES,
    data_folder,
    make_data_folder,
    make_folder,
    project_name,
    project_settings,
)
from memorist.storage.connect import is_missing
from memorist_frameworks.coding_agents.hosts import HOSTS, Task, hook_seconds
from memorist_frameworks.coding_agents.transcripts import (
    Line,
    TranscriptMessage,
    messages_of,
    numbered_lines,
    read_document,
    read_lines,
    without_added_text,
)

if TYPE_CHECKING:  # a hook without a database does not need these: functions import them
    from memorist.base.settings import Settings
    from memorist.content.message import Message
    from memorist.kinds.sessions import Session
    from memorist.memory import Memory, Scope

MAX_INPUT_BYTES = 32_000_000
MAX_PROMPT_CHARACTERS = 2_000
START_CHARACTERS = 9_000
"""Claude Code shows only the beginning of an answer with more than 10,000 characters."""
MAX_ENTRIES_CHARACTERS = 2_500
MAX_NOTES_CHARACTERS = 3_000
MAX_SUMMARY_CHARACTERS = 1_500
MAX_MESSAGE_CHARACTERS = 1_000
LAST_MESSAGES = 10
MIN_MESSAGES_CHARACTERS = (
    START_CHARACTERS - MAX_ENTRIES_CHARACTERS - MAX_NOTES_CHARACTERS - MAX_SUMMARY_CHARACTERS
)
"""The start shows at least this much of the last messages."""
PROMPT_TOKENS = 1_000
BATCH_MESSAGES = 100
LABEL_CHARACTERS = 60
LOCK_SECONDS = 2.0
MIN_LOCK_SECONDS = 0.1
STAT_START_TIME = 19  # the place in /proc/PID/stat, behind the name
EMBED_SECONDS = 5.0  # for the vectors of saved messages; what is left, a later hook computes
MARKS = "transcripts"  # a folder: how far each transcript was read
HEAD = "Memory of this project, from earlier sessions (by memorist):"


def main(words: Sequence[str]) -> None:
    """Run `memorist hook` with its arguments; unknown ones are ignored."""
    options = argparse.ArgumentParser("memorist hook", exit_on_error=False, add_help=False)
    options.add_argument("host", nargs="?", default="")
    options.add_argument("event", nargs="?", default="")
    options.add_argument("--database")
    options.add_argument("--config", type=Path)
    arguments, _ = options.parse_known_args(words)
    flags = {"database": arguments.database}
    run_hook(arguments.host, arguments.event, arguments.config, flags, process_seconds())


def run_hook(
    host: str,
    event: str,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    elapsed: float = 0.0,
) -> None:
    """Run a hook: read standard input, and print the answer. Never raises and never hangs.

    elapsed: seconds since the process started, which count towards the time limit
    """
    task = HOSTS[host].events.get(event) if host in HOSTS else None
    call = HookCall(host, event, elapsed)
    if task is None:
        call.finish(f"ignored: there is no hook {host} {event}", is_ok=False)
        return
    seconds = hook_seconds(host, event, task)
    left = seconds - call.seconds()
    if left <= 0:
        call.abort(seconds)
    timer = threading.Timer(left, call.abort, (seconds,))
    timer.daemon = True
    timer.start()
    try:
        payload = _read_input()
        call.describe(payload)
        answer, result = _run(call, task, payload, file, flags or {})
        call.finish(result, answer)
    except Busy:
        call.finish("locked", is_ok=False)
    except BaseException as error:  # whatever happens, the coding agent must go on
        call.finish(f"failed: {type(error).__name__}: {error}", is_ok=False)
    timer.cancel()


def process_seconds() -> float:
    """Return the seconds since this process started, or the processor time it used if unknown."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[STAT_START_TIME]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - started if started else time.process_time()
    except (AttributeError, IndexError, OSError, ValueError):  # not Linux
        return time.process_time()


class HookCall:
    """One call of a hook by a coding agent: its time, its answer, and its line in the log."""

    def __init__(self, host: str, event: str, elapsed: float = 0.0) -> None:
        self.host = host
        self.event = event
        self._started = time.monotonic() - elapsed
        self._fields: dict[str, Any] = {"host": host, "event": event}
        self._lock = threading.Lock()
        self._is_finished = False

    def describe(self, payload: Mapping[str, Any]) -> None:
        """Add the project and the session to the line of the log."""
        self._fields["project"] = project_name(_folder(payload))
        self._fields["session"] = _host_session(payload)

    def seconds(self) -> float:
        """Return the seconds since the start of the process."""
        return time.monotonic() - self._started

    def lock_seconds(self) -> float:
        """Return how long to wait for a database that another process has locked."""
        task = HOSTS[self.host].events[self.event]
        left = hook_seconds(self.host, self.event, task) - self.seconds()
        return max(min(LOCK_SECONDS, left / 2), MIN_LOCK_SECONDS)

    def finish(
        self, result: str, answer: Mapping[str, Any] | None = None, is_ok: bool = True
    ) -> None:
        """Print the answer and write the line of the log, once."""
        with self._lock:
            if self._is_finished:
                return
            self._is_finished = True
            if answer:
                try:
                    sys.stdout.write(json.dumps(answer))
                    sys.stdout.flush()
                except OSError as error:
                    result, is_ok = f"failed: {type(error).__name__}: {error}", False
            with suppress(Exception):
                milliseconds = round(self.seconds() * 1000)
                hook_log.write_line(**self._fields, ok=is_ok, ms=milliseconds, result=result)

    def abort(self, seconds: float) -> None:
        """End the process at the time limit; a write that is under way is rolled back."""
        self.finish(f"failed: not finished within {seconds} s", is_ok=False)
        os._exit(0)


def _read_input() -> Mapping[str, Any]:
    raw = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(raw) > MAX_INPUT_BYTES:
        raise ValueError("the input is too large")
    try:
        payload = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("the input is not JSON") from None
    if not isinstance(payload, dict):
        raise ValueError("the input is not a JSON object")
    return payload


def _folder(payload: Mapping[str, Any]) -> Path:
    """Return the folder of the project; the agent itself may have gone to another folder."""
    variables = [os.environ.get(name) for name in FOLDER_VARIABLES]
    roots = payload.get("workspace_roots")
    for folder in (*variables, payload.get("cwd"), *(roots if isinstance(roots, list) else ())):
        if isinstance(folder, str) and folder:
            return Path(folder)
    return Path.cwd()


def _host_session(payload: Mapping[str, Any]) -> str:
    for name in ("session_id", "sessionId", "conversation_id"):
        if payload.get(name):
            return str(payload[name])[:100]
    return ""


def _run(
    call: HookCall,
    task: Task,
    payload: Mapping[str, Any],
    file: Path | None,
    flags: Mapping[str, Any],
) -> tuple[dict[str, Any] | None, str]:
    """Return the answer for the host, and what was done."""
    host, event = call.host, call.event
    host_session = _host_session(payload)
    if not host_session:
        return None, "ignored: the input names no session"
    settings = project_settings(_folder(payload), file, **flags)
    session = f"{host}-{host_session}"
    if task in ("start", "prompt") and is_missing(settings):
        return None, "recalled 0 characters"
    from memorist.memory import Memory

    make_folder(settings)
    with Memory.open(settings=settings, wait_seconds=call.lock_seconds()) as memory:
        scope = memory.scope(user=settings.user, agent=settings.agent)
        if task == "start":
            text = _recall_start(scope, session, str(payload.get("source") or ""))
        elif task == "prompt":
            text = _recall_prompt(scope, session, str(payload.get("prompt") or ""))
        else:
            mark = _mark_file(settings, session)
            saved = _save(scope, host, session, task, payload, mark)
            left = hook_seconds(host, event, task) - call.seconds()
            if saved and task != "user" and left > EMBED_SECONDS:  # the user does not wait
                call.finish(f"saved {saved} messages")
                _compute_vectors(memory, settings.tenant)
            answer = {"continue": True} if task == "user" else None
            return answer, f"saved {saved} messages"
        return _answer(host, event, text), f"recalled {len(text)} characters"


def _answer(host: str, event: str, text: str) -> dict[str, Any] | None:
    """Return recalled text in the form that a host expects."""
    if not text:
        return None
    if host == "cursor":
        return {"additional_context": text}
    if host == "opencode":
        return {"additionalContext": text}
    answer: dict[str, Any] = {
        "hookSpecificOutput": {"hookEventName": event, "additionalContext": text}
    }
    if host == "vscode":  # Copilot CLI reads the hooks of VS Code, and expects the text at the top
        answer["additionalContext"] = text
    return answer


def _recall_start(scope: Scope, session: str, source: str) -> str:
    """Return what matters at the start: notes, entries, and the end of the last conversation.

    A host that goes on with a session has its messages, unless it has just compacted them.
    """
    from memorist.kinds.notes import reviewed_text

    texts = [
        scope.entries.prompt()[:MAX_ENTRIES_CHARACTERS],
        reviewed_text(scope.notes)[:MAX_NOTES_CHARACTERS],
    ]
    known = _session(scope, session)
    last = known or _newest_session(scope)
    if last is not None and (known is None or source == "compact"):
        texts.append(last.summary[:MAX_SUMMARY_CHARACTERS])
        shown = _shown_at_start(scope, last, START_CHARACTERS - sum(map(len, texts)))
        if shown:
            texts += ["The end of the last conversation:", *(text for _, text in shown)]
    return _render(texts)


def _recall_prompt(scope: Scope, session: str, prompt: str) -> str:
    """Return what is remembered about a prompt.

    Only the last messages of the host's own session are left out, if the start shows them whole: the
    host has those even after compaction.
    """
    from memorist.context import recall
    from memorist.kinds.section import Ask

    prompt = without_added_text(prompt).strip()[:MAX_PROMPT_CHARACTERS]
    if not prompt or prompt.startswith("/"):
        return ""
    known = _session(scope, session)
    at_start = [] if known is None else _shown_at_start(scope, known, MIN_MESSAGES_CHARACTERS)
    shown = [
        f"messages {message.seq}"
        for message, _ in at_start
        if len(message.text) <= MAX_MESSAGE_CHARACTERS
    ]
    ask = Ask(session, prompt)
    return _render([recall.recalled_text(scope.services, scope.owner, ask, PROMPT_TOKENS, shown)])


def _session(scope: Scope, session: str) -> Session | None:
    """Return the host's session; None if it was not saved before."""
    with suppress(NotFound):
        return scope.sessions.get(session)
    return None


def _newest_session(scope: Scope) -> Session | None:
    """Return the session of the project that was active last; None if there is none."""
    newest = scope.sessions.list(limit=1).items
    return newest[0] if newest else None


def _shown_at_start(scope: Scope, session: Session, room: int) -> list[tuple[Message, str]]:
    """Return the last messages of a session that fit into `room` characters, with their lines."""
    last = scope.messages.window(session.id, last=LAST_MESSAGES, turns_only=True)
    shown: list[tuple[Message, str]] = []
    for message in reversed(last):
        text = f"{message.role}: {message.text[:MAX_MESSAGE_CHARACTERS]}"
        room -= len(text)
        if room < 0:
            break
        shown.insert(0, (message, text))
    return shown


def _render(texts: Sequence[str]) -> str:
    """Return recalled texts as data, not as instructions; empty if there are none."""
    from memorist.context.render import fence

    joined = "\n".join(text.strip() for text in texts if text.strip())
    return f"{HEAD}\n{fence(joined)}" if joined else ""


def _save(
    scope: Scope, host: str, session: str, task: Task, payload: Mapping[str, Any], mark: Path
) -> int:
    """Append messages that are not stored yet, in short transactions; return their number.

    The file `mark` tells how far the transcript was read, if somebody removes the session: what was
    forgotten must not come back.
    """
    forgotten, offset = _places(scope, session, mark)
    start = offset
    file = _transcript_file(payload)
    if file is not None and file.suffix != ".json" and start > file.stat().st_size:
        start = 0  # the transcript was written again
    saved = 0
    end = start
    batch: list[TranscriptMessage] = []

    def store() -> int:
        if not batch and end == offset:
            return 0
        work = partial(_save_batch, host=host, session=session, batch=batch, end=end)
        if batch:
            first = next((message.text for message in batch if message.role == "user"), "")
            label = f"{host}: {' '.join(first.split())[:LABEL_CHARACTERS]}"
            attributes = {"host": host, "transcript_start": forgotten}
            with suppress(AlreadyExists):
                scope.sessions.add(session, label=label, attributes=attributes)
        count = 0
        with suppress(NotFound):  # there is no session, and no message for one
            count = scope.transaction(work)
            _write_mark(mark, end)
        return count

    for line in _lines(task, payload, file, forgotten, start):
        batch += messages_of(host, line.value)
        end = line.end
        if len(batch) >= BATCH_MESSAGES:
            saved += store()
            batch = []
    return saved + store()


def _places(scope: Scope, session: str, mark: Path) -> tuple[int, int]:
    """Return the place up to which a transcript is forgotten, and up to which it was read."""
    with suppress(NotFound):
        attributes = scope.sessions.get(session).attributes
        places = (attributes.get("transcript_start"), attributes.get("transcript_offset"))
        forgotten, end = (place if isinstance(place, int) else 0 for place in places)
        return forgotten, end
    try:
        end = int(mark.read_text())
    except (OSError, ValueError):
        end = 0
    return end, end


def _write_mark(mark: Path, end: int) -> None:
    if end:
        make_data_folder()
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        mark.write_text(str(end))


def _mark_file(settings: Settings, session: str) -> Path:
    name = "\n".join((settings.database, settings.tenant, session))
    return data_folder() / MARKS / hashlib.sha256(name.encode()).hexdigest()[:32]


def _transcript_file(payload: Mapping[str, Any]) -> Path | None:
    """Return the transcript; None if nothing was said yet."""
    path = payload.get("transcript_path")
    file = Path(path) if isinstance(path, str) and path else None
    return file if file is not None and file.is_file() else None


def _lines(
    task: Task, payload: Mapping[str, Any], file: Path | None, forgotten: int, start: int
) -> Iterable[Line]:
    """Return the lines to save. A list is read again each time, as its messages may change."""
    if task in ("user", "assistant"):
        text = payload.get("prompt" if task == "user" else "text")
        turn = str(payload.get("generation_id") or "")
        sent = {"role": task, "text": text, "turn": turn}
        return [Line(sent, start)] if text and turn else []
    messages = payload.get("messages")
    if isinstance(messages, list):
        return numbered_lines(messages)[forgotten:]
    if file is None:
        return []
    if file.suffix == ".json":
        return read_document(file)[forgotten:]
    return read_lines(file, start)


def _save_batch(
    scope: Scope, *, host: str, session: str, batch: list[TranscriptMessage], end: int
) -> int:
    from memorist.kinds.sessions import get_locked

    before = get_locked(scope.sessions, session)  # two hooks may save at once
    for message in batch:
        # Skipped: a stored message that the host changed, a removed one, and one that is not valid.
        with suppress(KeyReused, NotFound, Invalid):
            scope.messages.append(
                session,
                "user" if message.role == "user" else "assistant",
                message.text,
                key=message.key,
                author=host if message.role == "assistant" else None,
                created_at=message.at,
            )
    if end != before.attributes.get("transcript_offset", 0):
        scope.sessions.edit(session, attributes={**before.attributes, "transcript_offset": end})
    return scope.sessions.get(session).count - before.count


def _compute_vectors(memory: Memory, tenant: str) -> None:
    """Index new messages and compute their vectors: often no server runs that would do it."""
    from memorist.jobs import index_owners
    from memorist.jobs.embed import EmbedJob

    timer = threading.Timer(EMBED_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
    index_owners.run(memory.services, tenant)
    EmbedJob().run(memory.services, tenant, None)
    timer.cancel()
