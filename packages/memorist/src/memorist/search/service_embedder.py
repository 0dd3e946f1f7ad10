"""An embedding model behind a service with OpenAI's `/embeddings` endpoint.

The service is not trusted to answer in time, briefly, or correctly. Each call has its own connection
and thread, so that a hanging name server, or an answer that trickles in, can be abandoned at the
deadline.
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from memorist.base import http
from memorist.base.deadline import run_in_thread
from memorist.base.errors import BadAnswer, ModelUnavailable, SettingsError
from memorist.models.circuit_breaker import CircuitBreaker, RetryLimits, ServiceFailure
from memorist.models.model import Completion
from memorist.models.provider import service_message, status_failure
from memorist.models.recording import ModelCall

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_TEXTS_PER_REQUEST = 128
"""Maximum texts in one request."""
MAX_RESPONSE_BYTES = 16 << 20
"""Maximum size of a response."""
_MAX_TEXT_CHARACTERS = 6000  # services reject a text that is too long for the model
_MAX_REPORTED_TOKENS = 1 << 40


class ServiceEmbedder:
    """An embedding model of a service. Thread-safe."""

    family: Literal["strong"] = "strong"

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str,
        seconds: float,
        retries: int,
        pause: float,
    ) -> None:
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._dimensions = 0  # unknown until the first response
        self._seconds = seconds
        self._retries = retries
        self._breaker = CircuitBreaker(pause)

    @property
    def identity(self) -> str:
        """Name and dimension of the model. A service does not report its version."""
        return f"{self.model[:100]}-{self.dimensions}@service"

    @property
    def dimensions(self) -> int:
        """Length of each vector: known from the service's first response."""
        return self.dimension()

    def dimension(self, seconds: float | None = None) -> int:
        """Return the length of each vector within `seconds`."""
        if not self._dimensions:
            self.metered(["hello"], seconds)
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector per text within `model_seconds` per 128 texts, or raise ModelError."""
        return self.metered(texts)[0]

    def metered(
        self, texts: Sequence[str], seconds: float | None = None
    ) -> tuple[NDArray[np.float32], int]:
        """Return the vectors within `seconds`, and the tokens that the service reports."""
        import numpy as np

        parts = []
        tokens = 0
        for start in range(0, len(texts), MAX_TEXTS_PER_REQUEST):
            vectors, spent = self._ask(
                texts[start : start + MAX_TEXTS_PER_REQUEST], seconds or self._seconds
            )
            parts.append(vectors)
            tokens += spent
        if len({part.shape[1] for part in parts}) > 1:
            raise self._bad("its vectors differ in length")
        all_vectors = (
            np.concatenate(parts) if parts else np.zeros((0, self._dimensions), np.float32)
        )
        if len(all_vectors) and not self._dimensions:
            self._dimensions = all_vectors.shape[1]
        return all_vectors, tokens

    def _ask(self, texts: Sequence[str], seconds: float) -> tuple[NDArray[np.float32], int]:
        """Send a request, with retries."""
        payload = {"model": self.model, "input": [_sent(text) for text in texts]}
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        request = http.OutgoingRequest(
            "POST",
            _endpoint(self._base_url),
            headers,
            json.dumps(payload).encode(),
            MAX_RESPONSE_BYTES,
            allow_private=True,
        )

        async def attempt() -> tuple[NDArray[np.float32], int]:
            try:
                answer = await http.exchange(request)
            except http.RequestFailed as error:
                problem = f"its service cannot be reached, or hung up: {error}"
                raise ServiceFailure(self._unavailable(problem), can_retry=True) from None
            return self._read(answer, len(texts))

        limits = RetryLimits(time.monotonic() + seconds, self._retries)
        work = self._breaker.call(self.model, attempt, limits)
        try:
            return run_in_thread(work, seconds, "memorist-embedding")
        except TimeoutError:
            raise self._unavailable(f"there was no answer within {seconds:g} s") from None

    def _read(self, answer: http.Response, count: int) -> tuple[NDArray[np.float32], int]:
        """Return the vectors and tokens of a response; raise ServiceFailure if it is invalid."""
        import numpy as np

        if not 200 <= answer.status < 300:
            message = _error_message(answer.body, self._api_key)
            after = http.retry_after(answer.headers.get("retry-after"))
            raise status_failure(self.model, answer.status, message, after, "embedding_")
        if (
            answer.headers.get("content-encoding", "identity") != "identity"
            or len(answer.body) > MAX_RESPONSE_BYTES
        ):
            raise ServiceFailure(
                self._bad(f"it is compressed, or longer than {MAX_RESPONSE_BYTES >> 20} MiB")
            )
        try:
            read = json.loads(answer.body)
            data = sorted(
                (_index(entry, place), place, entry) for place, entry in enumerate(read["data"])
            )
            if [index for index, _, _ in data] != list(range(count)):
                raise ServiceFailure(self._bad(f"it has {len(data)} vectors for {count} texts"))
            with np.errstate(over="ignore"):  # callers check for infinity
                vectors = np.array(
                    [_numbers(entry["embedding"]) for _, _, entry in data], np.float32
                )
            spent = (read.get("usage") or {}).get("prompt_tokens", 0)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
            binascii.Error,
        ):
            form = answer.headers.get("content-type", "nothing in particular").partition(";")[0][
                :50
            ]
            raise ServiceFailure(self._bad(f"it cannot be parsed (content type {form})")) from None
        if vectors.ndim != 2:
            raise ServiceFailure(self._bad("its vectors differ in length"))
        return vectors, spent if type(spent) is int and 0 <= spent <= _MAX_REPORTED_TOKENS else 0

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(model=self.model, problem=problem)

    def _bad(self, problem: str) -> BadAnswer:
        return BadAnswer(model=self.model, problem=problem)


class RecordedEmbedder:
    """Records the calls of a service's embedder, which may cost money, and limits their time."""

    family: Literal["strong"] = "strong"

    def __init__(
        self, embedder: ServiceEmbedder, note: Callable[[ModelCall], None], seconds: float | None
    ) -> None:
        self._embedder = embedder
        self._note = note
        self._seconds = seconds

    @property
    def identity(self) -> str:
        """Name of the model."""
        self._embedder.dimension(self._seconds)
        return self._embedder.identity

    @property
    def dimensions(self) -> int:
        """Length of each vector."""
        return self._embedder.dimension(self._seconds)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts and record the call."""
        started = time.monotonic()
        model = self._embedder.model
        try:
            vectors, tokens = self._embedder.metered(texts, self._seconds)
        except Exception as error:  # every failed call is recorded; raised again
            self._note(
                ModelCall(
                    model,
                    (time.monotonic() - started) * 1000,
                    None,
                    f"{type(error).__name__}: {error}",
                )
            )
            raise
        took = (time.monotonic() - started) * 1000
        self._note(ModelCall(model, took, Completion("", model, tokens, 0, None, took), ""))
        return vectors


def _sent(text: str) -> str:
    """Return a text that every service accepts: not blank, not too long, valid Unicode."""
    return text[:_MAX_TEXT_CHARACTERS].encode("utf-8", "replace").decode().strip() or "."


def _endpoint(base_url: str) -> str:
    """Return the URL of the requests; raise SettingsError if the base URL is invalid."""
    try:
        parts = urlsplit(base_url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError if it is not a port
    except ValueError:
        is_valid = False
    if not is_valid:
        raise SettingsError(
            where="embedding_base_url",
            problem="must be a URL such as https://api.openai.com/v1",
        )
    return parts._replace(path=f"{parts.path.rstrip('/')}/embeddings").geturl()


def _index(item: Any, place: int) -> int:
    """Return the index of a vector's text: its `index`, else its place."""
    return place if item.get("index") is None else int(item["index"])


def _numbers(embedding: Any) -> Any:
    """Return a vector from a list of numbers, or from base64 of float32."""
    import numpy as np

    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    if not isinstance(embedding, list) or not embedding:
        raise TypeError("a vector must be a list of numbers")
    return embedding


def _error_message(body: bytes, key: str) -> str:
    try:
        return service_message(json.loads(body), {key} if key else set())
    except (ValueError, RecursionError):
        return ""
