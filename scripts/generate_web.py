"""Write the types of the web app from the OpenAPI document: web/src/api/schema.ts.

python scripts/generate_web.py            write the file
python scripts/generate_web.py --check    fail if the file is out of date
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from build_site import run

from retain import Memory
from retain.server import openapi
from retain.server.app import create_app

WEB = Path(__file__).parent.parent / "web"
TYPES = WEB / "src" / "api" / "schema.ts"


def types() -> str:
    """Return the types of every request and response."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(f"sqlite:///{folder}/empty.db") as memory,
    ):
        document = Path(folder, "openapi.json")
        output = Path(folder, "schema.ts")
        document.write_text(json.dumps(openapi.document(create_app(memory))))
        run("types", "--", str(document), "--output", str(output))
        return output.read_text()


def main() -> int:
    """Write the file, or check it."""
    expected = types()
    if "--check" not in sys.argv:
        TYPES.write_text(expected)
        return 0
    if TYPES.read_text() == expected:
        return 0
    print(
        f"{TYPES.relative_to(WEB.parent)} is out of date: run `make generate`",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
