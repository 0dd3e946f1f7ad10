"""Language models: OpenAI-compatible services by name and base URL, and other providers.

A service may answer late, at any length, or not at all. Every call has its own thread, event loop
and connection. That is cheap compared with the model, and calls, threads and forked processes share
no state.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memorist.base import canonical, limits
from memorist.base.deadline import run_in_thread
from memorist.base.errors import BadAnswer, ModelUnavailable, NoModel
from memorist.base.settings import Settings
from memorist.models import chat, provider
from memorist.models.chat import ModelReply, OnText
from memorist.models.circuit_breaker import CircuitBreaker, RetryLimits, ServiceFailure

EXTRACTIVE = "extractive"
"""Name of the built-in summary writer, which needs no model."""
NO_KEY = "no-key-is-set"
"""Sent to a service that has no key. Without any key, libraries would read one from the environment."""
_MAX_REPORTED_TOKENS = 1 << 40
_MAX_CACHED_MODELS = 64
_THREAD = "memorist-model"
_ANY_MODEL = "any"
"""The model name in errors while the models of a service are listed and none is chosen yet."""
_LOADING = threading.Lock()


@dataclass(frozen=True)
class Completion:
    """The answer of a model.

    `cost` is None if unknown; `cut` is True if the answer reached the token limit.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float | None
    latency_ms: float
    cut: bool = False


class Model(Protocol):
    """A model that completes a prompt."""

    name: str

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Return an answer of at most `max_tokens`, or raise ModelError."""
        ...


class Models:
    """The models in the settings, or custom models. A model that is not set is None.

    Libraries are imported, and names and keys checked, when a model is first called.
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
        self._settings = settings
        self.main = main or _named(
            settings, breakers, settings.model, settings.base_url, settings.api_key
        )
        """The main model."""
        self.summary = summary or self._summary(settings, breakers)
        """The summary model, by default the main model; None for the built-in writer."""
        self.describer = summary or (self.summary if settings.summary_model else None)
        """The model that describes references: the summary model, if one is named."""
        self._others = dict(others or {})
        self._make = functools.lru_cache(_MAX_CACHED_MODELS)(
            functools.partial(self._other, settings, breakers)
        )

    def named(self, name: str) -> Model | None:
        """Return the model of an agent; without a name, the main model.

        The model uses the main model's address if the provider is the same, and otherwise the
        provider's own address. So no agent can send messages or a key to an address of its choice.
        """
        if not name or (self.main is not None and name == self.main.name):
            return self.main
        return self._others.get(name) or self._make(name)

    def replace_main(self, settings: Settings) -> None:
        """Use the main model of other settings, also for summaries and for agents' models.

        A separate summary model and custom models of agents stay unchanged.
        """
        replacement = Models(settings)
        if self.summary is None or self.summary is self.main:
            self.summary = replacement.summary
        self.main = replacement.main
        self._make = replacement._make
        self._settings = settings

    def list(self) -> Sequence[str]:
        """Return the names of the models that the main model's service offers."""
        if self.main is not None and not isinstance(self.main, RemoteModel):
            return sorted({self.main.name, *self._others})
        return list_models(self._settings)

    def _other(
        self, settings: Settings, breakers: dict[tuple[str, str], CircuitBreaker], name: str
    ) -> Model | None:
        if _provider_of(name) == _provider_of(settings.model):
            return _named(settings, breakers, name, settings.base_url, settings.api_key)
        return _named(settings, breakers, name, "", "")

    def _summary(
        self, settings: Settings, breakers: dict[tuple[str, str], CircuitBreaker]
    ) -> Model | None:
        if settings.summary_model == EXTRACTIVE:
            return None
        if not (settings.summary_model or settings.summary_base_url or settings.summary_api_key):
            return self.main
        name = settings.summary_model or settings.model
        # Another provider has another address and key: do not use those of the main model.
        is_same_provider = _provider_of(name) == _provider_of(settings.model)
        url = settings.summary_base_url or (settings.base_url if is_same_provider else "")
        key = settings.summary_api_key
        if not key and is_same_provider and url.rstrip("/") == settings.base_url.rstrip("/"):
            key = settings.api_key
        elif not key and url:
            # The key in the provider's environment variable is not meant for another address.
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
    service = (_provider_of(name), base_url)
    breaker = breakers.setdefault(service, CircuitBreaker(limits.MODEL_PAUSE_SECONDS))
    return RemoteModel(
        name,
        base_url,
        api_key,
        seconds=settings.model_seconds,
        retries=limits.MODEL_RETRIES,
        breaker=breaker,
    )


