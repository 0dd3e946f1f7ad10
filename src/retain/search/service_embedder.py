"""An embedding model behind a service with OpenAI's `/embeddings` endpoint.

The service is not trusted to answer in time, briefly, or correctly. Each request has its own
connection and thread (plain HTTP from the standard library), so that a hanging name server, or an
answer that trickles in, can be abandoned at the deadline.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import json
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from retain.base.errors import BadAnswer, ModelError, ModelUnavailable, SettingsError
from retain.base.outgoing import trusted_certificates
from retain.models.circuit_breaker import FAILURE_LIMIT, CircuitBreaker
from retain.models.model import FIRST_RETRY_SECONDS, Completion
from retain.models.provider import RETRY_STATUSES, Failure, service_message
from retain.models.recording import ModelCall

if TYPE_CHECKING:
    import http.client

    import numpy as np
    from numpy.typing import NDArray

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_TEXTS_PER_REQUEST = 128
"""Maximum texts in one request."""
MAX_RESPONSE_BYTES = 16 << 20
"""Maximum size of a response."""
_MAX_TEXT_CHARACTERS = 6000  # services reject a text that is too long for the model
_MAX_REPORTED_TOKENS = 1 << 40


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


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
        body = json.dumps(payload).encode()
        deadline = time.monotonic() + seconds
        wait = FIRST_RETRY_SECONDS
        for left in reversed(range(self._retries + 1)):
            pause_left = self._breaker.wait()
            if pause_left:
                problem = (
                    f"it failed {FAILURE_LIMIT} times in a row; the next call is possible in "
                    f"{math.ceil(pause_left)} s"
                )
                raise ModelUnavailable(model=self.model, problem=problem)
            try:
                result = self._read(self._sent(body, deadline, seconds), len(texts))
            except Failure as failure:
                if failure.is_service_failure:
                    self._breaker.failed()
                else:
                    self._breaker.succeeded()
                pause = max(failure.retry_after, wait * random.uniform(0.5, 1))
                if (
                    not (failure.can_retry and left)
                    or self._breaker.open
                    or time.monotonic() + pause >= deadline
                ):
                    raise failure.error from None
            else:
                self._breaker.succeeded()
                return result
            time.sleep(pause)
            wait *= 2
        raise AssertionError("the last attempt returns or raises")

    def _sent(self, body: bytes, deadline: float, seconds: float) -> _Answer:
        """Send a request in its own thread, and wait for the response until the deadline."""
        connection, path = _connection(self._base_url)
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        outcome: list[_Answer | Exception] = []
        work = functools.partial(_exchange, connection, path, body, headers, outcome)
        thread = threading.Thread(target=work, name="retain-embedding", daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - time.monotonic()))
        if not outcome:
            with contextlib.suppress(OSError, AttributeError):
                # End the thread now if it waits for a response.
                connection.sock.shutdown(2)
            raise Failure(self._unavailable(f"there was no answer within {seconds:g} s"))
        if isinstance(outcome[0], _Answer):
            return outcome[0]
        import http.client

        if isinstance(outcome[0], OSError | http.client.HTTPException):
            raise Failure(
                self._unavailable(
                    f"its service cannot be reached, or hung up ({type(outcome[0]).__name__})"
                ),
                can_retry=True,
            )
        raise Failure(self._bad(f"the request failed with {type(outcome[0]).__name__}"))

    def _read(self, answer: _Answer, count: int) -> tuple[NDArray[np.float32], int]:
        """Return the vectors and tokens of a response; raise Failure if it is invalid."""
        import numpy as np

        self._refused(answer)
        if (
            answer.headers.get("content-encoding", "identity") != "identity"
            or len(answer.body) > MAX_RESPONSE_BYTES
        ):
            raise Failure(
                self._bad(f"it is compressed, or longer than {MAX_RESPONSE_BYTES >> 20} MiB")
            )
        try:
            read = json.loads(answer.body)
            data = sorted(
                (_index(entry, place), place, entry) for place, entry in enumerate(read["data"])
            )
            if [index for index, _, _ in data] != list(range(count)):
                raise Failure(self._bad(f"it has {len(data)} vectors for {count} texts"))
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
            raise Failure(self._bad(f"it cannot be parsed (content type {form})")) from None
        if vectors.ndim != 2:
            raise Failure(self._bad("its vectors differ in length"))
        return vectors, spent if type(spent) is int and 0 <= spent <= _MAX_REPORTED_TOKENS else 0

    def _refused(self, answer: _Answer) -> None:
        status = answer.status
        message = _error_message(answer.body, self._api_key)
        if 200 <= status < 300:
            return
        if status in RETRY_STATUSES or status >= 500:
            after = _seconds(answer.headers.get("retry-after", ""))
            wait = f" and asks to wait {after:g} s" if after else ""
            raise Failure(
                self._unavailable(f"its service responded with {status}{wait}{message}"),
                can_retry=True,
                retry_after=after,
            )
        hint = {401: "; check embedding_api_key", 403: "; check embedding_api_key"}.get(status, "")
        hint = "; check the model in `embedder` and embedding_base_url" if status == 404 else hint
        problem = f"its service rejected the request with {status}{message}{hint}"
        if 300 <= status < 400:
            problem = "its service redirects to another URL, which is not followed; set embedding_base_url to that URL"
        raise Failure(ModelError(model=self.model, problem=problem), is_service_failure=False)

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


def _connection(base_url: str) -> tuple[http.client.HTTPConnection, str]:
    """Return an unopened connection and the path of the request."""
    import http.client  # not needed at start

    try:
        where = urlsplit(base_url)
        host = where.hostname
        port = where.port
    except ValueError:
        host = port = None
    if not host or where.scheme not in ("http", "https"):
        raise SettingsError(
            where="embedding_base_url",
            problem="must be a URL such as https://api.openai.com/v1",
        )
    path = f"{where.path.rstrip('/')}/embeddings" + (f"?{where.query}" if where.query else "")
    if where.scheme == "http":
        return http.client.HTTPConnection(host, port), path
    return http.client.HTTPSConnection(host, port, context=trusted_certificates()), path


def _exchange(
    connection: http.client.HTTPConnection,
    path: str,
    body: bytes,
    headers: dict[str, str],
    outcome: list[Any],
) -> None:
    """Send one request; append the response or the error to `outcome`."""
    import http.client

    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        parts: list[bytes] = []
        left = MAX_RESPONSE_BYTES + 1
        while left > 0 and (part := response.read1(min(left, 1 << 16))):
            parts.append(part)
            left -= len(part)
        if left > 0 and response.length:  # the body is shorter than announced
            raise http.client.IncompleteRead(b"")
        outcome.append(
            _Answer(
                response.status, {k.lower(): v for k, v in response.getheaders()}, b"".join(parts)
            )
        )
    except Exception as error:  # raised in the thread that waits for the answer
        outcome.append(error)
    finally:
        connection.close()


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


def _seconds(retry_after: str) -> float:
    """Return the seconds of a Retry-After header: a number or a date."""
    import email.utils

    with contextlib.suppress(ValueError, TypeError, OverflowError):
        if retry_after.strip().isdigit():
            return float(retry_after)
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    return 0.0


def _error_message(body: bytes, key: str) -> str:
    try:
        return service_message(json.loads(body), {key} if key else set())
    except (ValueError, RecursionError):
        return ""
