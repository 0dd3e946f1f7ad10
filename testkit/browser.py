"""A browser with a real server over the test's database."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)

from memorist import Memory, Scope
from memorist.admin.browser_sessions import BrowserSessions
from memorist.admin.credentials import decode_tenant
from memorist.admin.local import allows_requests_without_key
from memorist.admin.principal import PERMISSIONS
from memorist.kinds.trust import Source
from memorist.models import Completion, ModelReply, Models
from memorist.server.http.authentication import name_of
from memorist.server.process.serve import Server, bind, server
from memorist.server.routes import web_app
from memorist.testing import EchoModel, ScriptedModel
from testkit.databases import SETTINGS
from testkit.keys import create_key

ROOT = Path(__file__).parent.parent
SCREENS = ROOT / ".cache" / "screens"
"""Folder of the screenshots of `web.screens`."""
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first installed one is used; the headless shell needs the least memory."""
SIZES = {1280: 800, 390: 844}
PICTURED = os.environ.get("SCREENS") == "full"
SECONDS = 15.0
expect.set_options(timeout=SECONDS * 1000)  # a busy machine is no failure
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-dev-shm-usage",
]
_AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
if "WEB_SITE" in os.environ:  # a build of one's own, while others run tests on theirs
    web_app.FOLDER = Path(os.environ["WEB_SITE"])


class _CurrentModel:
    """The model of a server: calls the model that `web.model` has at the moment."""

    def __init__(self, web: Web) -> None:
        self._web = web

    @property
    def name(self) -> str:
        return self._current().name

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        return self._current().complete(system, prompt, max_tokens=max_tokens)

    def converse(self, *arguments: Any, **options: Any) -> ModelReply:
        return self._current().converse(*arguments, **options)

    def _current(self) -> ScriptedModel:
        assert self._web.model is not None
        return self._web.model


