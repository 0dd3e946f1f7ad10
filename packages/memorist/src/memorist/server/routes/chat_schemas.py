"""Pydantic models of the chat's requests and responses, for validation and documentation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memorist.api.rendering import as_json
from memorist.api.schemas import DEFERRED, LENIENT, STRICT, Name, Text
from memorist.base.errors import Invalid
from memorist.base.parameters import NOT_BLANK, Amount, Count, Number, PageSize, value_rules
from memorist.chat.group import MAX_AGENTS
from memorist.chat.images import MAX_IMAGES
from memorist.kinds.sessions import Session

_PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAUwAOw=="
# Rules in JSON schema. `not` instead of `anyOf`: generators of clients make types of the latter.
_STRING = {"type": "string"}
_NULL = {"type": "null"}
_BLANK = {"not": {"type": "string", **NOT_BLANK.schema()}}
_ONE_AGENT_AND_GROUP = {
    "required": ["agent_id", "agents"],
    "properties": {"agent_id": _STRING, "agents": {"type": "array", "minItems": 1}},
}
_NEITHER_TEXT_NOR_IMAGES = {
    "properties": {
        "message": _BLANK,
        "input": _BLANK,
        "prompt": _BLANK,
        "images": {"maxItems": 0},
    }
}
_MESSAGE_FIELDS = ("message", "input", "prompt")
_ONE_MESSAGE_FIELD = [
    {
        "required": [name],
        "properties": {other: _STRING if other == name else _NULL for other in _MESSAGE_FIELDS},
    }
    for name in _MESSAGE_FIELDS
]
_CHAT_RULES: dict[str, Any] = {"not": {"anyOf": [_ONE_AGENT_AND_GROUP, _NEITHER_TEXT_NOR_IMAGES]}}
_VISION_RULES: dict[str, Any] = {"oneOf": _ONE_MESSAGE_FIELD}
_RUN_RULES: dict[str, Any] = {**_VISION_RULES, "not": _NEITHER_TEXT_NOR_IMAGES}
User = Annotated[
    Name | None,
    Field(description="The user who owns the memory; also as the header X-Memorist-User."),
]
_SESSION = "The session id. Default: the active session, or a new one. An unused UUID creates a session with that id."


class TurnRequest(BaseModel):
    """The fields that every request for a turn has."""

    model_config = STRICT
    session_id: Name | None = Field(None, description=_SESSION)
    key: Name | None = Field(
        None,
        description="The idempotency key of the turn: a retry with the same key continues it. Also as the header Idempotency-Key.",
    )
    user: User = None
    stream: bool = Field(
        False, description="Stream the answer as events; also with Accept: text/event-stream."
    )
    images: list[Text] = Field(
        default=[],
        max_length=MAX_IMAGES,
        description="Images as data URLs: PNG, JPEG, GIF or WebP.",
        examples=[[_PIXEL]],
    )


class ChatRequest(TurnRequest):
    """A message to one or several agents."""

    model_config = ConfigDict(json_schema_extra=_CHAT_RULES)
    message: Text = Field(description="The user's message.", examples=["Where do we go?"])
    agent_id: Name | None = Field(
        None, description="The agent that answers; also as the header X-Memorist-Agent."
    )
    agents: list[Name] = Field(
        default=[],
        max_length=MAX_AGENTS,
        description="For a group conversation: the agents that answer, in this order.",
        examples=[[]],
        json_schema_extra={"uniqueItems": True},
    )


class EnterRequest(BaseModel):
    """The session to continue."""

    model_config = STRICT
    session_id: Name | None = Field(None, description=_SESSION)
    agent_id: Name | None = Field(
        None, description="The agent of the conversation; also as the header X-Memorist-Agent."
    )
    user: User = None


class RunRequest(TurnRequest):
    """A message to an agent, with the field names of agent runners."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message": "Where do we go?"}], **_RUN_RULES}
    )
    agent: Name | None = Field(
        None, description="The agent that answers; also as the header X-Memorist-Agent."
    )
    message: Text | None = Field(
        None, description="The user's message.", examples=["Where do we go?"]
    )
    input: Text | None = Field(None, description="Another name for `message`.", examples=[None])
    prompt: Text | None = Field(None, description="Another name for `message`.", examples=[None])

    def text(self) -> str:
        """Return the message, by whichever of its names it has."""
        values = (self.message, self.input, self.prompt)
        texts = [text for text in values if text is not None]
        if len(texts) != 1:
            problem = "is required once: as `message`, `input` or `prompt`"
            raise Invalid(field="message", problem=problem)
        return texts[0]


