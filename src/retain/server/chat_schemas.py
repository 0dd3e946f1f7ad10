"""Pydantic models of the chat's requests and responses, for validation and documentation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from retain.api.rendering import as_json
from retain.api.schemas import LENIENT, STRICT, Text
from retain.base.errors import Invalid
from retain.chat.group import MAX_AGENTS
from retain.chat.images import MAX_IMAGES
from retain.kinds.sessions import Session

_PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAUwAOw=="
_SESSION = "The session; without one the active one, else a new one. A UUID that nobody has becomes a session (C4)."


class TurnRequest(BaseModel):
    """The fields that every request for a turn has."""

    model_config = STRICT
    session_id: Text | None = Field(None, description=_SESSION)
    key: Text | None = Field(
        None, description="A retry with the same key goes on where it was; also as Idempotency-Key."
    )
    user: Text | None = Field(None, description="Whose memory; also as the header X-Retain-User.")
    stream: bool = Field(
        False, description="Answer with events; also with Accept: text/event-stream."
    )
    images: list[Text] = Field(
        default=[],
        max_length=MAX_IMAGES,
        description="Images as data URLs: PNG, JPEG, GIF or WebP.",
        examples=[[_PIXEL]],
    )


class ChatRequest(TurnRequest):
    """A message to one or several agents."""

    message: Text = Field(description="What is said.", examples=["Where do we go?"])
    agent_id: Text | None = Field(
        None, description="Who is to answer; also as the header X-Retain-Agent."
    )
    agents: list[Text] = Field(
        default=[],
        max_length=MAX_AGENTS,
        description="A group: these answer, one after the other.",
        examples=[[]],
    )


class EnterRequest(BaseModel):
    """The session to continue."""

    model_config = STRICT
    session_id: Text | None = Field(None, description=_SESSION)
    agent_id: Text | None = Field(None, description="With whom; also as the header X-Retain-Agent.")
    user: Text | None = Field(None, description="Whose memory; also as the header X-Retain-User.")


class RunRequest(TurnRequest):
    """A message to an agent, with the field names of agent runners."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"message": "Where do we go?"}]})
    agent: Text | None = Field(
        None, description="Who is to answer; also as the header X-Retain-Agent."
    )
    message: Text | None = Field(None, description="What is said.", examples=["Where do we go?"])
    input: Text | None = Field(None, description="The same by another name.", examples=[None])

    def text(self) -> str:
        """Return the message, from `message` or `input`."""
        texts = [text for text in (self.message, self.input) if text is not None]
        if len(texts) != 1:
            raise Invalid(field="message", problem="is needed, or `input`, but not both")
        return texts[0]


class VisionRequest(RunRequest):
    """A message with images."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"message": "What is this?", "images": [_PIXEL]}]}
    )
    images: list[Text] = Field(
        min_length=1,
        max_length=MAX_IMAGES,
        description="Images as data URLs.",
        examples=[[_PIXEL]],
    )


class Whose(BaseModel):
    """The owner of the memory, if the headers do not name it."""

    model_config = LENIENT
    user: Text | None = Field(None, description="Whose memory; also as the header X-Retain-User.")
    agent: Text | None = Field(
        None, description="Which agent's; also as the header X-Retain-Agent."
    )


class EventsRequest(Whose):
    """The turn whose events or state to return."""

    session_id: Text | None = Field(
        None, description="The turn's session; the active one where not given."
    )
    agents: list[Text] = Field(
        default=[], max_length=MAX_AGENTS, description="The agents, where it is a group's turn."
    )


class Paged(Whose):
    """A page of a list."""

    limit: int = Field(100, description="The most records to return.")
    after: Text | None = Field(
        None, description="Go on after this cursor, from the end of the page before."
    )


class SessionsRequest(Paged):
    """Filters for the list of conversations."""

    search: Text | None = Field(
        None, description="Only those in whose label or id all these words are."
    )
    spoken: bool = Field(False, description="Only those in which something was said.")


class MessagesRequest(Paged):
    """The messages to return: a page from the start, or the newest."""

    last: int | None = Field(None, description="The last so many messages.")
    minutes: float | None = Field(None, description="The messages of the last so many minutes.")
    tokens: int | None = Field(
        None, description="The newest messages that fit into so many tokens."
    )
    before: int | None = Field(
        None, description="Of those, only messages before this number: to read backwards."
    )
    turns_only: bool = Field(False, description="Only user messages and final answers.")


class Usage(BaseModel):
    """Tokens, cost and latency of all model calls of the turn."""

    model: str
    tokens_in: int
    tokens_out: int
    cost: float | None
    latency_ms: float


class Reply(BaseModel):
    """An agent's answer."""

    session_id: str
    agent_id: str
    key: str = Field(description="The turn's idempotency key.")
    turn_id: str = Field(description="What explains it: GET /api/turns/{id}.")
    message: str
    usage: Usage
    tools: list[str] = Field(description="The tools that were used, in order.")
    asked_seq: int = Field(description="The number of the message that it answers.")
    first_seq: int
    last_seq: int
    memory_only: bool = Field(
        description="No model is set: this is what is remembered about the message."
    )
    again: bool = Field(description="The turn had been saved before.")
    cut: bool = Field(description="The model wanted to go on.")
    error: str = Field(description="In a group: why this agent did not answer.")
    notice: str = Field(description="What else the server did, such as creating the agent.")


class Replies(BaseModel):
    """The answers of the agents of a group, in order."""

    session_id: str
    key: str
    replies: list[Reply]


class TurnState(BaseModel):
    """The state of a turn."""

    session_id: str
    key: str
    asked_seq: int | None = Field(
        description="The number of the message; null while it is in line and not kept yet."
    )
    answered: list[str] = Field(description="The agents whose answer is saved.")
    running: bool = Field(
        description="Whether somebody may be at it; if not, and it is not answered, send it again."
    )


class ChatSession(BaseModel):
    """A conversation, with the number of messages that its summary covers (S6)."""

    id: str
    user: str
    agent: str
    label: str
    title: str = Field(
        description="What to call it: its label, else how what the user says first begins; else empty."
    )
    attributes: dict[str, Any]
    summary: str
    summarizedCount: int  # noqa: N815 the contract's name (S6)
    count: int
    first_seq: int
    last_seq: int
    created_at: str
    updated_at: str
    last_message_at: str | None = Field(
        description="When the last message was said; an import keeps the original times."
    )


class ChatSessionPage(BaseModel):
    """Conversations, most recently used first."""

    data: list[ChatSession]
    next: str | None = Field(
        description="What to send as `after` for the page that follows; null at the end."
    )


class Label(BaseModel):
    """The display name of a conversation."""

    model_config = STRICT
    label: Text = Field(max_length=1000, examples=["Lisbon"])


def shown(session: Session, title: str, last_message_at: datetime | None) -> dict[str, Any]:
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
