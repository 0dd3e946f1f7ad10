"""Language models: any OpenAI-compatible service by name and base URL, and other providers, behind one small call.

A service is never trusted: not to answer in time, not to answer briefly, not to answer with what was asked for. Every call
has a thread, an event loop and a connection of its own. Next to what a model takes to write, that costs nothing; and
nothing is left over for the next call, for other threads, or for the child of a fork.
"""

from __future__ import annotations

import functools
import math
import random
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from retain.base import canonical, limits
from retain.base.errors import BadAnswer, ModelUnavailable
from retain.base.settings import Settings
from retain.models import chat, provider
from retain.models.chat import OnText, Reply
from retain.models.circuit_breaker import FAILURE_LIMIT, CircuitBreaker

EXTRACTIVE = "extractive"
"""The name, as a summary model, of the built-in writer that needs no model."""
NO_KEY = "no-key-is-set"
"""What is sent where a key would be another service's: the libraries must be given one, or look for one themselves."""
FIRST_RETRY_SECONDS = 0.5
"""Before the first retry, in seconds; each next one waits twice as long."""
_MOST_TOKENS = 1 << 40
_MOST_NAMED = 64
_GRACE = 1.0  # seconds that a call may need to let go of what it has, after its deadline
_LOADING = threading.Lock()


@dataclass(frozen=True)
class Completion:
    """What a model wrote, and what it took; `cost` is None where the price is not known, `cut` if it wanted to go on."""

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float | None
    latency_ms: float
    cut: bool = False


class Model(Protocol):
    """Something that writes text when it is asked to."""

    name: str

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Write an answer of at most so many tokens, or raise a ModelError."""
        ...


class Models:
    """The models that the settings name, or that are given; None where there is none.

    Nothing heavy happens here: libraries are imported, and names and keys looked at, when a model is first asked.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        main: Model | None = None,
        summary: Model | None = None,
        others: Mapping[str, Model] | None = None,
    ) -> None:
        breakers: dict[tuple[str, str], CircuitBreaker] = {}
        self.main = main or _named(
            settings, breakers, settings.model, settings.base_url, settings.api_key
        )
        """The main model."""
        self.summary = summary or self._summary(settings, breakers)
        """The model that summarises: its own, else the main one; None where the built-in writer is chosen."""
        self._others = dict(others or {})
        self._make = functools.lru_cache(_MOST_NAMED)(
            functools.partial(self._other, settings, breakers)
        )

    def named(self, name: str) -> Model | None:
        """The model that an agent is set up with, the main one without a name.

        It is asked at the main model's address where it has the same provider, else at its provider's own: no agent can
        send what it was told, or a key, to an address of its choice.
        """
        if not name or (self.main is not None and name == self.main.name):
            return self.main
        return self._others.get(name) or self._make(name)

    def _other(
        self, settings: Settings, breakers: dict[tuple[str, str], CircuitBreaker], name: str
    ) -> Model | None:
        same = _provider_of(name) == _provider_of(settings.model)
        url, key = (settings.base_url, settings.api_key) if same else ("", "")
        return _named(settings, breakers, name, url, key)

    def _summary(
        self, settings: Settings, breakers: dict[tuple[str, str], CircuitBreaker]
    ) -> Model | None:
        if settings.summary_model == EXTRACTIVE:
            return None
        if not (settings.summary_model or settings.summary_base_url or settings.summary_api_key):
            return self.main
        name = settings.summary_model or settings.model
        # Another provider has another address and another key; the main model's would be sent to the wrong one.
        same = _provider_of(name) == _provider_of(settings.model)
        url = settings.summary_base_url or (settings.base_url if same else "")
        key = settings.summary_api_key
        if not key and same and url.rstrip("/") == settings.base_url.rstrip("/"):
            key = settings.api_key
        elif (
            not key and url
        ):  # and the one in the provider's variable is not meant for an address that is not its own
            key = NO_KEY
        return _named(settings, breakers, name, url, key)


def _provider_of(name: str) -> str:
    provider, colon, _ = name.partition(":")
    return provider if colon else ""


def _named(
    settings: Settings,
    breakers: dict[tuple[str, str], CircuitBreaker],
    name: str,
    base_url: str,
    api_key: str,
) -> Model | None:
    if not name:
        return None
    place = (_provider_of(name), base_url)
    breaker = breakers.setdefault(place, CircuitBreaker(limits.MODEL_PAUSE_SECONDS))
    return RemoteModel(
        name,
        base_url,
        api_key,
        seconds=settings.model_seconds,
        retries=limits.MODEL_RETRIES,
        breaker=breaker,
    )


