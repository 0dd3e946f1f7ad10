"""The load generator of the benchmarks."""

from __future__ import annotations

from collections import Counter

from bench.load import MAX_LATENCIES, Outcome, format_request


def test_an_outcome_counts_more_responses_than_it_has_latencies() -> None:
    outcome = Outcome(2.0, Counter({201: 5000, 503: 10, 0: 1}), [0.001] * MAX_LATENCIES)
    assert outcome.successes_per_second == 2500
    assert outcome.errors == 11


def test_a_request_names_the_length_of_its_body() -> None:
    request = format_request("POST", "/api/search", {"query": "tea"}, X_Memorist_User="ada")
    head, _, body = request.partition("\r\n\r\n")
    assert body == '{"query": "tea"}'
    assert head.split("\r\n")[0] == "POST /api/search HTTP/1.1"
    assert f"Content-Length: {len(body)}" in head
    assert "X-Memorist-User: ada" in head