class VisionRequest(RunRequest):
    """A message with images."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"message": "What is this?", "images": [_PIXEL]}],
            **_VISION_RULES,
        }
    )
    images: list[Text] = Field(
        min_length=1,
        max_length=MAX_IMAGES,
        description="Images as data URLs.",
        examples=[[_PIXEL]],
    )


class OwnerRequest(BaseModel):
    """The owner of the memory, if the headers do not name it."""

    model_config = LENIENT
    user: User = None
    agent: Name | None = Field(
        None, description="The agent whose memory it is; also as the header X-Memorist-Agent."
    )


class EventsRequest(OwnerRequest):
    """The turn whose events or state to return."""

    session_id: Name | None = Field(
        None, description="The session of the turn. Default: the active session."
    )
    agents: list[Name] = Field(
        default=[], max_length=MAX_AGENTS, description="The agents of a group turn."
    )


class PageRequest(OwnerRequest):
    """A page of a list."""

    limit: int = Field(
        100,
        description="The maximum number of records to return.",
        json_schema_extra=value_rules(PageSize),
    )
    after: Text | None = Field(None, description="The cursor `next` of the previous page.")


class SessionsRequest(PageRequest):
    """Filters for the list of conversations."""

    search: Text | None = Field(
        None, description="Only conversations whose label or id contains all these words."
    )
    spoken: bool = Field(False, description="Only conversations with at least one message.")


class MessagesRequest(PageRequest):
    """The messages to return: a page from the start, or the newest."""

    last: int | None = Field(
        None,
        description="Only the last N messages.",
        json_schema_extra=value_rules(Count),
    )
    minutes: float | None = Field(
        None,
        description="Only messages of the last N minutes.",
        json_schema_extra=value_rules(Amount),
    )
    tokens: int | None = Field(
        None,
        description="The newest messages that fit into N tokens.",
        json_schema_extra=value_rules(Count),
    )
    before: int | None = Field(
        None,
        description="Only messages with a smaller number, to page backwards.",
        json_schema_extra=value_rules(Number),
    )
    turns_only: bool = Field(False, description="Only user messages and final answers.")


class ChatUsage(BaseModel):
    """Tokens, cost and latency of all model calls of the turn."""

    model_config = DEFERRED
    model: str
    tokens_in: int
    tokens_out: int
    cost: float | None
    latency_ms: float


class Reply(BaseModel):
    """An agent's answer."""

    model_config = DEFERRED
    session_id: str
    agent_id: str
    key: str = Field(description="The turn's idempotency key.")
    turn_id: str = Field(
        description="The id of the turn. `GET /api/turns/{id}` explains the answer."
    )
    message: str
    usage: ChatUsage
    tools: list[str] = Field(description="The tools that the agent called, in order.")
    asked_seq: int = Field(description="The number of the user message that this answers.")
    first_seq: int
    last_seq: int
    memory_only: bool = Field(
        description="True if no model is set: the answer lists stored memories about the message."
    )
    again: bool = Field(description="True if the turn was already saved by an earlier request.")
    cut: bool = Field(description="True if the answer was cut at the token limit.")
    error: str = Field(description="In a group: the reason why this agent did not answer.")
    notice: str = Field(description="A further action of the server, such as creating the agent.")


class Replies(BaseModel):
    """The answers of the agents of a group, in order."""

    model_config = DEFERRED
    session_id: str
    key: str
    replies: list[Reply]


class TurnState(BaseModel):
    """The state of a turn."""

    model_config = DEFERRED
    session_id: str
    key: str
    asked_seq: int | None = Field(
        description="The number of the user message; null until it is stored."
    )
    answered: list[str] = Field(description="The agents whose answer is saved.")
    running: bool = Field(
        description="True while a server may be working on the turn. If false and unanswered, send the message again."
    )


class ChatSession(BaseModel):
    """A conversation, with the number of messages that its summary covers."""

    model_config = DEFERRED
    id: str
    user: str
    agent: str
    label: str
    title: str = Field(
        description="A title for display: the label, or the start of the first user message, or empty."
    )
    attributes: dict[str, Any]
    summary: str
    summarizedCount: int  # noqa: N815 the name that clients use
    count: int
    first_seq: int
    last_seq: int
    created_at: str
    updated_at: str
    last_message_at: str | None = Field(
        description="Time of the last message. Imported messages keep their original times."
    )


class ChatSessionPage(BaseModel):
    """Conversations, most recently used first."""

    model_config = DEFERRED
    data: list[ChatSession]
    next: str | None = Field(
        description="The cursor for the next page, to send as `after`; null on the last page."
    )


class Label(BaseModel):
    """The display name of a conversation."""

    model_config = STRICT
    label: Text = Field(max_length=1000, examples=["Lisbon"])


def session_json(session: Session, title: str, last_message_at: datetime | None) -> dict[str, Any]:
    """Return the JSON of a session as `ChatSession` describes it."""
    record = as_json(session)
    covered = record.pop("summarized_count")
    return {
        **record,
        "title": title,
        "count": session.count,
        "summarizedCount": covered,
        "last_message_at": as_json(last_message_at),
    }