def list_models(settings: Settings) -> Sequence[str]:
    """Return the names of the models that the service of the settings offers.

    Raises SettingsError if the provider has no such list, and ModelError if it does not answer.
    """
    if not settings.model and not settings.base_url:
        raise NoModel(instead="")
    name = settings.model or _ANY_MODEL
    seconds = settings.model_seconds
    with _LOADING:
        provider.prepare(name, settings.base_url, settings.api_key)
    try:
        work = provider.list_models(name, settings.base_url, settings.api_key)
        names: list[str] = run_in_thread(work, seconds, _THREAD)
    except ServiceFailure as failure:
        raise failure.error from None
    except TimeoutError:
        problem = f"there was no answer within {seconds:.3g} s"
        raise ModelUnavailable(model=name, problem=problem) from None
    return names


class RemoteModel:
    """A model of a service: `gpt-5-mini` at an OpenAI-compatible address, or `provider:name`."""

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
        """Load the libraries, which takes seconds the first time; concurrent callers wait."""
        if not self._ready:
            with _LOADING:
                provider.prepare(self.name, self._base_url, self._api_key)
            self._ready = True

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Return an answer of at most `max_tokens`, or raise ModelError within `model_seconds`."""
        canonical.check_integer(max_tokens, "max_tokens", 1)
        system = canonical.text(system, "system", 1 << 40)
        prompt = canonical.text(prompt, "prompt", 1 << 40)
        system_messages = [{"role": "system", "content": system}] if system else []
        question = provider.ProviderRequest(
            [*system_messages, {"role": "user", "content": prompt}], max_tokens
        )
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
    ) -> ModelReply:
        """Return the next reply, or raise ModelError within `model_seconds`, or `seconds` if less.

        After the first text was passed to `on_text`, there are no retries.
        """
        canonical.check_integer(max_tokens, "max_tokens", 1)
        relay = None if on_text is None else _TextRelay(on_text)
        question = provider.ProviderRequest(messages, max_tokens, tools, use_tools, relay)
        limit = self._seconds if seconds is None else min(self._seconds, seconds)
        try:
            response, spent = self._answer(
                question, limit, lambda: relay is not None and relay.has_text
            )
        finally:
            if relay is not None:
                relay.over = True
        calls = chat.parse_calls(response.tool_calls, provider.MAX_RESPONSE_BYTES)
        text = self._text(response, may_be_empty=bool(calls))
        return ModelReply(text, calls, self.name, *spent, cut=response.finish_reason == "length")

    def _answer(
        self, question: provider.ProviderRequest, seconds: float, has_started: Callable[[], bool]
    ) -> tuple[Any, tuple[int, int, float | None, float]]:
        """Return the response, and its input and output tokens, cost and milliseconds."""
        self.prepare()
        started = time.monotonic()
        try:
            work = self._breaker.call(
                self.name,
                lambda: provider.ask(self.name, self._base_url, self._api_key, question),
                RetryLimits(started + seconds, self._retries, has_started),
            )
            response = run_in_thread(work, seconds, _THREAD)
        except TimeoutError:
            raise self._unavailable(f"there was no answer within {seconds:.3g} s") from None
        tokens_in = _plausible_count(response.usage.input_tokens)
        tokens_out = _plausible_count(response.usage.output_tokens)
        cost = provider.price(self.name, response.usage) if tokens_in else None
        return response, (tokens_in, tokens_out, cost, (time.monotonic() - started) * 1000)

    def _text(self, response: Any, *, may_be_empty: bool = False) -> str:
        text = canonical.text(
            chat.join_surrogates(response.text or ""), "answer", 4 * provider.MAX_RESPONSE_BYTES
        ).strip()
        if response.finish_reason == "content_filter":
            raise BadAnswer(model=self.name, problem="it refused")
        if not text and not may_be_empty:
            raise BadAnswer(model=self.name, problem="it is empty")
        if text.count("\ufffd") * 10 > len(text):
            raise BadAnswer(model=self.name, problem="it is not text")
        return text

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(model=self.name, problem=problem)


class _TextRelay:
    """Passes text to `on_text` until the call is over; an abandoned call passes nothing."""

    def __init__(self, on_text: OnText) -> None:
        self.has_text = False
        self.over = False
        self._on_text = on_text
        self._half = ""

    def __call__(self, text: str) -> None:
        if self.over:
            return
        text = self._half + text
        # Hold back the first half of a surrogate pair: the other half may come next.
        ends_with_half = "\ud800" <= text[-1:] <= "\udbff"
        self._half = text[-1:] if ends_with_half else ""
        text = text.removesuffix(self._half)
        if text:
            self.has_text = True
            self._on_text(canonical.text(chat.join_surrogates(text), "text", 1 << 40))


def _plausible_count(tokens: int) -> int:
    """Return a reported token count, or 0 if it is implausible."""
    return tokens if 0 <= tokens <= _MAX_REPORTED_TOKENS else 0
