"""Over HTTP, a hit says what is true instead of a message whose statement was replaced."""

from __future__ import annotations

from testkit.apps import Calling


def test_a_hit_says_what_is_true_instead(calling: Calling) -> None:
    client = calling("acme")
    client.headers |= {"X-Memorist-User": "ada", "X-Memorist-Agent": "scout"}
    for session, text in (("old", "I live in Porto."), ("new", "I am in Berlin now.")):
        client.post("/api/sessions", json={"id": session})
        client.post(f"/api/messages/{session}", json={"role": "user", "content": text})
    porto = {"statement": "The user lives in Porto.", "evidence": ["old#1"]}
    fact = client.post("/api/facts", json=porto).json()
    change = {
        "statement": "The user lives in Berlin.",
        "since": "2026-05-01T00:00:00Z",
        "evidence": ["new#1"],
    }
    assert client.post(f"/api/facts/{fact['id']}/correct", json=change).is_success
    hits = client.post("/api/search", json={"query": "Where do I live?"}).json()["data"]
    assert [(hit["text"], hit["newer_statement"]) for hit in hits] == [
        ("I am in Berlin now.", ""),
        ("I live in Porto.", "since 1 May 2026: The user lives in Berlin."),
    ]
