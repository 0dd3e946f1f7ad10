"""OpenAI's Conversations on our server: the unmodified client, and its errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from agents import OpenAIConversationsSession
from openai import (
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    OpenAI,
    PermissionDeniedError,
)
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memorist import Memory
from testkit.apps import Calling
from testkit.databases import one_engine
from testkit.keys import create_key
from testkit.openai_items import ITEMS
from testkit.serving import serving

QUESTION: Any = {"role": "user", "content": "Where does my sister live?"}
CONVERSATION = ITEMS[:9]


@pytest.fixture
def address(app: Starlette) -> Iterator[str]:
    with serving(app) as url:
        yield f"{url}/v1"


def key(app: Starlette, *permissions: str, **bound: Any) -> str:
    _, text = create_key(
        app.state.memory, "acme", "a test", permissions or ("read", "write", "delete"), **bound
    )
    app.state.authenticator.forget()
    return text


@pytest.fixture
def client(app: Starlette, address: str) -> Iterator[OpenAI]:
    with OpenAI(
        base_url=address,
        api_key=key(app),
        max_retries=0,
        default_headers={"X-Memorist-User": "ada"},
    ) as client:
        yield client


def test_a_conversation_from_creation_to_deletion(client: OpenAI, memory: Memory) -> None:
    """All eight operations."""
    talk = client.conversations.create(items=[QUESTION], metadata={"topic": "family"})
    assert talk.id.startswith("conv_")
    assert (talk.object, talk.metadata) == ("conversation", {"topic": "family"})
    assert client.conversations.retrieve(talk.id) == talk
    changed = client.conversations.update(talk.id, metadata={"topic": "travel"})
    assert changed.metadata == {"topic": "travel"}

    added = client.conversations.items.create(talk.id, items=cast(Any, CONVERSATION[1:]))
    assert [item.type for item in added.data] == [
        item.get("type", "message") for item in CONVERSATION[1:]
    ]
    assert (added.first_id, added.last_id, added.has_more) == (
        added.data[0].id,
        added.last_id,
        False,
    )
    assert (
        client.conversations.items.retrieve(str(added.last_id), conversation_id=talk.id).id
        == "msg_1"
    )
    first = client.conversations.items.list(talk.id, order="asc", limit=1).data[0]
    assert first.model_dump(exclude_unset=True) == {
        "id": first.id,
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_text", "text": QUESTION["content"]}],
    }
    call = added.data[3]
    assert call.to_dict() == {**CONVERSATION[4], "status": "completed"}
    assert client.conversations.items.retrieve("fc_1", conversation_id=talk.id) == call
    assert client.conversations.items.delete(str(first.id), conversation_id=talk.id).id == talk.id
    with pytest.raises(NotFoundError):
        client.conversations.items.retrieve(str(first.id), conversation_id=talk.id)
    me = memory.scope(tenant="acme", user="ada")
    assert me.sessions.get(talk.id).attributes == {"metadata": {"topic": "travel"}}
    assert "In Lisbon." in me.messages.window(talk.id)[-1].text
    gone = client.conversations.delete(talk.id)
    assert (gone.id, gone.object, gone.deleted) == (talk.id, "conversation.deleted", True)
    with pytest.raises(NotFoundError):
        client.conversations.retrieve(talk.id)


@one_engine
@pytest.mark.parametrize("own", [False, True])
def test_pages_in_both_directions(client: OpenAI, own: bool) -> None:
    """For items with their own ids and with ours; newest first by default."""
    talk = client.conversations.create().id
    texts: list[Any] = [{"type": "message", "role": "user", "content": f"{n}"} for n in range(45)]
    for start in range(0, 45, 20):
        inputs = [
            {**item, "id": f"msg_own{start + n}"} if own else item
            for n, item in enumerate(texts[start : start + 20])
        ]
        client.conversations.items.create(talk, items=cast(Any, inputs))
    everything = [item.id for item in client.conversations.items.list(talk, order="asc", limit=100)]
    assert len(set(everything)) == 45
    for limit in (1, 20, 45):
        assert [
            item.id for item in client.conversations.items.list(talk, order="asc", limit=limit)
        ] == everything
    assert [item.id for item in client.conversations.items.list(talk)] == everything[::-1]
    some = client.conversations.items.list(talk, after=str(everything[30]), order="asc", limit=2)
    assert [item.id for item in some.data] == everything[31:33]
    assert some.has_more
    assert own or some.last_id == everything[32]
    last = client.conversations.items.list(
        talk, after=str(everything[1]), limit=2, include=["reasoning.encrypted_content"]
    )
    assert ([item.id for item in last.data], last.has_more) == ([everything[0]], False)


@one_engine
def test_an_item_is_found_by_its_id_in_its_conversation_only(client: OpenAI) -> None:
    first, two = client.conversations.create(items=[QUESTION]).id, client.conversations.create().id
    item = client.conversations.items.list(first).data[0]
    again: Any = item.to_dict()
    (twin,) = client.conversations.items.create(first, items=[again]).data
    assert twin.id != item.id  # an id that we assigned, sent back, is a new item
    (moved,) = client.conversations.items.create(two, items=[again]).data
    assert moved.id == item.id  # in another conversation it is the client's own id
    assert client.conversations.items.retrieve(str(item.id), conversation_id=two).to_dict() == again
    client.conversations.items.delete(str(item.id), conversation_id=two)
    assert client.conversations.items.list(two).data == []
    assert [str(each.id) for each in client.conversations.items.list(first)] == [twin.id, item.id]
    for _ in range(2):  # the same id twice: the newest counts
        client.conversations.items.create(
            two, items=cast(Any, [{"id": "msg_x", "type": "message", **QUESTION}])
        )
    client.conversations.items.create(
        two, items=cast(Any, [{"id": "msg_y", "type": "message", **QUESTION}])
    )
    for order in ("asc", "desc"):
        pages = client.conversations.items.list(two, order=cast(Any, order), limit=1)
        assert sorted(str(each.id) for each in pages) == ["msg_x", "msg_x", "msg_y"]
    with pytest.raises(BadRequestError, match="last_id"):
        client.conversations.items.list(two, after="msg_x")
    assert [str(each.id) for each in client.conversations.items.list(two, after="msg_y")] == [
        "msg_x",
        "msg_x",
    ]
    client.conversations.items.delete("msg_y", conversation_id=two)
    client.conversations.items.delete("msg_x", conversation_id=two)
    assert [each.id for each in client.conversations.items.list(two)] == ["msg_x"]


@one_engine
def test_any_session_is_a_conversation(client: OpenAI, memory: Memory) -> None:
    me = memory.scope(tenant="acme", user="ada", agent="scout")
    me.sessions.add("trip", attributes={"pinned": True})
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    me.messages.append("trip", "user", "Look!")
    me.messages.extend("trip", [{"role": "assistant", "content": "I will.", "tool_calls": [call]}])
    me.messages.extend("trip", [{"role": "tool", "content": "A dog.", "tool_call_id": "c1"}])
    items = list(client.conversations.items.list("trip", order="asc", limit=1))
    assert [item.type for item in items] == [
        "message",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert [str(item.id).split("_")[0] for item in items] == ["msg", "msg", "fc", "fco"]
    assert list(client.conversations.items.list("trip", limit=1)) == items[::-1]
    assert client.conversations.items.retrieve(str(items[2].id), conversation_id="trip") == items[2]
    for item in items[1:3]:  # both are one message, and only one of them was named
        with pytest.raises(ConflictError, match="one of 2"):
            client.conversations.items.delete(str(item.id), conversation_id="trip")
    assert list(client.conversations.items.list("trip", order="asc")) == items
    client.conversations.update("trip", metadata={"a": "b"})
    assert me.sessions.get("trip").attributes == {"pinned": True, "metadata": {"a": "b"}}


@one_engine
def test_a_retry_with_its_key_adds_nothing(client: OpenAI) -> None:
    once = {"Idempotency-Key": "k"}
    created = [client.conversations.create(items=[QUESTION], extra_headers=once) for _ in range(2)]
    assert created[0] == created[1]
    with pytest.raises(BadRequestError):
        client.conversations.create(extra_headers=once)
    talk = client.conversations.create().id
    assert talk != created[0].id
    for _ in range(2):
        client.conversations.items.create(talk, items=[QUESTION], extra_headers=once)
    assert [len(client.conversations.items.list(id).data) for id in (talk, created[0].id)] == [1, 1]


@one_engine
def test_errors_have_the_vendors_shape(client: OpenAI, app: Starlette, address: str) -> None:
    talk = client.conversations.create().id
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"items": [QUESTION] * 21}, "items"),
        ({"items": [{"content": "x"}]}, "items[0].type"),
        ({"items": [QUESTION, {"role": "user"}]}, "items[1].content"),
        ({"items": [{"type": "message", "role": "user", "content": None}]}, "items[0].content"),
        ({"items": [{"role": "assistant", "content": 5}]}, "items[0].content"),
        ({"items": []}, "items"),
        ({"items": [QUESTION], "extra_body": {"nonsense": 1}}, "nonsense"),
    ]
    for text, field in wrong:
        with pytest.raises(BadRequestError) as error:
            client.conversations.items.create(talk, **text)
        assert (error.value.type, error.value.param, error.value.code) == (
            "invalid_request_error",
            field,
            None,
        )
    for element in (
        {"limit": 0},
        {"limit": 101},
        {"order": "sideways"},
        {"extra_query": {"nonsense": "1"}},
    ):
        with pytest.raises(BadRequestError):
            client.conversations.items.list(talk, **cast(Any, element))
    for metadata in ({"a": "b" * 513}, {"a" * 65: "b"}, {str(n): "" for n in range(17)}, {"a": 1}):
        with pytest.raises(BadRequestError, match="metadata"):
            client.conversations.update(talk, metadata=cast(Any, metadata))
    for item in ("msg_nothing", "msg_" + "0" * 48, "msg_" + "é" * 48):
        with pytest.raises(NotFoundError) as missing:
            client.conversations.items.retrieve(item, conversation_id=talk)
        assert missing.value.type == "invalid_request_error"
    with pytest.raises(NotFoundError):
        client.conversations.items.list("conv_nothing")
    with pytest.raises(AuthenticationError) as unknown:
        client.with_options(api_key="mst_wrong").conversations.retrieve(talk)
    assert unknown.value.code == "invalid_api_key"
    with pytest.raises(PermissionDeniedError):
        client.with_options(api_key=key(app, "read", "write")).conversations.delete(talk)
    once = {"Idempotency-Key": "k"}
    client.conversations.items.create(talk, items=[QUESTION], extra_headers=once)
    with pytest.raises(BadRequestError):
        client.conversations.items.create(
            talk, items=cast(Any, [{**QUESTION, "content": "x"}]), extra_headers=once
        )


@one_engine
def test_a_foreign_conversation_is_not_found(
    client: OpenAI, app: Starlette, calling: Calling
) -> None:
    """The tenant is the key's; a foreign conversation looks unknown."""
    talk = client.conversations.create(items=[QUESTION]).id
    item = str(client.conversations.items.list(talk).data[0].id)
    for other in (calling("evil"), calling("acme", user="bob")):
        for method, path in [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/items"),
            ("GET", f"/items/{item}"),
            ("DELETE", f"/items/{item}"),
        ]:
            assert other.request(method, f"/v1/conversations/{talk}{path}").status_code == 404
        assert (
            other.post(f"/v1/conversations/{talk}/items", json={"items": [QUESTION]}).status_code
            == 404
        )
    assert [each.id for each in client.conversations.items.list(talk)] == [item]


