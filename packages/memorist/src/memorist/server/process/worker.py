"""A worker process of the server: `python -m memorist.server.process.worker`.

Its supervisor writes a `WorkerConfig` to its standard input, and closes that when it exits.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from memorist.base.errors import MemoristError
from memorist.memory import Memory
from memorist.server.process import serve
from memorist.server.process.supervisor import READY, WorkerConfig


def main() -> int:
    """Serve until the supervisor stops or exits; return the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    config = WorkerConfig.decode(sys.stdin.buffer.readline())

    def report_ready() -> None:
        os.write(config.ready, READY)

    try:
        with Memory.open(
            settings=config.settings, wait_seconds=serve.WAIT_SECONDS, complete_index=False
        ) as memory:
            return serve.run(
                memory,
                socket.socket(fileno=config.listener),
                report_ready,
                parent=sys.stdin.fileno(),
                readiness_mark=Path(config.readiness_mark),
                jobs=config.jobs,
            )
    except MemoristError as error:
        print(f"memorist: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
