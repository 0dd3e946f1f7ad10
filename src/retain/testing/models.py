"""Models for tests: they give the answers that they are given, ask for tools, or fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retain.base.errors import ModelUnavailable, RetainError
from retain.messages.pairing import Call
from retain.models import Completion, Reply

Said = str | Reply
"""What a model says: a text, or a text with tools that it asks for, as `calling` makes it."""
Answer = Said | RetainError | Callable[["Asked"], Said]
"""What a scripted model does when it is asked: say this, raise this, or say what this function makes of the question."""


@dataclass(frozen=True)
class Asked:
    """One question that a model was asked; in a conversation, `prompt` is what the user said last."""

    system: str
    prompt: str
    max_tokens: int
    messages: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[str] = ()
    use_tools: bool = True


def calling(*calls: tuple[str, Mapping[str, Any] | str], text: str = "") -> Reply:
    """What a model says that asks for tools, each by its name and arguments; all of one answer are asked for at once."""
    made = [
        Call(
            f"call-{number}-{name}"[:40],
            name,
            given if isinstance(given, str) else json.dumps(given),
        )
        for number, (name, given) in enumerate(calls, 1)
    ]
    return Reply(text, made, "scripted")


def conversation(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int,
    use_tools: bool = True,
) -> Asked:
    """A question that is a whole conversation, in OpenAI's shape."""
    system = "\n\n".join(
        _text(message["content"]) for message in messages if message["role"] == "system"
    )
    prompts = [_text(message["content"]) for message in messages if message["role"] == "user"]
    names = [tool["function"]["name"] for tool in tools]
    return Asked(
        system, prompts[-1] if prompts else "", max_tokens, list(messages), names, use_tools
    )


def pieces(text: str) -> Iterator[str]:
    """A text in the pieces in which it is streamed: its words."""
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
    """A model that gives its answers in order, the last one again and again; `asked` is what it was asked.

    An answer is a text, `calling(…)` for tools, an error to raise, or a function of the question that returns one of the
    first two. A function runs in the caller's thread, outside any transaction, so it may also do what must happen while a
    model is thinking. Its tokens are words.
    """

    def __init__(self, *answers: Answer, name: str = "scripted", cost: float | None = None) -> None:
        if not answers:
            raise ValueError("a scripted model needs an answer")
        self.name = name
        self.asked: list[Asked] = []
        self._answers = answers
        self._cost = cost
        self._lock = threading.Lock()

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Completion:
        """Give the next answer."""
        said = self._next(Asked(system, prompt, max_tokens))
        return Completion(
            said.text,
            self.name,
            len(f"{system} {prompt}".split()),
            len(said.text.split()),
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
    ) -> Reply:
        """Give the next answer, word by word where somebody listens."""
        said = self._next(conversation(messages, tools, max_tokens, use_tools))
        for piece in pieces(said.text) if on_text else ():
            on_text(piece)  # type: ignore[misc]
        words = sum(len(_text(message["content"]).split()) for message in messages)
        return Reply(
            said.text,
            said.calls,
            self.name,
            words,
            len(said.text.split()),
            self._cost,
            0.0,
            said.cut,
        )

    def _next(self, question: Asked) -> Reply:
        with self._lock:
            answer = self._answers[min(len(self.asked), len(self._answers) - 1)]
            self.asked.append(question)
        if isinstance(answer, RetainError):
            raise answer.again()
        said = answer if isinstance(answer, str | Reply) else answer(question)
        return said if isinstance(said, Reply) else Reply(said, (), self.name)


class FailingModel(ScriptedModel):
    """A model that fails whenever it is asked, as a service that does not answer, or with the error that it is given."""

    def __init__(self, error: RetainError | None = None, *, name: str = "failing") -> None:
        super().__init__(
            error or ModelUnavailable(model=name, problem="it was told to fail"), name=name
        )


class EchoModel(ScriptedModel):
    """A model that says again what it was asked, or what `say` makes of it."""

    def __init__(self, say: Callable[[str], str] = str, *, name: str = "echo") -> None:
        super().__init__(lambda asked: say(asked.prompt), name=name)
