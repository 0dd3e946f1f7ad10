"""Serving the web app: caching, content security policy, and a missing build."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from memorist import Memory
from memorist.server.http.app import create_app
from memorist.server.routes import web_app
from testkit.apps import HERE, URL, Calling
from testkit.browser import Web


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built site."""
    folder = tmp_path / "site"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>memorist</title>" + " " * 500)
    (folder / "assets" / "index-a1B2_c3-.js").write_text("// " + "said " * 500)
    (folder / "assets" / "theme.js").write_text("1")
    (folder / "assets" / "notes.exe").write_text("not served")
    (tmp_path / "secret.js").write_text("secret")
    monkeypatch.setattr(web_app, "FOLDER", folder)
    return folder


@pytest.fixture
def browser(memory: Memory, built: Path) -> TestClient:
    """A remote client without a key."""
    return TestClient(
        create_app(memory), URL, client=("192.0.2.1", 50_000), raise_server_exceptions=False
    )


def test_every_page_address_serves_the_page_without_a_key(browser: TestClient) -> None:
    for path in [
        "/",
        *(f"/{page}{below}" for page in web_app.PAGES for below in ("", "/", "/a/b%2Fc?d=e")),
    ]:
        value = browser.get(path)
        assert value.status_code == 200, path
        assert value.text.startswith("<!doctype html>")
        assert value.headers["Content-Type"] == "text/html; charset=utf-8"
        assert value.headers["Cache-Control"] == "no-cache"
    assert browser.get("/api/sessions").status_code == 401
    assert browser.get("/nowhere").status_code == 404


def test_an_unknown_address_serves_a_page_to_browsers(browser: TestClient) -> None:
    """A browser gets a page with status 404; programs get a problem."""
    html = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nowhere", "/no/such/page", "/chats"):
        value = browser.get(path, headers=html)
        assert value.status_code == 404, path
        assert value.text.startswith("<!doctype html>"), path
        assert "Content-Security-Policy" in value.headers
        problem = browser.get(path)
        assert problem.status_code == 404
        assert problem.headers["Content-Type"] == "application/problem+json"
    for request in (
        browser.get("/api/nowhere", headers=html),
        browser.post("/nowhere", headers=html),
    ):
        assert request.status_code == 404
        assert request.headers["Content-Type"] == "application/problem+json"


def test_the_content_security_policy(browser: TestClient) -> None:
    """P0.6"""
    results = dict(
        part.strip().split(" ", 1)
        for part in browser.get("/").headers["Content-Security-Policy"].split(";")
    )
    assert results["default-src"] == "'none'"
    assert {
        results[name] for name in ("script-src", "style-src", "connect-src", "form-action")
    } == {"'self'"}
    assert {results[name] for name in ("object-src", "base-uri", "frame-ancestors")} == {"'none'"}
    assert results["img-src"] == "'self' data: blob:"
    assert results["require-trusted-types-for"] == "'script'"


def test_hashed_files_are_cached_forever(browser: TestClient) -> None:
    hashed = browser.get("/assets/index-a1B2_c3-.js")
    assert hashed.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert hashed.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert hashed.headers["X-Content-Type-Options"] == "nosniff"
    assert [
        web_app._HASHED.search(name) is None for name in ("app-settings.js", "a-b1234567.js")
    ] == [True, False]
    assert browser.get("/assets/theme.js").headers["Cache-Control"] == "no-cache"
    again = browser.get("/", headers={"If-None-Match": browser.get("/").headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert browser.get("/").headers["ETag"].startswith('W/"'), (
        "compressed or not, it is the same file, not the same bytes"
    )
    assert browser.get("/", headers={"If-None-Match": "*"}).status_code == 304
    assert browser.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    ("accepts", "packed"),
    [
        ("gzip, deflate, br", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("", False),
        ("gzip;q=0", False),
        ("br", False),
    ],
)
def test_files_are_sent_in_an_accepted_encoding(
    browser: TestClient, built: Path, accepts: str, packed: bool
) -> None:
    with browser.stream(
        "GET", "/assets/index-a1B2_c3-.js", headers={"Accept-Encoding": accepts}
    ) as result:
        raw = b"".join(result.iter_raw())
    assert (result.headers.get("Content-Encoding") == "gzip") == packed
    assert result.headers["Vary"] == "Accept-Encoding"
    text = (built / "assets" / "index-a1B2_c3-.js").read_bytes()
    assert (gzip.decompress(raw) if packed else raw) == text
    assert int(result.headers["Content-Length"]) == len(raw)


@pytest.mark.parametrize(
    "path",
    [
        "", "../../secret.js", "..%2f..%2fsecret.js", "%2e%2e/%2e%2e/secret.js", "/etc/passwd",
        "notes.exe", "no.js", ".",
    ],
)  # fmt: skip
def test_only_files_of_the_site_are_served(browser: TestClient, path: str) -> None:
    value = browser.get(f"/assets/{path}")
    assert value.status_code == 404
    assert value.headers["Content-Type"] == "application/problem+json"
    assert "secret" not in value.text.replace("secret.js", "")


def test_head_requests(browser: TestClient) -> None:
    result = browser.head("/")
    assert (result.status_code, result.content) == (200, b"")
    assert int(result.headers["Content-Length"]) > 0
    assert browser.post("/").status_code == 405


def test_without_a_built_site_the_page_says_how_to_build_it(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "FOLDER", tmp_path / "nothing")
    here = TestClient(create_app(memory), URL, client=HERE)
    for path in ("/", "/chat/scout"):
        page = here.get(path)
        assert page.status_code == 200
        for item in (
            "make site", "Node.js 20", "install memorist again", "/docs", "/mcp", "/healthz",
        ):  # fmt: skip
            assert item in page.text
        assert "<script" not in page.text
        assert page.headers["Cache-Control"] == "no-cache"
    assert here.get("/assets/index.js").status_code == 404
    assert here.get("/api/sessions").status_code == 200


def test_an_unknown_api_address_is_a_problem(calling: Calling) -> None:
    value = calling().get("/api/nothing")
    assert value.status_code == 404
    assert value.headers["Content-Type"] == "application/problem+json"


def test_the_browser_blocks_injected_html_and_foreign_loads(web: Web) -> None:
    """P0.6: the browser stops what a mistake in the page would do."""
    web.expects("Content Security Policy", "Trusted", "127.0.0.2")
    web.open("/")
    expect(web.page.get_by_role("main")).to_be_visible()
    for attempt in (
        'innerHTML = "<b>x</b>"',
        'setAttribute("onerror", "window.hit = 1")',
        'outerHTML = "<i></i>"',
    ):
        refused = (
            f"() => {{ try {{ document.body.{attempt}; return false }} catch {{ return true }} }}"
        )
        assert web.page.evaluate(refused), attempt
    beacon = """() => { const one = document.createElement("img"); one.src = "http://127.0.0.2:1/x.png";
        return new Promise(done => { one.onload = () => done("loaded"); one.onerror = () => done("refused") }) }"""
    assert web.page.evaluate(beacon) == "refused"
    assert any("x.png" in text and "violates" in text for text in web.wrong), web.wrong


def test_errors_on_a_page_are_recorded(web: Web) -> None:
    """Otherwise the browser tests would prove less than they claim."""
    web.open("/healthz")
    web.page.evaluate("console.error('broken')")
    web.page.evaluate("fetch('http://127.0.0.2:1/beacon').catch(() => 0)")
    assert any("broken" in text for text in web.wrong)
    assert any("127.0.0.2:1/beacon" in text for text in web.wrong)
    web.expects("broken", "beacon")
