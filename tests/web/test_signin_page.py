"""The sign-in page: a wrong key, a missing server, rate limits, and an expiring sign-in."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from memorist import Memory
from testkit.browser import Web

UNKNOWN = "Invalid key"


def _end(web: Web, key: str) -> None:
    """Revoke a key as another person would."""
    authenticator = web.server.config.app.state.authenticator  # type: ignore[union-attr]
    authenticator.memory.scope(tenant="default").admin.keys.revoke(key.split("_")[2])
    authenticator.forget()


@pytest.mark.smoke
def test_signing_in_leads_to_the_requested_page(web: Web) -> None:
    """A wrong key is reported; the right one opens the requested address."""
    web.expects("401")
    key = web.key()
    page = web.device(signed_in=False)
    web.open("/operations/health", page)
    expect(page.get_by_role("heading", name="Sign in to memorist")).to_be_visible()
    assert web.axe(page) == []
    web.sign_in(key[:-1] + ("a" if key[-1] != "a" else "b"), page)
    expect(page.get_by_text(UNKNOWN)).to_be_visible()
    web.sign_in(key, page)
    expect(page.get_by_role("link", name="Health")).to_have_attribute("aria-current", "page")
    assert page.url.endswith("/operations/health")
    stored = "JSON.stringify({...localStorage, ...sessionStorage})"
    assert key not in page.evaluate(stored)
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_title("Switch user").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to memorist")).to_be_visible()


def test_a_missing_server_and_rate_limits_are_reported(web: Web) -> None:
    web.expects("401", "429", "ERR_CONNECTION_REFUSED")
    web.key()
    web.restart(rate_per_second=1.0)
    page = web.device(signed_in=False)
    web.open("/", page)
    page.get_by_label("API key").fill("mst_wrong")
    web.stop()
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("The server does not answer")).to_be_visible()
    expect(page.get_by_label("API key")).to_have_value("mst_wrong")
    web.start()
    button = page.get_by_role("button", name=re.compile("Sign in|Try again"))
    for _ in range(3):
        button.click()
        expect(page.get_by_text(re.compile(f"{UNKNOWN}|Too many attempts"))).to_be_visible()
    expect(button).to_have_text(re.compile(r"Try again in \d s"))
    expect(button).to_be_disabled()
    expect(page.get_by_role("button", name="Sign in")).to_be_enabled()
    web.screens("signin", page)


def test_input_survives_an_expired_sign_in(web: Web) -> None:
    web.expects("401")
    first, second = web.key(), web.key()
    page = web.sign_in(first, path="/operations/audit")
    page.get_by_label("What", exact=True).fill("signin")
    expect(page.get_by_role("list", name="Audit records").get_by_role("button")).to_have_count(1)
    _end(web, first)
    page.get_by_label("What", exact=True).fill("keys_add")
    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible()
    assert web.axe(page) == []
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text("Nothing is saved until you sign in again")).to_be_visible()
    page.get_by_role("complementary", name="Signed out").get_by_role(
        "button", name="Sign in"
    ).click()
    web.sign_in(second, page)
    expect(dialog).to_be_hidden()
    expect(page.get_by_label("What", exact=True)).to_have_value("keys_add")
    page.get_by_label("What", exact=True).fill("signin")
    expect(page.get_by_role("list", name="Audit records").get_by_role("button")).to_have_count(2)


def test_a_rejected_write_is_repeated_after_signing_in(web: Web) -> None:
    """A write that was rejected because the sign-in had expired is made once."""
    web.expects("401")
    first, second = web.key(), web.key()
    page = web.sign_in(first, path="/operations/keys")
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name").fill("for the night")
    _end(web, first)
    page.get_by_role("button", name="Create the key").click()
    again = page.get_by_role("dialog", name="Sign in again")
    again.get_by_label("API key").fill(second)
    again.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("dialog", name="Your new key")).to_be_visible()
    memory = web.server.config.app.state.memory  # type: ignore[union-attr]
    assert [key.name for key in memory.scope(tenant="default").admin.keys.list()].count(
        "for the night"
    ) == 1


def test_a_tab_follows_a_sign_in_in_another_tab(web: Web) -> None:
    """The CSRF token changes with a new sign-in; the older tab asks for it and continues."""
    web.expects("403")
    key = web.key()
    page = web.sign_in(key, path="/operations/keys")
    page.get_by_role("button", name="New key").click()
    other = page.context.new_page()
    web.open("/chat", other)
    other.evaluate(
        """key => fetch("/api/web/sign-in", {method: "POST", headers: {"Content-Type": "application/json"},
                        body: JSON.stringify({key, remember: false})})""",
        key,
    )
    page.get_by_label("Name").fill("a second one")
    page.get_by_role("button", name="Create the key").click()
    expect(page.get_by_role("dialog", name="Your new key")).to_be_visible()


def test_the_next_user_sees_no_data_of_the_previous_one(web: Web, memory: Memory) -> None:
    """P0: two keys of two tenants in one tab; drafts and conversations are separate."""
    web.expects("404")
    first, second = web.key(), web.key(tenant="other")
    memory.scope(tenant="default", user="default", agent="assistant").sessions.add("the one")
    memory.scope(tenant="default", user="default", agent="assistant").messages.append(
        "the one", "user", "The secret of the first"
    )
    page = web.sign_in(first, path="/chat/assistant/the one")
    expect(page.get_by_text("The secret of the first").first).to_be_visible()
    page.get_by_role("textbox", name="Message").fill("A draft of the first")
    page.get_by_title("Switch user").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to memorist")).to_be_visible()
    assert "first" not in page.evaluate("JSON.stringify({...localStorage, ...sessionStorage})")
    web.sign_in(second, page)
    expect(page.get_by_role("textbox", name="Message")).to_have_value("")
    web.open("/chat/assistant/the one", page)
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    expect(page.get_by_text("The secret of the first")).to_have_count(0)


def test_signing_out_without_a_server_is_reported(web: Web) -> None:
    web.expects("ERR_CONNECTION_REFUSED", "401")
    web.lock()
    page = web.open("/operations/keys")
    page.get_by_title("Switch user").click()
    web.stop()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("dialog").get_by_text("The server does not answer")).to_be_visible()
    web.start()
    page.get_by_role("dialog").get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Sign in to memorist")).to_be_visible()
