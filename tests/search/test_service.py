"""The embedding service: OpenAI's protocol, deadlines, and validation of responses (F7)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from memorist.base.errors import (
    BadAnswer,
    MemoristError,
    ModelError,
    ModelUnavailable,
    SettingsError,
)
from memorist.search.embedders import embed_texts
from memorist.search.service_embedder import (
    MAX_RESPONSE_BYTES,
    MAX_TEXTS_PER_REQUEST,
    ServiceEmbedder,
)
from testkit.failures import raised
from testkit.model_service import FakeService

KEY = "sk-0123456789abcdef-secret"
SOCKET_BUFFERS = 16 << 20  # Linux lets them grow while the reader is slow


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService(dimension=12) as started:
        yield started


def embedder(service: FakeService, **changes: object) -> ServiceEmbedder:
    arguments = {
        "model": "m",
        "base_url": service.url,
        "api_key": KEY,
        "seconds": 5.0,
        "retries": 0,
        "pause": 30.0,
    }
    return ServiceEmbedder(**{**arguments, **changes})  # type: ignore[arg-type]


def test_requests_follow_the_openai_protocol(service: FakeService) -> None:
    result = embedder(service)
    vectors = embed_texts(result, ["a cup of tea", "coffee"])
    assert vectors.shape == (2, 12)
    assert not np.allclose(vectors[0], vectors[1])
    (request,) = service.requests
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {"model": "m", "input": ["a cup of tea", "coffee"]}


def test_the_dimension_is_learned(service: FakeService) -> None:
    result = embedder(service)
    assert result.dimensions == 12
    assert result.identity == "m-12@service"
    assert len(service.requests) == 1
    assert "dimensions" not in service.requests[0].body


def test_many_texts_are_sent_in_batches_in_order(service: FakeService) -> None:
    texts = [f"text {n}" for n in range(2 * MAX_TEXTS_PER_REQUEST + 1)]
    vectors = embed_texts(embedder(service), texts)
    assert [len(request.body["input"]) for request in service.requests] == [
        MAX_TEXTS_PER_REQUEST,
        MAX_TEXTS_PER_REQUEST,
        1,
    ]
    assert np.allclose(vectors[200], embed_texts(embedder(service), ["text 200"])[0])


def test_blank_and_huge_texts_are_adjusted(service: FakeService) -> None:
    embed_texts(embedder(service), ["", " \n", "\ud800 a", "word " * 100_000])
    sent = service.requests[0].body["input"]
    assert sent[:3] == [".", ".", "? a"]
    assert len(sent[3]) < 10_000


def test_token_usage_is_returned(service: FakeService) -> None:
    assert embedder(service).metered(["one two three", "four"])[1] == 4


def test_vectors_out_of_order_and_in_base64(service: FakeService) -> None:
    rows = np.eye(2, dtype="<f4")
    data = [{"index": n, "embedding": base64.b64encode(rows[n].tobytes()).decode()} for n in (1, 0)]
    service.body = json.dumps({"data": data}).encode()
    assert np.array_equal(embed_texts(embedder(service), ["a", "b"]), rows)


@pytest.mark.parametrize("given", [(0, 1), ("0", "1"), (None, None), None], ids=str)
@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}], ids=str)
def test_response_variants_are_accepted(service: FakeService, given: Any, usage: Any) -> None:
    """No index, or one as text; no usage, or an empty one."""
    rows = np.eye(2, dtype=np.float32)
    places = [{} if given is None else {"index": given[n]} for n in (0, 1)]
    data = [{**place, "embedding": row.tolist()} for place, row in zip(places, rows, strict=True)]
    service.body = json.dumps({"data": data, "usage": usage}).encode()
    vectors, spent = embedder(service).metered(["a", "b"])
    assert (vectors.tolist(), spent) == (rows.tolist(), 0)


@pytest.mark.filterwarnings("error")
def test_huge_numbers_are_rejected(service: FakeService) -> None:
    """Values beyond float32 are an error; values whose square overflows are not."""
    service.body = b'{"data": [{"index": 0, "embedding": [1e300, 1]}]}'
    with pytest.raises(BadAnswer, match="infinity"):
        embed_texts(embedder(service), ["a"])
    service.body = b'{"data": [{"index": 0, "embedding": [3e38, 3e38]}]}'
    assert embed_texts(embedder(service), ["a"])[0].tolist() == pytest.approx([0.5**0.5] * 2)


WRONG: dict[str, tuple[type[MemoristError], str]] = {
    "500": (ModelUnavailable, "responded with 500"),
    "429": (ModelUnavailable, "responded with 429 and asks to wait 1 s"),
    "hang": (ModelUnavailable, "no answer within 0.3 s"),
    "drip": (ModelUnavailable, "no answer within 0.3 s"),
    "reset": (ModelUnavailable, "hung up"),
    "invalid-json": (BadAnswer, "cannot be parsed"),
    "empty": (BadAnswer, "cannot be parsed"),
    "html": (BadAnswer, "content type text/html"),
    "huge": (BadAnswer, "longer than 16 MiB"),
    "packed": (BadAnswer, "compressed"),
    "wrong-dimension": (BadAnswer, "2 × 13, not 2 × 12"),
    "nan": (BadAnswer, "NaN"),
    "wrong-count": (BadAnswer, "1 vectors for 2 texts"),
    "refused": (ModelError, "check embedding_api_key"),
    "redirect": (ModelError, "set embedding_base_url"),
}


@pytest.mark.parametrize("how", WRONG)
def test_every_fault_is_an_error_in_time(service: FakeService, how: str) -> None:
    """Bounded in time and memory, never a vector, and never the key in the message."""
    result = embedder(service, seconds=0.3 if how in ("hang", "drip") else 30.0)
    assert result.dimension(30.0) == 12
    service.misbehave(how)
    error, words = WRONG[how]
    with pytest.raises(error, match=words) as raised:
        embed_texts(result, ["a", "b"])
    assert KEY not in str(raised.value)
    assert len(service.requests) == 2
    assert service.sent <= MAX_RESPONSE_BYTES + SOCKET_BUFFERS


BODIES = [
    "[]",
    "null",
    '{"data": 1}',
    '{"data": [1]}',
    '{"data": [{"index": 0}]}',
    '{"data": [{"index": 0, "embedding": []}]}',
]
BODIES += [
    '{"data": [{"index": 0, "embedding": ["a", "b"]}]}',
    '{"data": [{"index": 0, "embedding": [[1], [2, 3]]}]}',
    "[" * 100_000,
]
BODIES += [
    '{"data": [{"index": 0, "embedding": "%%%"}]}',
    '{"data": [{"index": 1e999, "embedding": [1, 2]}]}',
    "\ufeff",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:45])
def test_malformed_responses_are_errors(service: FakeService, body: str) -> None:
    service.body = body.encode()
    raised(BadAnswer, embed_texts, embedder(service), ["a"])


@pytest.mark.parametrize("how", ["500", "reset"])
def test_failed_requests_are_retried(
    service: FakeService, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memorist.models.circuit_breaker.FIRST_RETRY_SECONDS", 0.01)
    service.misbehave(how, times=2)
    assert embed_texts(embedder(service, retries=2), ["a"]).shape == (1, 12)
    assert len(service.requests) == 3


def test_retry_after_is_respected_within_the_deadline(service: FakeService) -> None:
    service.misbehave("429")
    result = embedder(service, retries=5, seconds=0.5)
    with pytest.raises(ModelUnavailable, match="wait 1 s"):
        embed_texts(result, ["a"])
    assert len(service.requests) == 1


def test_the_circuit_breaker(service: FakeService) -> None:
    """After repeated failures it opens and calls fail at once; after recovery it closes."""
    service.misbehave("500")
    result = embedder(service, pause=0.1)
    for _ in range(5):
        with pytest.raises(ModelUnavailable, match="500"):
            embed_texts(result, ["a"])
    with pytest.raises(ModelUnavailable, match="the next call is possible in"):
        embed_texts(result, ["a"])
    assert len(service.requests) == 5
    service.misbehave("")
    time.sleep(0.11)
    assert embed_texts(result, ["a"]).shape == (1, 12)


def test_a_rejected_text_does_not_open_the_breaker(service: FakeService) -> None:
    service.misbehave("refused", times=6)
    result = embedder(service)
    for _ in range(6):
        raised(ModelError, embed_texts, result, ["a"])
    assert embed_texts(result, ["a"]).shape == (1, 12)


def test_an_unreachable_service() -> None:
    with FakeService() as gone:
        url = gone.url
    result = ServiceEmbedder("m", url, "", 5.0, 0, 30.0)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        embed_texts(result, ["a"])


@pytest.mark.parametrize(
    "url", ["", "here", "ftp://here/v1", "http://", "http://[::1/v1", "http://here:port/v1"]
)
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(SettingsError, match="embedding_base_url"):
        ServiceEmbedder("m", url, "", 5.0, 0, 30.0).embed(["a"])