class Web:
    """A server, and a browser that uses it."""

    def __init__(self, database: str, browser: Browser, memory: Memory) -> None:
        self.memory = memory
        """The same database, opened by the test; it works while the server is stopped."""
        self.model: ScriptedModel | None = EchoModel(lambda prompt: f"You said: {prompt}")
        """The model; None, set before a start, for a server without one."""
        self.settings = replace(SETTINGS, database=database)
        """Settings of the server; `restart(secrets="reject")` changes some."""
        self.wrong: list[str] = []
        """Errors so far, on any page."""
        self._browser = browser
        self._expected: list[str] = []
        self._running = ExitStack()
        self._contexts: list[BrowserContext] = []
        self._port = 0
        self.start()
        self._key = "" if allows_requests_without_key(self.settings) else self.key()
        self.page: Page = self.device()

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._port}"

    def open(self, path: str = "/", page: Page | None = None) -> Page:
        """Open an address and return the page."""
        page = page or self.page
        page.goto(self.url + path)
        return page

    def scope(self, agent: str = "scout", source: Source = "user", user: str = "default") -> Scope:
        """Return a memory of the tenant that the pages show."""
        return self.memory.scope(tenant="default", user=user, agent=agent, source=source)

    @property
    def me(self) -> Scope:
        """The memory of the user whom the pages show, with the agent scout."""
        return self.scope()

    def reader(self, path: str) -> Page:
        """Open an address on a device with a key that may only read."""
        page = self.device(signed_in=False)
        page.context.add_cookies([self.cookie(self.key(["read"]))])
        return self.open(path, page)

    def sign_in(self, key: str, page: Page | None = None, path: str = "") -> Page:
        """Type a key into the sign-in page, perhaps after opening an address on a new device."""
        page = page or self.open(path, self.device(signed_in=False))
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        return page

    def tab(self) -> Page:
        """Open another page of the first device, with the same cookies and storage."""
        return self._watch(self.page.context.new_page())

    def device(self, *, signed_in: bool = True, **options: Any) -> Page:
        """Open a page of another device with empty storage; `options` are those of a Playwright
        context.
        """
        arguments = {
            "viewport": {"width": 1280, "height": 800},
            "reduced_motion": "reduce",
            "locale": "en-GB",
        }
        context = self._browser.new_context(base_url=self.url, **(arguments | options))
        context.set_default_timeout(SECONDS * 1000)
        if signed_in and self._key:
            context.add_cookies([self.cookie(self._key)])
        context.on("request", self._requested)
        self._contexts.append(context)
        return self._watch(context.new_page())

    def expects(self, *texts: str) -> None:
        """Allow errors that contain one of these texts."""
        self._expected += texts

    def key(
        self, permissions: Iterable[str] = PERMISSIONS, tenant: str = "default", **bound: Any
    ) -> str:
        """Create a key and return its text; from the first one on the server requires a key."""
        _, text = create_key(self._memory, tenant, "a test", permissions, **bound)
        self.server.config.app.state.authenticator.forget()  # type: ignore[union-attr]
        return text

    def lock(self) -> None:
        """Require a key from now on, and sign the devices of the test in."""
        self._key = self._key or self.key()
        self.page.context.add_cookies([self.cookie(self._key)])

    def cookie(self, key: str) -> Any:
        """Return the cookie of a browser that signed in with a key."""
        _, tenant, id, _ = key.split("_")
        created = BrowserSessions(self._memory.database).add(decode_tenant(tenant), id)
        name = name_of(f"127.0.0.1:{self._port}", secure=False)
        return {
            "name": name,
            "value": created.text,
            "url": self.url,
            "httpOnly": True,
            "sameSite": "Strict",
        }

    @property
    def _memory(self) -> Memory:
        memory: Memory = self.server.config.app.state.memory  # type: ignore[union-attr]
        return memory

    def start(self, **changes: Any) -> None:
        """Start the server on its port with the same database, and perhaps other settings."""
        self.settings = settings = replace(self.settings, **changes)
        main: Any = _CurrentModel(self) if self.model else None
        with ExitStack() as stack:
            memory = stack.enter_context(
                Memory.open(settings=settings, models=Models(settings, main=main))
            )
            listener: socket.socket = stack.enter_context(bind("127.0.0.1", self._port))
            self._port = listener.getsockname()[1]
            ready = threading.Event()
            self.server: Server = server(memory, ready.set)
            thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
            thread.start()
            stack.callback(self._end, thread)
            assert ready.wait(30)
            self._running = stack.pop_all()

    def stop(self) -> None:
        """Stop the server; connections are refused."""
        self._running.close()

    def restart(self, **changes: Any) -> None:
        """Restart the server on its port with a newly opened memory."""
        self.stop()
        self.start(**changes)

    def axe(self, page: Page | None = None, *, rule: str = "", inside: str = "html") -> list[str]:
        """Return the serious accessibility problems of the page.

        `rule` checks a single rule, such as "color-contrast" for another theme. `inside` selects a
        part.
        """
        page = page or self.page
        if not page.evaluate("'axe' in window"):
            page.evaluate(_AXE.read_text())
        assert page.locator(inside).count() == 1
        options = {"resultTypes": ["violations"]} | ({"runOnly": [rule]} if rule else {})
        result = page.evaluate("([inside, options]) => axe.run(inside, options)", [inside, options])
        return [
            f"{violation['id']}: {violation['help']}: {', '.join(str(node['target']) for node in violation['nodes'][:3])}"
            for violation in result["violations"]
            if violation["impact"] in ("serious", "critical")
        ]

    def screens(self, name: str, page: Page | None = None) -> None:
        """Take screenshots if SCREENS=full: both themes, wide and narrow."""
        page = page or self.page
        if not PICTURED:
            return
        SCREENS.mkdir(parents=True, exist_ok=True)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            for width, height in SIZES.items():
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(50)
                page.screenshot(path=SCREENS / f"{name}-{theme}-{width}.png")
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        page.set_viewport_size({"width": 1280, "height": 800})

    def close(self) -> None:
        """Close all pages and the server; fail if errors occurred."""
        for context in self._contexts:
            context.close()
        self.stop()
        unmeant = [text for text in self.wrong if not any(part in text for part in self._expected)]
        assert not unmeant, unmeant

    def _end(self, thread: threading.Thread) -> None:
        self.server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()

    def _watch(self, page: Page) -> Page:
        page.on("console", self._said)
        page.on("pageerror", self._failed)
        return page

    def _said(self, message: ConsoleMessage) -> None:
        where = message.location.get("url", "")
        if message.type in ("error", "assert") and not where.endswith(
            "/favicon.ico"
        ):  # of an answer that is no page
            self.wrong.append(f"console: {message.text} ({where})")

    def _failed(self, error: Error) -> None:
        self.wrong.append(f"exception: {error}")

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.wrong.append(f"request to {request.url}")


@contextmanager
def delay_requests(page: Page, address: str, method: str = "GET") -> Iterator[None]:
    """Hold requests to an address, such as `**/api/notes?*`, during the block; fail if there were
    none.
    """
    waiting: list[Route] = []
    page.route(
        address,
        lambda route: waiting.append(route) if route.request.method == method else route.fallback(),
    )
    yield
    while not waiting:
        page.wait_for_timeout(10)
    for route in waiting:
        route.continue_()
    page.unroute(address)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Callable[[], Browser]]:
    """The distribution's browser, started once per process when a test needs it.

    Playwright's event loop counts as running in this thread only during browser tests; otherwise
    other tests could not run their own.
    """
    item = next(filter(None, map(shutil.which, BROWSERS)), None)
    if item is None:
        assert not os.environ.get("CI"), "there is no browser: scripts/test_tools.sh installs one"
        pytest.skip("Chromium is not installed: run the tests with `make test`")
    with sync_playwright() as playing:
        browser = playing.chromium.launch(executable_path=item, args=_FLAGS)
        loop = asyncio.get_running_loop()
        asyncio._set_running_loop(None)

        def wake() -> Browser:
            asyncio._set_running_loop(loop)
            return browser

        yield wake
        wake().close()


@pytest.fixture
def web(url: str, memory: Memory, chromium: Callable[[], Browser]) -> Iterator[Web]:
    """A server on the test's database, and an empty browser."""
    created = Web(url, chromium(), memory)
    try:
        yield created
        created.close()
    finally:
        created.stop()
        asyncio._set_running_loop(None)


def settled(page: Page) -> None:
    """Wait until all requests of the page are answered."""
    expect(page.get_by_role("heading", level=1).first).to_be_visible()
    expect(page.get_by_text("Loading")).to_have_count(0)
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