class RemoteModel:
    """A model behind a service, by name: `gpt-5-mini` at an OpenAI-compatible address, or with its provider before it."""

    def __init__(
        self,
        name: str,
        base_url: str = "",
        api_key: str = "",
        *,
        seconds: float,
        retries: int,
        breaker: CircuitBreaker,
    ) -> None:
        self.name = name
        self._base_url = base_url
        self._api_key = api_key
        self._seconds = seconds
        self._retries = retries
        self._breaker = breaker
        self._ready = False

    def prepare(self) -> None:
        """Load what a call needs, which takes seconds the first time; who comes meanwhile waits, and loads nothing twice."""
        if not self._ready:
            with _LOADING:
                provider.prepare(self.name, self._base_url, self._api_key)
            self._ready = True

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Write an answer of at most so many tokens, or raise a ModelError within `model_seconds`."""
        canonical.whole(max_tokens, "max_tokens", 1)
        system, prompt = (
            canonical.text(text, field, 1 << 40)
            for text, field in ((system, "system"), (prompt, "prompt"))
        )
        said = [{"role": "system", "content": system}] if system else []
        question = provider.ModelRequest([*said, {"role": "user", "content": prompt}], max_tokens)
        response, spent = self._answer(question, self._seconds, lambda: False)
        return Completion(
            self._text(response), self.name, *spent, cut=response.finish_reason == "length"
        )

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        max_tokens: int,
        on_text: OnText | None = None,
        use_tools: bool = True,
        seconds: float | None = None,
    ) -> Reply:
        """Say what comes next in a conversation, or raise a ModelError within `model_seconds`, or `seconds` if fewer.

        What was told to `on_text` cannot be taken back: after the first word, nothing is tried again.
        """
        canonical.whole(max_tokens, "max_tokens", 1)
        teller = None if on_text is None else _Teller(on_text)
        question = provider.ModelRequest(messages, max_tokens, tools, use_tools, teller)
        limit = self._seconds if seconds is None else min(self._seconds, seconds)
        try:
            response, spent = self._answer(
                question, limit, lambda: teller is not None and teller.said
            )
        finally:
            if teller is not None:
                teller.over = True
        calls = chat.parse_calls(response.tool_calls, provider.MAX_RESPONSE_BYTES)
        text = self._text(response, may_be_empty=bool(calls))
        return Reply(text, calls, self.name, *spent, cut=response.finish_reason == "length")

    def _answer(
        self, question: provider.ModelRequest, seconds: float, begun: Callable[[], bool]
    ) -> tuple[Any, tuple[int, int, float | None, float]]:
        """The response, and what it took: tokens in and out, cost, milliseconds."""
        self.prepare()
        started = time.monotonic()
        try:
            response = _run(self._ask(question, started + seconds, begun), seconds)
        except TimeoutError:
            raise self._unavailable(f"there was no answer within {seconds:.3g} s") from None
        tokens_in, tokens_out = (
            _counted(tokens)
            for tokens in (response.usage.input_tokens, response.usage.output_tokens)
        )
        cost = provider.price(self.name, response.usage) if tokens_in else None
        return response, (tokens_in, tokens_out, cost, (time.monotonic() - started) * 1000)

    async def _ask(
        self, question: provider.ModelRequest, deadline: float, begun: Callable[[], bool]
    ) -> Any:
        """Ask until there is an answer, or asking again makes no sense: not once an answer has `begun` to be told."""
        import asyncio

        wait = FIRST_RETRY_SECONDS
        for left in reversed(range(self._retries + 1)):
            if closed := self._breaker.wait():
                raise self._unavailable(
                    f"it failed {FAILURE_LIMIT} times in a row, and is left alone for {math.ceil(closed)} s"
                )
            try:
                response = await provider.ask(self.name, self._base_url, self._api_key, question)
            except provider.Failure as failure:
                (self._breaker.failed if failure.sick else self._breaker.succeeded)()
                pause = max(failure.after, wait * random.uniform(0.5, 1))
                if (
                    not (failure.again and left)
                    or begun()
                    or self._breaker.open
                    or time.monotonic() + pause >= deadline
                ):
                    raise failure.error from None
            except asyncio.CancelledError:  # the deadline
                self._breaker.failed()
                raise
            else:
                self._breaker.succeeded()
                return response
            await asyncio.sleep(pause)
            wait *= 2
        raise AssertionError("the last try returns or raises")

    def _text(self, response: Any, *, may_be_empty: bool = False) -> str:
        text = canonical.text(
            chat.join_surrogates(response.text or ""), "answer", 4 * provider.MAX_RESPONSE_BYTES
        ).strip()
        problem = (
            "it refused"
            if response.finish_reason == "content_filter"
            else "it is empty"
            if not text and not may_be_empty
            else "it is not text"
            if text.count("\ufffd") * 10 > len(text)
            else ""
        )
        if problem:
            raise BadAnswer(model=self.name, problem=problem)
        return text

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(model=self.name, problem=problem)


class _Teller:
    """Passes text on, as long as somebody waits for it: a call that was given up must not go on talking."""

    def __init__(self, on_text: OnText) -> None:
        self.said = self.over = False
        self._on_text = on_text
        self._half = ""

    def __call__(self, text: str) -> None:
        if self.over:
            return
        text = self._half + text
        cut = len(text) - (
            "\ud800" <= text[-1:] <= "\udbff"
        )  # the other half of the character may come next
        text, self._half = text[:cut], text[cut:]
        if text:
            self.said = True
            self._on_text(canonical.text(chat.join_surrogates(text), "text", 1 << 40))


def _counted(tokens: int) -> int:
    """A count of tokens, as far as a service's word for it can be believed."""
    return tokens if 0 <= tokens <= _MOST_TOKENS else 0


def _run(work: Coroutine[Any, Any, Any], seconds: float) -> Any:
    """Do this in an event loop and a thread of its own, because the caller's thread may have a loop that runs.

    And because a name server that hangs cannot be interrupted: after the deadline its thread is left to itself.
    """
    import asyncio

    outcome: list[Any] = []

    def body() -> None:
        loop = asyncio.new_event_loop()
        try:
            outcome.append(loop.run_until_complete(asyncio.wait_for(work, seconds)))
        except BaseException as error:  # raised in the thread that waits for the answer
            outcome.extend((None, error))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=body, name="retain-model", daemon=True)
    thread.start()
    thread.join(seconds + _GRACE)
    if not outcome:
        raise TimeoutError
    if outcome[1:]:
        raise outcome[1]
    return outcome[0]
