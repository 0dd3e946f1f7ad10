"""Attack our own server with third-party tools: sqlmap on its parameters, bandit on the source."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from memorist import Memory, Settings
from memorist.admin.principal import PERMISSIONS
from memorist.server.http.app import create_app
from testkit.examples import populate
from testkit.serving import serving

TARGETS: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "/api/state?prefix=a*&area=user&limit=5", None),
    ("GET", "/api/entries?kind=core&search=a*&limit=5", None),
    ("GET", "/api/documents/search?query=canary*&limit=5", None),
    ("GET", "/api/interactions/totals?by=day&model=m*&route=r", None),
    ("GET", "/api/audit?who=a*&what=state_set&limit=5", None),
    ("GET", "/api/sessions/trip*", None),
    ("GET", "/api/refs?type=note*&session=trip", None),
    ("POST", "/api/search", {"query": "canary*"}),
    ("POST", "/api/messages/trip", {"role": "user", "content": "hello*", "key": "k*"}),
    ("POST", "/api/chat", {"message": "hello*", "key": "k*"}),
)
"""Routes for every way in which text reaches the database; `*` marks the attacked parameter."""
VULNERABLE = re.compile(r"is vulnerable|identified the following injection point", re.IGNORECASE)
CLEAN = re.compile(r"do not appear to be injectable|does not seem to be injectable")
SKIPPED_RULES = "B608,B104,B310"
"""Rules that ruff also checks; comments in the source justify the exceptions. tests/test_sql_gate.py
checks the SQL statements."""
TIMEOUT_SECONDS = 300


def sqlmap(address: str, key: str, folder: str) -> list[str]:
    """Return the findings of sqlmap, and the requests that could not be tested."""
    level = os.environ.get("LEVEL", "1")
    problems = []
    for method, path, body in TARGETS:
        command = [
            _uv(),
            "tool",
            "run",
            "sqlmap",
            "-u",
            f"{address}{path}",
            "--method",
            method,
            "--batch",
            "--flush-session",
        ]
        command += [
            "--level",
            level,
            "--risk",
            "2",
            "--threads",
            "1",
            "--output-dir",
            folder,
            "--disable-coloring",
        ]
        command += ["--smart"] if "--smart" in sys.argv else []
        command += [
            "-H",
            f"Authorization: Bearer {key}",
            "-H",
            "X-Memorist-User: ada",
            "--ignore-code",
            "*",
        ]
        if body is not None:
            command += ["--data", json.dumps(body), "-H", "Content-Type: application/json"]
        try:
            output = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            ).stdout
        except subprocess.TimeoutExpired:
            output = f"sqlmap did not finish within {TIMEOUT_SECONDS} seconds"
        is_clean = CLEAN.search(output) and not VULNERABLE.search(output)
        if not is_clean:
            problems.append(f"{method} {path}\n{output[-2000:]}")
        print(f"{'ok' if is_clean else '!!'} {method} {path}", flush=True)
    return problems


def bandit() -> list[str]:
    """Return the findings of bandit of medium severity and above."""
    command = [
        _uv(),
        "tool",
        "run",
        "bandit",
        "--quiet",
        "--recursive",
        "packages",
        "-ll",
        "--skip",
        SKIPPED_RULES,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    return [done.stdout + done.stderr] if done.returncode else []


def _uv() -> str:
    return shutil.which("uv") or ".cache/uv/bin/uv"


def main() -> int:
    """Run both tools and print the findings."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(database=f"sqlite:///{folder}/attacked.db", rate_per_second=0)
        with Memory.open(settings=settings) as memory:
            me = memory.scope(tenant=None, user="ada", agent="scout")
            populate(me)
            me.sessions.add("trip")
            keys = memory.scope(tenant=settings.tenant).admin.keys
            key = keys.add("attacker", permissions=sorted(PERMISSIONS)).key
            with serving(create_app(memory)) as address:
                problems = [*bandit(), *sqlmap(address, key, folder)]
            problems += [str(finding) for finding in memory.verify() if finding.problem]
    print("\n".join(problems) or "No problems found.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
