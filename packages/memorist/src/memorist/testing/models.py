"""Models for tests: they give prepared answers, call tools, or fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memorist.base.errors import MemoristError, ModelUnavailable
from memorist.content.pairing import ToolCall
from memorist.models import Completion, ModelReply

ModelAnswer = str | ModelReply
"""An answer of a model: a text, or a text with tool calls, as `calling` returns it."""
ScriptedAnswer = ModelAnswer | MemoristError | Callable[["ModelRequest"], ModelAnswer]
"""A prepared answer: an answer, an error to raise, or a function from the request to an answer."""


@dataclass(frozen=True)
class ModelRequest:
    """One request to a model; in a conversation, `prompt` is the last user message."""

    system: str
    prompt: str
    max_tokens: int
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[str] = ()
    use_tools: bool = True


def calling(*calls: tuple[str, Mapping[str, Any] | str], text: str = "") -> ModelReply:
    """Return an answer that calls tools in parallel, each given by name and arguments."""
    tool_calls = [
        ToolCall(
            f"call-{number}-{name}"[:40],
            name,
            arguments if isinstance(arguments, str) else json.dumps(arguments),
        )
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return ModelReply(text, tool_calls, "scripted")


def conversation_request(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int,
    use_tools: bool = True,
) -> ModelRequest:
    """Return the request for a whole conversation in OpenAI's format."""
    system = "\n\n".join(
        _text(message["content"]) for message in messages if message["role"] == "system"
    )
    prompts = [_text(message["content"]) for message in messages if message["role"] == "user"]
    names = [tool["function"]["name"] for tool in tools]
    return ModelRequest(
        system, prompts[-1] if prompts else "", max_tokens, list(messages), names, use_tools
    )


def pieces(text: str) -> Iterator[str]:
    """Yield the words of a text, as they are streamed."""
    start = 0
    while start < len(text):
        end = text.find(" ", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


class ScriptedModel:
    """A model that gives its answers in order and repeats the last. `requests` lists its requests.

    An answer is a text, `calling(…)` for tools, an error to raise, or a function of the request
    that returns one of the first two. A function runs in the caller's thread, outside any
    transaction, so a test can use it to act while the model is working. Tokens are counted as words.
    """

    def __init__(
        self, *answers: ScriptedAnswer, name: str = "scripted", cost: float | None = None
    ) -> None:
        if not answers:
            raise ValueError("a scripted model needs an answer")
        self.name = name
        self.requests: list[ModelRequest] = []
        self._answers = answers
        self._cost = cost
        self._lock = threading.Lock()

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Return the next answer."""
        reply = self._next(ModelRequest(system, prompt, max_tokens))
        return Completion(
            reply.text,
            self.name,
            len(f"{system} {prompt}".split()),
            len(reply.text.split()),
            self._cost,
            0.0,
        )

    def converse(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        max_tokens: int,
        on_text: Callable[[str], None] | None = None,
        use_tools: bool = True,
        seconds: float | None = None,
    ) -> ModelReply:
        """Return the next answer; with `on_text`, also stream it word by word."""
        reply = self._next(conversation_request(messages, tools, max_tokens, use_tools))
        for piece in pieces(reply.text) if on_text else ():
            on_text(piece)  # type: ignore[misc]
        words = sum(len(_text(message["content"]).split()) for message in messages)
        return ModelReply(
            text=reply.text,
            calls=reply.calls,
            model=self.name,
            tokens_in=words,
            tokens_out=len(reply.text.split()),
            cost=self._cost,
            latency_ms=0.0,
            cut=reply.cut,
        )

    def _next(self, request: ModelRequest) -> ModelReply:
        with self._lock:
            answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
            self.requests.append(request)
        if isinstance(answer, MemoristError):
            raise answer.copy()
        reply = answer if isinstance(answer, str | ModelReply) else answer(request)
        return reply if isinstance(reply, ModelReply) else ModelReply(reply, (), self.name)


class FailingModel(ScriptedModel):
    """A model that always fails: with the given error, or as a service that does not answer."""

    def __init__(self, error: MemoristError | None = None, *, name: str = "failing") -> None:
        super().__init__(
            error or ModelUnavailable(model=name, problem="it is configured to fail"), name=name
        )


class EchoModel(ScriptedModel):
    """A model that answers with the prompt, or with the result of `reply`."""

    def __init__(self, reply: Callable[[str], str] = str, *, name: str = "echo") -> None:
        super().__init__(lambda request: reply(request.prompt), name=name)
