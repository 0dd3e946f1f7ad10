"""Take the pictures of the documentation into docs/images, with the installed browser.

python scripts/take_pictures.py

The conversation is made up; a scripted model answers its first two messages, and the last one is
answered from memory.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, ViewportSize, sync_playwright

from memorist import Client, Memory
from memorist.base.settings import Settings
from memorist.models.model import Models
from memorist.testing import ScriptedModel

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT))  # testkit is not installed

from testkit.browser import BROWSERS, settled  # noqa: E402
from testkit.running import running  # noqa: E402

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
SIZE = ViewportSize(width=1200, height=760)
TURNS = (
    (
        "My sister Clara moved to Lisbon. She lives near the river, in Alfama.",
        "Noted: Clara lives in Alfama, Lisbon.",
    ),
    (
        "I never fly. I always take the night train from Hendaye.",
        "Understood: trains only, and the night train from Hendaye.",
    ),
)
QUESTION = "Where does my sister live, and how do I get there?"


def main() -> None:
    """Fill a database, serve it, and take each picture."""
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/pictures.db"
        session = fill(database)
        with Memory.open(database) as memory, running(memory) as (_, (host, port)):
            url = f"http://{host}:{port}"
            Client(url).chat(QUESTION, user="default", agent="scout", session=session)
            with sync_playwright() as playwright:
                browser = next(filter(None, map(shutil.which, BROWSERS)), None)
                if browser is None:
                    raise SystemExit("There is no browser: run `make test-tools` first.")
                page = playwright.chromium.launch(executable_path=browser, args=FLAGS).new_page(
                    viewport=SIZE
                )
                take(page, f"{url}/chat/scout", "chat")
                take(page, f"{url}/why", "why")


def fill(database: str) -> str:
    """Store an agent, its memory and the first turns; return the id of the session."""
    settings = Settings(database=database)
    models = Models(settings, main=ScriptedModel(*(answer for _, answer in TURNS)))
    with Memory.open(settings=settings, models=models) as memory:
        me = memory.scope(user="default", agent="scout")
        me.agents.add("scout", prompt="You help to plan journeys by train.", color="#2563eb")
        me.notes.append("## Travel\nNever flies; takes the train.")
        me.entries.add("Clara, the user's sister, lives in Lisbon.", kind="core")
        me.state.set("currency", "EUR")
        session = me.sessions.add(label="Spring in Lisbon")
        with running(memory) as (_, (host, port)):
            client = Client(f"http://{host}:{port}")
            for message, _ in TURNS:
                client.chat(message, user="default", agent="scout", session=session.id)
        memory.jobs.run()
    return session.id


def take(page: Page, url: str, name: str) -> None:
    """Open a page and store its picture."""
    page.goto(url)
    settled(page)
    page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png")


if __name__ == "__main__":
    main()
