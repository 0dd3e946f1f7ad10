"""An embedding model behind any service that speaks OpenAI's `/embeddings`; the service is not trusted.

Not to answer in time, not to answer briefly, not to answer with what was asked for. Plain HTTP from the standard library, a
connection and a thread for each request: next to what a service takes, that costs nothing, and a name server that hangs, or
an answer that comes a byte at a time, is left alone at the deadline.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import email.utils
import functools
import http.client
import json
import math
import random
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from retain.base.errors import BadAnswer, ModelError, ModelUnavailable, RetainError, SettingsError
from retain.models.circuit_breaker import FAILURE_LIMIT, CircuitBreaker
from retain.models.model import FIRST_RETRY_SECONDS, Completion
from retain.models.recording import ModelCall

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_TEXTS_PER_REQUEST = 128
"""In one request."""
MAX_RESPONSE_BYTES = 16 << 20
"""The longest answer that is read."""
_MOST_CHARACTERS = 6000  # of one text: services refuse what is longer than their models can read
_MOST_TOKENS = 1 << 40
_AGAIN = frozenset({408, 409, 425, 429})
_KEYS = re.compile(r"\b(?:sk|pk|rk|api[-_]?key|bearer)[-_ :=]+[^\s\"',;]{6,}", re.I)


@dataclass
class _Failure(Exception):
    """Why a request failed: `again` if another may do better, after `after` seconds; `sick` if its service is ill."""

    error: RetainError
    again: bool = False
    sick: bool = True
    after: float = 0.0


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class ServiceEmbedder:
    """A model behind a service, by name; safe to share between threads."""

    family: Literal["strong"] = "strong"

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str,
        dimensions: int,
        seconds: float,
        retries: int,
        pause: float,
    ) -> None:
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._asked_for = dimensions
        self._dimensions = dimensions
        self._seconds = seconds
        self._retries = retries
        self._breaker = CircuitBreaker(pause)

    @property
    def identity(self) -> str:
        """The model's name and dimension: a service does not say which version it runs."""
        return f"{self.model[:100]}-{self.dimensions}@service"

    @property
    def dimensions(self) -> int:
        """How long each vector is: as the settings say, or as the service's first one is."""
        return self.dimension()

    def dimension(self, seconds: float | None = None) -> int:
        """The same, known within so many seconds."""
        if not self._dimensions:
            self.metered(["hello"], seconds)
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A vector of length 1 for each text, or a ModelError within `model_seconds` for every 128 of them."""
        return self.metered(texts)[0]

    def metered(
        self, texts: Sequence[str], seconds: float | None = None
    ) -> tuple[NDArray[np.float32], int]:
        """The same, within so many seconds, and how many tokens the service says it took."""
        import numpy as np

        if not self.model:
            raise SettingsError(
                where="embedding_model", problem="is empty: name the service's embedding model"
            )
        parts, tokens = [], 0
        for start in range(0, len(texts), MAX_TEXTS_PER_REQUEST):
            vectors, spent = self._ask(
                texts[start : start + MAX_TEXTS_PER_REQUEST], seconds or self._seconds
            )
            parts.append(vectors)
            tokens += spent
        if len({part.shape[1] for part in parts}) > 1:
            raise self._bad("its vectors are not equally long")
        found = np.concatenate(parts) if parts else np.zeros((0, self._dimensions), np.float32)
        if len(found) and not self._dimensions:
            self._dimensions = found.shape[1]
        lengths = np.linalg.norm(
            found.astype(np.float64), axis=1, keepdims=True
        )  # the square of 3e38 is no float32
        with np.errstate(invalid="ignore"):  # whoever stores or compares them looks first
            return (found / np.maximum(lengths, 1e-300)).astype(np.float32), tokens

    def _ask(self, texts: Sequence[str], seconds: float) -> tuple[NDArray[np.float32], int]:
        """Ask until there is an answer, or asking again makes no sense."""
        asked: dict[str, Any] = {"model": self.model, "input": [_sent(text) for text in texts]}
        if self._asked_for:
            asked["dimensions"] = self._asked_for
        body, deadline, wait = (
            json.dumps(asked).encode(),
            time.monotonic() + seconds,
            FIRST_RETRY_SECONDS,
        )
        for left in reversed(range(self._retries + 1)):
            if closed := self._breaker.wait():
                again = f"it failed {FAILURE_LIMIT} times in a row, and is left alone for {math.ceil(closed)} s"
                raise ModelUnavailable(model=self.model, problem=again)
            try:
                found = self._read(self._sent(body, deadline, seconds), len(texts))
            except _Failure as failure:
                (self._breaker.failed if failure.sick else self._breaker.succeeded)()
                pause = max(failure.after, wait * random.uniform(0.5, 1))
                if (
                    not (failure.again and left)
                    or self._breaker.open
                    or time.monotonic() + pause >= deadline
                ):
                    raise failure.error from None
            else:
                self._breaker.succeeded()
                return found
            time.sleep(pause)
            wait *= 2
        raise AssertionError("the last try returns or raises")

    def _sent(self, body: bytes, deadline: float, seconds: float) -> _Answer:
        """Send a request in a thread of its own, and wait for the answer until the deadline."""
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
                connection.sock.shutdown(
                    2
                )  # so that the thread ends now, if it waits for an answer
            raise _Failure(self._unavailable(f"there was no answer within {seconds:g} s"))
        if isinstance(outcome[0], _Answer):
            return outcome[0]
        if isinstance(outcome[0], OSError | http.client.HTTPException):
            raise _Failure(
                self._unavailable(
                    f"its service cannot be reached, or hung up ({type(outcome[0]).__name__})"
                ),
                again=True,
            )
        raise _Failure(self._bad(f"the request failed with {type(outcome[0]).__name__}"))

    def _read(self, answer: _Answer, count: int) -> tuple[NDArray[np.float32], int]:
        """The vectors of an answer, and the tokens it took; or why it is none."""
        import numpy as np

        self._refused(answer)
        if (
            answer.headers.get("content-encoding", "identity") != "identity"
            or len(answer.body) > MAX_RESPONSE_BYTES
        ):
            raise _Failure(
                self._bad(f"it is packed, or longer than {MAX_RESPONSE_BYTES >> 20} MiB")
            )
        try:
            read = json.loads(answer.body)
            data = sorted(
                (_index(one, place), place, one) for place, one in enumerate(read["data"])
            )
            if [index for index, _, _ in data] != list(range(count)):
                raise _Failure(self._bad(f"it has {len(data)} vectors for {count} texts"))
            with np.errstate(over="ignore"):  # whoever stores or compares them looks for infinity
                vectors = np.array([_numbers(one["embedding"]) for _, _, one in data], np.float32)
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
            raise _Failure(self._bad(f"it cannot be read (it came as {form})")) from None
        if vectors.ndim != 2:
            raise _Failure(self._bad("its vectors are not equally long"))
        return vectors, spent if type(spent) is int and 0 <= spent <= _MOST_TOKENS else 0

    def _refused(self, answer: _Answer) -> None:
        status, said = answer.status, _said(answer.body, self._api_key)
        if 200 <= status < 300:
            return
        if status in _AGAIN or status >= 500:
            after = _seconds(answer.headers.get("retry-after", ""))
            wait = f" and asks to wait {after:g} s" if after else ""
            raise _Failure(
                self._unavailable(f"its service answers {status}{wait}{said}"),
                again=True,
                after=after,
            )
        hint = {401: "; check embedding_api_key", 403: "; check embedding_api_key"}.get(status, "")
        hint = "; check embedding_model and embedding_base_url" if status == 404 else hint
        problem = f"its service refuses with {status}{said}{hint}"
        if 300 <= status < 400:
            problem = "its service sends us to another address, which is not followed: set embedding_base_url to the right one"
        raise _Failure(ModelError(model=self.model, problem=problem), sick=False)

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(model=self.model, problem=problem)

    def _bad(self, problem: str) -> BadAnswer:
        return BadAnswer(model=self.model, problem=problem)


class RecordedEmbedder:
    """A service's embedder whose calls are noted, because they may cost money, and take no longer than `seconds`."""

    family: Literal["strong"] = "strong"

    def __init__(
        self, embedder: ServiceEmbedder, note: Callable[[ModelCall], None], seconds: float | None
    ) -> None:
        self._embedder = embedder
        self._note = note
        self._seconds = seconds

    @property
    def identity(self) -> str:
        """Which model this is."""
        self._embedder.dimension(self._seconds)
        return self._embedder.identity

    @property
    def dimensions(self) -> int:
        """How long each vector is."""
        return self._embedder.dimension(self._seconds)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the embedder makes of the texts."""
        started, model = time.monotonic(), self._embedder.model
        try:
            vectors, tokens = self._embedder.metered(texts, self._seconds)
        except Exception as error:
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
    """A text as any service takes it: not blank, not too long, and whole characters only."""
    return text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode().strip() or "."


def _connection(base_url: str) -> tuple[http.client.HTTPConnection, str]:
    """A connection that is not open yet, and the path of the request."""
    try:
        where = urlsplit(base_url)
        host, port = where.hostname, where.port
    except ValueError:
        host = port = None
    if not host or where.scheme not in ("http", "https"):
        raise SettingsError(
            where="embedding_base_url",
            problem="must be an address such as https://api.openai.com/v1",
        )
    path = f"{where.path.rstrip('/')}/embeddings" + (f"?{where.query}" if where.query else "")
    if where.scheme == "http":
        return http.client.HTTPConnection(host, port), path
    return http.client.HTTPSConnection(host, port, context=_trust()), path


@functools.cache
def _trust() -> ssl.SSLContext:
    """The certificates that are trusted; reading them takes longer than all else here."""
    return ssl.create_default_context()


def _exchange(
    connection: http.client.HTTPConnection,
    path: str,
    body: bytes,
    headers: dict[str, str],
    outcome: list[Any],
) -> None:
    """One request and its answer, or what went wrong, as the outcome; at most a byte more than what is too long is read."""
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        parts: list[bytes] = []
        left = MAX_RESPONSE_BYTES + 1
        while left > 0 and (part := response.read1(min(left, 1 << 16))):
            parts.append(part)
            left -= len(part)
        if left > 0 and response.length:  # what was announced did not come
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


def _index(one: Any, place: int) -> int:
    """Which text a vector is of: as it says, in words or numbers, or the one in its place."""
    return place if one.get("index") is None else int(one["index"])


def _numbers(embedding: Any) -> Any:
    """A vector as a list of numbers, or as the base64 of four bytes each."""
    import numpy as np

    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    if not isinstance(embedding, list) or not embedding:
        raise TypeError("a vector is a list of numbers")
    return embedding


def _seconds(retry_after: str) -> float:
    """How long a service asks to wait: a number of seconds, or a date."""
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        if retry_after.strip().isdigit():
            return float(retry_after)
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    return 0.0


def _said(body: bytes, key: str) -> str:
    """What a service says about its error: one short line, without what looks like a key."""
    try:
        said = json.loads(body)
        said = said.get("error", said)
        said = said.get("message") if isinstance(said, dict) else said
    except (ValueError, AttributeError, RecursionError):
        return ""
    if not isinstance(said, str):
        return ""
    said = said[:2000].encode("utf-8", "replace").decode()
    line = " ".join(_KEYS.sub("***", said.replace(key, "***") if key else said).split())
    return f": {line[:200]}" if line else ""
