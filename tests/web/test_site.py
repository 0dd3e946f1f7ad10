"""The page as it is served: what a browser may keep, what it may not run, and what is there where nothing was built."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from playwright.sync_api import expect
from starlette.testclient import TestClient

from retain import Memory
from retain.server import web_app
from retain.server.app import create_app
from tests.calling import HERE, URL, Calling
from tests.conftest import one_engine
from tests.web.browsing import Web

pytestmark = one_engine


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site, built."""
    folder = tmp_path / "site"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>retain</title>" + " " * 500)
    (folder / "assets" / "index-a1B2_c3-.js").write_text("// " + "said " * 500)
    (folder / "assets" / "theme.js").write_text("1")
    (folder / "assets" / "notes.exe").write_text("not served")
    (tmp_path / "secret.js").write_text("secret")
    monkeypatch.setattr(web_app, "FOLDER", folder)
    return folder


@pytest.fixture
def browser(memory: Memory, built: Path) -> TestClient:
    """A client without a key, from somewhere else."""
    return TestClient(
        create_app(memory), URL, client=("192.0.2.1", 50_000), raise_server_exceptions=False
    )


def test_every_address_of_the_page_is_the_page_and_needs_no_key(browser: TestClient) -> None:
    for path in [
        "/",
        *(f"/{page}{below}" for page in web_app.PAGES for below in ("", "/", "/a/b%2Fc?d=e")),
    ]:
        found = browser.get(path)
        assert found.status_code == 200, path
        assert found.text.startswith("<!doctype html>")
        assert found.headers["Content-Type"] == "text/html; charset=utf-8"
        assert found.headers["Cache-Control"] == "no-cache"
    assert browser.get("/api/sessions").status_code == 401
    assert browser.get("/nowhere").status_code == 404


def test_people_get_a_page_at_an_unknown_address(browser: TestClient) -> None:
    """A browser that asks for a page gets one, with status 404; programs get a problem."""
    html = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for path in ("/nowhere", "/no/such/page", "/chats"):
        found = browser.get(path, headers=html)
        assert found.status_code == 404, path
        assert found.text.startswith("<!doctype html>"), path
        assert "Content-Security-Policy" in found.headers
        problem = browser.get(path)
        assert problem.status_code == 404
        assert problem.headers["Content-Type"] == "application/problem+json"
    for request in (
        browser.get("/api/nowhere", headers=html),
        browser.post("/nowhere", headers=html),
    ):
        assert request.status_code == 404
        assert request.headers["Content-Type"] == "application/problem+json"


def test_no_script_but_files_of_ours_and_no_text_that_becomes_html(browser: TestClient) -> None:
    """P0.6"""
    found = dict(
        part.strip().split(" ", 1)
        for part in browser.get("/").headers["Content-Security-Policy"].split(";")
    )
    assert found["default-src"] == "'none'"
    assert {found[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {
        "'self'"
    }
    assert {found[name] for name in ("object-src", "base-uri", "frame-ancestors")} == {"'none'"}
    assert found["img-src"] == "'self' data: blob:"
    assert found["require-trusted-types-for"] == "'script'"


def test_what_has_its_hash_in_its_name_is_kept_for_good(browser: TestClient) -> None:
    hashed = browser.get("/assets/index-a1B2_c3-.js")
    assert hashed.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert hashed.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert hashed.headers["X-Content-Type-Options"] == "nosniff"
    assert [
        web_app._HASHED.search(name) is None for name in ("app-settings.js", "a-b1234567.js")
    ] == [
        True,
        False,
    ]
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
def test_a_file_is_sent_as_the_browser_takes_it(
    browser: TestClient, built: Path, accepts: str, packed: bool
) -> None:
    with browser.stream(
        "GET", "/assets/index-a1B2_c3-.js", headers={"Accept-Encoding": accepts}
    ) as found:
        raw = b"".join(found.iter_raw())
    assert (found.headers.get("Content-Encoding") == "gzip") == packed
    assert found.headers["Vary"] == "Accept-Encoding"
    text = (built / "assets" / "index-a1B2_c3-.js").read_bytes()
    assert (gzip.decompress(raw) if packed else raw) == text
    assert int(found.headers["Content-Length"]) == len(raw)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../../secret.js",
        "..%2f..%2fsecret.js",
        "%2e%2e/%2e%2e/secret.js",
        "/etc/passwd",
        "notes.exe",
        "no.js",
        ".",
    ],
)
def test_nothing_but_the_files_of_the_site_is_served(browser: TestClient, path: str) -> None:
    found = browser.get(f"/assets/{path}")
    assert found.status_code == 404
    assert found.headers["Content-Type"] == "application/problem+json"
    assert "secret" not in found.text.replace("secret.js", "")


def test_asking_without_the_content(browser: TestClient) -> None:
    found = browser.head("/")
    assert (found.status_code, found.content) == (200, b"")
    assert int(found.headers["Content-Length"]) > 0
    assert browser.post("/").status_code == 405


def test_where_nothing_was_built_the_page_says_how(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "FOLDER", tmp_path / "nothing")
    here = TestClient(create_app(memory), URL, client=HERE)
    for path in ("/", "/chat/scout"):
        page = here.get(path)
        assert page.status_code == 200
        for said in ("make site", "Node.js 20", "wheel", "/docs", "/mcp", "/healthz"):
            assert said in page.text
        assert "<script" not in page.text
        assert page.headers["Cache-Control"] == "no-cache"
    assert here.get("/assets/index.js").status_code == 404
    assert here.get("/api/sessions").status_code == 200


def test_an_address_of_the_api_that_is_not_there_is_a_problem(calling: Calling) -> None:
    found = calling().get("/api/nothing")
    assert found.status_code == 404
    assert found.headers["Content-Type"] == "application/problem+json"


def test_no_text_can_become_html_and_nothing_can_be_loaded_from_elsewhere(web: Web) -> None:
    """P0.6: what a mistake on the page would do is stopped by the browser."""
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
