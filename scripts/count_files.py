"""Count the files of the core whose code runs for one append, from the call to its SQL.

Traces the second of two appends, so that imports and caches do not count: once through the library,
and once through REST, where the files that the library runs too are left out.

    .venv/bin/python scripts/count_files.py
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from starlette.testclient import TestClient

import memorist
from memorist import Memory
from memorist.server.http.app import create_app

CORE = Path(memorist.__file__).parent


class Tracer:
    """Notes the files of the core whose functions run, in all threads that start after it."""

    def __init__(self) -> None:
        self._files: dict[Path, None] | None = None
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if self._files is None or event != "call" or frame.f_code.co_name == "<module>":
            return
        self._files[Path(frame.f_code.co_filename)] = None

    def files(self, call: Callable[[], object]) -> list[str]:
        """Call a function twice; return the files of the second call, in order."""
        call()
        self._files = {}
        call()
        paths = list(self._files)
        self._files = None
        return [str(path.relative_to(CORE)) for path in paths if path.is_relative_to(CORE)]


def main() -> None:
    """Print the files of an append through the library, and those that REST adds."""
    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory.open(f"sqlite:///{folder}/memory.db")
        me = memory.scope(tenant="default", user="ada", agent="scout")
        session = me.sessions.add().id
        app = create_app(memory, jobs=False)
        library = tracer.files(lambda: me.messages.append(session, "user", "Hello."))
        with TestClient(app, "http://127.0.0.1:7700", client=("127.0.0.1", 50_000)) as client:
            headers = {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}

            def append() -> None:
                body = {"role": "user", "content": "Hello."}
                path = f"/api/messages/{session}"
                client.post(path, json=body, headers=headers).raise_for_status()

            rest = [path for path in tracer.files(append) if path not in library]
        memory.close()
    print(f"{len(library)} files for me.messages.append:", *library, sep="\n  ")
    print(f"{len(rest)} more files for POST /api/messages:", *rest, sep="\n  ")


if __name__ == "__main__":
    main()