@one_engine
def test_the_user_defaults(calling: Calling, memory: Memory) -> None:
    payload = calling().post("/v1/conversations", json={"items": [QUESTION]}).json()
    session = memory.scope(tenant="acme").sessions.get(payload["id"])
    assert (session.user, session.agent, session.count) == ("default", "assistant", 1)


@one_engine
def test_requests_are_audited_and_absent_from_our_document(
    calling: Calling, http: TestClient
) -> None:
    created = http.post("/v1/conversations", json={}).json()["id"]
    http.delete(f"/v1/conversations/{created}")
    done = [row["what"] for row in http.get("/api/audit").json()["data"]]
    assert {"sessions_add", "sessions_remove"} <= set(done)
    assert not [
        path for path in http.get("/openapi.json").json()["paths"] if path.startswith("/v1")
    ]


def test_the_agents_sdk_session_works_unchanged(app: Starlette, address: str) -> None:
    """`OpenAIConversationsSession` of openai-agents: read, add more items than fit one request,
    pop, clear.
    """

    async def use_session() -> None:
        async with AsyncOpenAI(base_url=address, api_key=key(app), max_retries=0) as client:
            theirs = OpenAIConversationsSession(openai_client=client)
            assert await theirs.get_items() == []
            talk = theirs.session_id
            await theirs.add_items(
                [cast(Any, {"role": "user", "content": str(n)}) for n in range(45)]
            )
            await theirs.add_items(cast(Any, CONVERSATION[4:6]))
            read: list[Any] = list(await theirs.get_items())
            assert [item["content"][0]["text"] for item in read[:-2]] == [str(n) for n in range(45)]
            assert [item["type"] for item in await theirs.get_items(limit=2)] == [
                "function_call",
                "function_call_output",
            ]
            assert [
                item["type"] for item in [await theirs.pop_item(), await theirs.pop_item()] if item
            ] == [
                "function_call_output",
                "function_call",
            ]
            assert len(await theirs.get_items()) == 45
            await theirs.clear_session()
            with pytest.raises(NotFoundError):
                await client.conversations.retrieve(talk)

    asyncio.run(use_session())
