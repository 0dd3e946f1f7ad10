"""Messages: appended once, in one order, read back exactly: spec C1–C3, C8; P2–P5; B3, B13–B15,
B18.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memorist import JsonText, Memory, Message, NewMessage, Scope
from memorist.base import tokens
from memorist.base.errors import InDoubt, KeyReused, NotFound, OutOfOrder, TooLarge
from testkit.failures import invalid, raised
from testkit.faults import with_faults
from testkit.limited import Limited
from testkit.memories import problems, scope_of
from testkit.recording import WorkCounter

START = 1_760_000_000_000_000
MINUTE = 60_000_000


@pytest.fixture
def session(me: Scope) -> str:
    return me.sessions.resume().id


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def at(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


# -- appending ---------------------------------------------------------------------------------------------------


def test_a_message_round_trips(me: Scope, session: str) -> None:
    """Content, author, tokens, cost and time, exactly."""
    content = {
        "text": "Look: é 😀 \u202e",
        "parts": [{"type": "image", "url": "data:;base64,AA=="}, {"b": 1.5, "a": [None, True]}],
        "attachments": [],
    }
    leap_day = datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
    fields = {"author": "ada's phone", "tokens_in": 3, "tokens_out": 0, "cost": 0.1 + 0.2}
    sent = me.messages.append(session, "user", content, created_at=leap_day, **fields)  # type: ignore[arg-type]
    assert sent.content == content
    assert list(sent.content) == list(content)
    assert (sent.seq, sent.role, sent.created_at) == (1, "user", leap_day)
    assert {name: getattr(sent, name) for name in fields} == fields
    assert me.messages.window(session) == me.messages.list(session).items == [sent]
    assert me.messages.get(session, 1) == sent


def test_text_is_an_object_with_text(me: Scope, session: str) -> None:
    message = me.messages.append(session, "user", 'say "hi"\n\\u0000')
    assert message.content == {"text": 'say "hi"\n\\u0000'}
    assert message.text == 'say "hi"\n\\u0000'
    assert me.messages.append(session, "user", {"text": message.text}).raw == message.raw
    assert me.messages.append(session, "user", {"parts": []}).text == ""
    assert me.messages.append(session, "user", {"text": 5}).text == ""


def test_an_assistant_message_has_the_agent_as_author(
    memory: Memory, me: Scope, session: str
) -> None:
    """`author` tells agents of a group apart."""
    roles: list[Any] = ["system", "user", "assistant", "tool"]
    authors = [me.messages.append(session, role, "x").author for role in roles]
    assert authors == [None, None, "scout", None]
    assert me.messages.append(session, "assistant", "x", author="cook").author == "cook"
    assert me.messages.append(session, "user", "x", author="cook").author == "cook"
    assert scope_of(memory, "ada").messages.append(session, "assistant", "x").author is None
    assert [m.author for m in me.messages.window(session, last=4)] == [None, "cook", "cook", None]


def test_history_can_be_imported(open_memory: Callable[..., Memory]) -> None:
    """With its own times, in any zone, in the given order."""
    me = scope_of(open_memory(clock=lambda: START), "ada", "scout")
    session = me.sessions.resume().id
    india = timezone(timedelta(hours=5, minutes=30))
    moments = [
        datetime(2024, 5, 1, 12, tzinfo=india),
        datetime(2024, 4, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        at(START + 3_600_000_000),
    ]
    me.messages.extend(
        session, [NewMessage("user", str(n), created_at=moment) for n, moment in enumerate(moments)]
    )
    me.messages.append(session, "user", "now")
    read = me.messages.window(session)
    assert [m.created_at for m in read] == [*moments, at(START)]
    assert [m.created_at.utcoffset() for m in read] == [timedelta(0)] * 5
    assert [m.seq for m in read] == [1, 2, 3, 4, 5]


def test_extend_is_all_or_nothing(me: Scope, session: str) -> None:
    """P3: the invalid message is named, and the valid ones are not written."""
    me.messages.append(session, "user", "before")
    good = {"role": "user", "content": "good"}
    invalid(
        "messages[1].role",
        me.messages.extend,
        session,
        [good, {"role": "robot", "content": "bad"}, good],
        key="k",
    )
    raised(OutOfOrder, me.messages.extend, session, [good, good], key="k", expected_last_seq=7)
    assert texts(me.messages.window(session)) == ["before"]
    sent = me.messages.extend(
        session, [good, NewMessage("assistant", "fine", cost=1)], key="k", expected_last_seq=1
    )
    assert [m.seq for m in sent] == [2, 3]
    assert me.messages.window(session, last=2) == sent


FUNCTION = {"name": "search", "arguments": '{"q": "Lisbon"}'}
TOOL_CALL = {"id": "c1", "type": "function", "function": FUNCTION}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/map.png"}}
A, B = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
UNSET = {"refusal": None, "function_call": None}


@pytest.mark.parametrize(
    ("role", "fields", "kept_role", "kept"),
    [
        ("user", {"content": None}, "user", {"text": ""}),
        ("assistant", {"content": None, "tool_calls": [TOOL_CALL], **UNSET}, "assistant", {"text": "", "tool_calls": [TOOL_CALL]}),
        ("assistant", {"tool_calls": [TOOL_CALL]}, "assistant", {"text": "", "tool_calls": [TOOL_CALL]}),
        ("tool", {"tool_call_id": "c1", "name": "f", "content": "Sunny"}, "tool", {"text": "Sunny", "tool_call_id": "c1", "name": "f"}),
        ("tool", {"tool_call_id": "c1", "content": [A, B]}, "tool", {"text": "a\nb", "tool_call_id": "c1"}),
        ("function", {"name": "f", "content": "1"}, "tool", {"text": "1", "name": "f"}),
        ("assistant", {"content": None, "function_call": FUNCTION}, "assistant", {"text": "", "function_call": FUNCTION}),
        ("assistant", {"content": None, "refusal": "No."}, "assistant", {"text": "", "refusal": "No."}),
        ("developer", {"content": "Be brief."}, "system", {"text": "Be brief."}),
        ("user", {"content": [A, IMAGE]}, "user", {"parts": [A, IMAGE]}),
        ("user", {"content": ["a"]}, "user", {"parts": [A]}),
        ("user", {"content": {"text": "hi", "mood": 1}, "name": "ada"}, "user", {"text": "hi", "mood": 1, "name": "ada"}),
        ("user", {"content": JsonText('{"mood": 1.0}'), "name": "ada"}, "user", {"mood": 1.0, "name": "ada"}),
    ],
)  # fmt: skip
def test_provider_messages_are_accepted(
    me: Scope, session: str, role: str, fields: dict[str, Any], kept_role: str, kept: Any
) -> None:
    """Fields beside role and content become part of the content; a retry finds it by its key."""
    sent = {"role": role, **fields}
    (message,) = me.messages.extend(session, [sent], key="k")
    assert (message.role, message.content) == (kept_role, kept)
    assert me.messages.extend(session, [sent], key="k") == [message]
    raised(KeyReused, me.messages.extend, session, [{**sent, "name": "another"}], key="k")


def test_text_of_parts_is_readable(me: Scope, session: str) -> None:
    """Text blocks are the message's text; a message of tool results only is no user turn."""
    sent = me.messages.extend(session, [
        {"role": "user", "content": [{"type": "text", "text": "Where?"}, IMAGE, {"type": "text", "text": "And when?"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a map"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Lisbon."}]},
    ])  # fmt: skip
    assert texts(sent) == ["Where?\nAnd when?", "", "", "Lisbon."]
    assert texts(me.messages.window(session, turns_only=True)) == ["Where?\nAnd when?", "Lisbon."]


class Record:
    """A message object of a provider's library that serialises itself."""

    def __init__(self, **given: Any) -> None:
        self.given = given

    def model_dump(self, *, mode: str, exclude_none: bool) -> dict[str, Any]:
        assert (mode, exclude_none) == ("json", True)
        return {name: value for name, value in self.given.items() if value is not None}


def test_a_provider_object_is_accepted(me: Scope, session: str) -> None:
    answer: Any = Record(role="assistant", content=None, tool_calls=[TOOL_CALL], audio=None)
    use = {"type": "tool_use", "id": "c2", "name": "look", "input": {}}
    sent = me.messages.extend(session, [
        answer,
        {"role": "assistant", "content": [Record(**A), Record(**use)]},
        {"role": "assistant", "content": "", "tool_calls": [Record(**TOOL_CALL)]},
    ])  # fmt: skip
    assert [message.content for message in sent] == [
        {"text": "", "tool_calls": [TOOL_CALL]},
        {"parts": [A, use]},
        {"text": "", "tool_calls": [TOOL_CALL]},
    ]


def test_context_messages_can_be_saved_back(me: Scope, session: str) -> None:
    """A session made from a context's messages has the same context, in both formats."""
    me.messages.extend(session, [
        {"role": "user", "content": [{"type": "text", "text": "Where is this?"}, IMAGE]},
        {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "Sunny"},
        {"role": "assistant", "content": "Lisbon."},
    ])  # fmt: skip
    context = me.context(session)
    for messages in (context.messages[1:], context.anthropic().messages):
        again = me.sessions.add().id
        me.save_turn(again, messages)
        assert me.context(again).messages == context.messages
        assert me.context(again).anthropic() == context.anthropic()


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"role": "user", "content": "x", "mood": 1}, "messages[0]"),
        ({"role": "user"}, "messages[0]"),
        ({"content": "x"}, "messages[0]"),
        ("hello", "messages[0]"),
        ({"role": "user", "content": [1]}, "messages[0].content"),
        ({"role": "user", "content": {"role": "user", "content": "x"}}, "messages[0].content"),
        ({"role": "user", "content": {"name": "a"}, "name": "b"}, "messages[0].content"),
        ({"role": "user", "content": 1, "name": "b"}, "messages[0].content"),
    ],
)
def test_an_unknown_message_shape_lists_the_known_ones(
    me: Scope, session: str, sent: Any, says: str
) -> None:
    invalid(says, me.messages.extend, session, [sent])
    assert me.messages.window(session) == []


def test_a_complete_message_is_rejected_as_content(me: Scope, session: str) -> None:
    for content in ({"role": "user", "content": "x"}, JsonText('{"role": "user", "content": "x"}')):
        invalid("content", me.messages.append, session, "user", content)
    parts: Any = [{"type": "text", "text": "hi"}, IMAGE]
    assert me.messages.append(session, "user", parts).content == {"parts": parts}
    assert me.messages.append(session, "user", {"nothing": "said"}).text == ""


def test_the_maximum_batch_size(open_memory: Callable[..., Memory], limited: Limited) -> None:
    limited(MAX_BATCH=3)
    me = scope_of(open_memory(), "ada", "scout")
    session = me.sessions.resume().id
    batch = [NewMessage("user", str(n)) for n in range(4)]
    with pytest.raises(TooLarge) as error:
        me.messages.extend(session, batch)
    assert (error.value.field, error.value.size, error.value.limit) == ("messages", 4, 3)
    assert me.messages.window(session) == []
    assert texts(me.messages.extend(session, batch[:3])) == ["0", "1", "2"]


# -- idempotency keys ----------------------------------------------------------------------------------------------


def test_a_key_with_other_content_is_rejected(me: Scope, session: str) -> None:
    """P2: nothing is written, and the first result stays."""
    sent: dict[str, Any] = {"role": "user", "content": "hello"}
    first = me.messages.append(session, key="k", **sent)
    others: list[dict[str, Any]] = [
        {"role": "assistant"},
        {"content": "Hello"},
        {"content": {"text": "hello", "parts": []}},
        {"author": "bob"},
        {"tokens_in": 1},
        {"tokens_out": 0},
        {"cost": 0.0},
        {"created_at": datetime(2026, 1, 1, tzinfo=UTC)},
    ]
    for other in others:
        with pytest.raises(KeyReused) as error:
            me.messages.append(session, key="k", **{**sent, **other})
        assert (error.value.key, error.value.status) == ("k", 422)
    raised(KeyReused, me.messages.extend, session, [sent, sent], key="k")
    assert me.messages.window(session) == [first]
    assert me.messages.append(session, key="k", **sent) == first


def test_64_concurrent_identical_appends_are_one_message(me: Scope, session: str) -> None:
    start = threading.Barrier(64)

    def append(_: int) -> Message:
        start.wait()
        return me.messages.append(session, "user", "once", key="k")

    with ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(append, range(64)))
    assert set(map(repr, answers)) == {repr(answers[0])}
    assert me.messages.window(session) == [answers[0]]


def test_concurrent_contents_with_one_key_store_one(me: Scope, session: str) -> None:
    """Exactly one is written, the others get KeyReused."""
    start = threading.Barrier(16)

    def append(n: int) -> str:
        start.wait()
        try:
            return me.messages.append(session, "user", f"text {n}", key="k").text
        except KeyReused:
            return ""

    with ThreadPoolExecutor(16) as pool:
        answers = [answer for answer in pool.map(append, range(16)) if answer]
    assert len(answers) == 1
    assert texts(me.messages.window(session)) == answers


@pytest.mark.parametrize("committed", [False, True])
def test_a_lost_commit_is_in_doubt_until_the_key_is_repeated(
    memory: Memory, me: Scope, session: str, committed: bool
) -> None:
    """P2: the result of the commit is lost, whether or not the server made it."""
    faulty_memory, faults = with_faults(memory)
    messages = scope_of(faulty_memory, "ada", "scout").messages
    faults.kill("commit", committed=committed)
    raised(InDoubt, messages.append, session, "user", "hello", key="k")
    assert len(me.messages.window(session)) == int(committed)
    assert messages.append(session, "user", "hello", key="k").seq == 1


# -- order -----------------------------------------------------------------------------------------------------------


def test_concurrent_batches_are_contiguous_and_gap_free(me: Scope, session: str) -> None:
    """P4: numbers 1..n, each batch together, and each writer's order kept."""

    def write(writer: int) -> None:
        for n in range(5):
            me.messages.extend(
                session, [NewMessage("user", f"{writer} {n} {part}") for part in range(3)]
            )

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(16)))
    read = me.messages.window(session)
    assert [m.seq for m in read] == list(range(1, 241))
    words = [m.text.split() for m in read]
    assert all(len({(w[0], w[1]) for w in words[n : n + 3]}) == 1 for n in range(0, 240, 3))
    for writer in range(16):
        assert [w[1:] for w in words if w[0] == str(writer)] == [
            [str(n), str(p)] for n in range(5) for p in range(3)
        ]


def test_readers_see_a_prefix(me: Scope, session: str) -> None:
    """P4: never message 3 without message 2."""
    done = threading.Event()
    gaps: list[list[int]] = []

    def read() -> int:
        seen = 0
        while not done.is_set() or not seen:
            seqs = [m.seq for m in me.messages.window(session)]
            seen = len(seqs)
            if seqs != list(range(1, seen + 1)):
                gaps.append(seqs)
        return seen

    with ThreadPoolExecutor(10) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        list(
            pool.map(
                lambda n: [me.messages.append(session, "user", str(n)) for _ in range(10)], range(8)
            )
        )
        done.set()
        assert all(reader.result() > 0 for reader in readers)
    assert gaps == []
    assert me.sessions.get(session).count == 80


def test_1000_appends_with_a_frozen_clock_keep_their_order(
    open_memory: Callable[..., Memory],
) -> None:
    me = scope_of(open_memory(clock=lambda: START), "ada", "scout")
    session = me.sessions.resume().id
    for n in range(1000):
        me.messages.append(session, "user", str(n))
    read = me.messages.window(session)
    assert texts(read) == [str(n) for n in range(1000)]
    assert {m.created_at for m in read} == {at(START)}
    assert texts(me.messages.window(session, last=300)) == [str(n) for n in range(700, 1000)]


def test_order_survives_a_clock_going_backwards(open_memory: Callable[..., Memory]) -> None:
    """Reads order by number, never by time."""
    now = [START]
    me = scope_of(open_memory(clock=lambda: now[0]), "ada", "scout")
    session = me.sessions.resume().id
    for n in range(50):
        now[0] -= MINUTE
        me.messages.append(session, "user", str(n))
    expected = [str(n) for n in range(50)]
    assert texts(me.messages.window(session)) == expected
    assert texts(me.messages.window(session, last=7)) == expected[-7:]
    assert texts(me.messages.list(session, limit=50).items) == expected
    assert texts(me.messages.window(session, tokens=10**6)) == expected


# -- windows ---------------------------------------------------------------------------------------------------------


CALLS: list[tuple[Any, bool]] = [
    ("plain text about tool_calls", False),
    ({"text": "x", "tool_calls": [{"id": 1}]}, True),
    ({"text": "x", "tool_calls": []}, False),
    ({"text": "x", "tool_calls": None}, False),
    ({"text": "x", "function_call": {"name": "f"}}, True),
    ({"parts": [{"type": "text", "text": "x"}, {"type": "tool_use"}]}, True),
    ({"parts": [{"type": "tool-call"}]}, True),
    ({"parts": [{"type": "function_call"}]}, True),
    ({"parts": [{"type": "tool_calls"}]}, True),
    ({"parts": [{"type": "text", "text": "tool_call"}]}, False),
    ({"parts": [{"type": ["tool_call"]}, {"type": None}, "tool_call", {}]}, False),
    ({"parts": "tool_call"}, False),
    (JsonText('{ "parts": [ {"type": "tool_call"} ] }'), True),
]


def test_detection_of_tool_calls(me: Scope) -> None:
    """An assistant message with tool calls is no final answer; user content is not inspected."""
    for content, calls in CALLS:
        session = me.sessions.add().id
        me.messages.append(session, "assistant", content)
        me.messages.append(session, "user", content)
        turns = [m.role for m in me.messages.window(session, turns_only=True)]
        assert turns == (["user"] if calls else ["assistant", "user"]), content


def test_a_long_session_is_paged_backwards(memory: Memory, me: Scope, session: str) -> None:
    """The newest before a number, until none is left, with any limit."""
    sent = me.messages.extend(
        session, [NewMessage("user" if n % 3 else "tool", str(n)) for n in range(1, 101)]
    )
    for cut in ({"last": 7}, {"last": 7, "turns_only": True}, {"tokens": 60}):
        read: list[Message] = []
        while page := me.messages.window(session, before=read[0].seq if read else None, **cut):  # type: ignore[arg-type]
            assert [m.seq for m in page] == sorted(m.seq for m in page)
            read = [*page, *read]
        assert read == [m for m in sent if "turns_only" not in cut or m.role == "user"]
    assert me.messages.window(session, before=4) == sent[:3]
    assert me.messages.window(session, minutes=60, before=4) == sent[:3]
    assert me.messages.window(session, last=5, before=10**6) == sent[-5:]
    assert (
        me.messages.window(session, last=5, before=1) == me.messages.window(session, before=0) == []
    )
    invalid("before", me.messages.window, session, last=5, before=-1)
    raised(NotFound, scope_of(memory, "bob").messages.window, session, last=5, before=9)


def test_message_tokens_count_what_a_model_reads(me: Scope, session: str) -> None:
    plain = me.messages.append(session, "user", "a" * 100)
    assert plain.tokens == tokens.estimate("a" * 100) + 4
    assert me.messages.append(session, "user", {"text": "a" * 100}).tokens == plain.tokens
    rich = me.messages.append(
        session, "user", {"text": "a" * 100, "parts": [{"type": "text", "text": "b" * 100}]}
    )
    assert rich.tokens == tokens.estimate(rich.raw) + 4


def test_a_window_larger_than_one_read(me: Scope, session: str) -> None:
    """Reading in parts leaves no gap."""
    me.messages.extend(
        session, [NewMessage("user" if n % 3 else "tool", str(n)) for n in range(900)]
    )
    for last in (255, 256, 257, 512, 513, 900, 5000):
        assert texts(me.messages.window(session, last=last)) == [str(n) for n in range(900)][-last:]
    spoken = [str(n) for n in range(900) if n % 3]
    for last in (255, 256, 257, 512, 599, 600, 601):
        assert texts(me.messages.window(session, last=last, turns_only=True)) == spoken[-last:]
    assert texts(me.messages.window(session, minutes=60)) == [str(n) for n in range(900)]
    assert texts(me.messages.window(session, tokens=10**6, turns_only=True)) == spoken


def test_a_context_reads_a_bounded_size_of_long_messages(me: Scope, session: str) -> None:
    """Each counts little, as it is shortened in a prompt, but is read whole."""

    def first_read() -> int:
        recent, is_complete = me.services.database.read(
            me.owner.tenant, lambda tx: me.messages.recent(tx, session, 1, 8000)
        )
        assert is_complete == (recent[0].seq == 1)
        assert recent[-1].seq == me.messages.window(session, last=1)[0].seq
        return recent[0].seq

    me.messages.append(session, "user", "short")
    me.messages.append(session, "user", "word " * 50_000)
    assert first_read() == 1  # one huge message does not push out the others
    me.messages.extend(session, [NewMessage("user", "word " * 20_000) for _ in range(30)])
    assert first_read() == 24
    me.messages.append(session, "user", "short")
    assert first_read() == 24  # and the start does not move with every message


@hypothesis_settings(max_examples=40)
@given(
    roles=st.lists(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=40),
    last=st.integers(0, 45),
    budget=st.integers(0, 300),
    turns_only=st.booleans(),
)
def test_windows_are_suffixes(
    me: Scope, roles: list[str], last: int, budget: int, turns_only: bool
) -> None:
    """The last N are the N newest, oldest first, on every engine."""
    session = me.sessions.add().id
    sent = (
        me.messages.extend(session, [NewMessage(r, "x" * n) for n, r in enumerate(roles)])
        if roles
        else []
    )
    wanted = [m for m in sent if not turns_only or m.role in ("user", "assistant")]
    assert me.messages.window(session, turns_only=turns_only) == wanted
    assert (
        me.messages.window(session, last=last, turns_only=turns_only)
        == wanted[max(0, len(wanted) - last) :]
    )
    fits = max(
        n
        for n in range(len(wanted) + 1)
        if sum(m.tokens for m in wanted[len(wanted) - n :]) <= budget
    )
    assert (
        me.messages.window(session, tokens=budget, turns_only=turns_only)
        == wanted[len(wanted) - fits :]
    )


def test_the_narrowest_limit_of_a_window_counts(open_memory: Callable[..., Memory]) -> None:
    """The last messages, a time box and a number of tokens can be combined."""
    now = [START]
    me = scope_of(open_memory(clock=lambda: now[0]), "ada", "scout")
    session = me.sessions.resume().id
    for n in range(10):
        now[0] = START + n * MINUTE
        me.messages.append(session, "user", str(n))
    assert texts(me.messages.window(session, last=2, minutes=3)) == ["8", "9"]
    assert texts(me.messages.window(session, last=9, minutes=3)) == ["6", "7", "8", "9"]
    assert texts(me.messages.window(session, last=9, tokens=12)) == ["8", "9"]
    assert texts(me.messages.window(session, last=1, tokens=12, minutes=3)) == ["9"]
    assert texts(me.messages.window(session, last=1, minutes=60, before=4)) == ["2"]
    assert me.messages.window(session, last=0, minutes=60) == []


def test_numbering_continues_after_a_purge(open_memory: Callable[..., Memory]) -> None:
    """Purged numbers are never reused, and windows start with what is left."""
    now = [START]
    memory = open_memory(clock=lambda: now[0])
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.resume().id
    me.messages.extend(session, [NewMessage("user", f"old {n}") for n in range(4)], key="old")
    now[0] += 3 * 86_400_000_000
    me.messages.append(session, "user", "new", key="new")
    assert memory.purge(days=2).messages == 4
    assert [(m.seq, m.text) for m in me.messages.window(session)] == [(5, "new")]
    assert [m.seq for m in me.messages.list(session)] == [5]
    assert me.messages.append(session, "user", "new", key="new").seq == 5
    now[0] += 3 * 86_400_000_000
    assert memory.purge(days=2).messages == 1
    assert me.messages.window(session) == me.messages.window(session, last=5) == []
    assert me.messages.append(session, "user", "newer", expected_last_seq=5).seq == 6
    assert problems(memory) == []


# -- the lock ---------------------------------------------------------------------------------------------------------


@pytest.mark.not_on_h2("counts rows by the statistics of PostgreSQL")
def test_append_reads_no_history(memory: Memory, me: Scope, engine: str) -> None:
    """Work under the session's lock does not grow with the session."""
    faulty_memory, faults = with_faults(memory)
    messages = scope_of(faulty_memory, "ada", "scout").messages
    counter = WorkCounter("messages", "message_keys", "sessions")
    faults.wrap(counter)
    cost: dict[int, list[int]] = {}
    for length in (20, 3000):
        session = me.sessions.add().id
        for start in range(0, length, 1000):
            me.messages.extend(
                session, [NewMessage("user", "x")] * min(1000, length - start), key=f"k{start}"
            )
        cost[length] = []
        for n in range(3):
            messages.append(session, "user", "x", key=f"new {n}")
            cost[length].append(counter.last)
            messages.extend(session, [NewMessage("user", "x")] * 2)
            cost[length].append(counter.last)
    assert 0 < max(cost[3000]) <= (10 if engine != "sqlite" else 1.2 * max(cost[20]))


@pytest.mark.not_on_h2("counts rows by the statistics of PostgreSQL")
def test_reading_the_end_of_a_session_has_constant_cost(
    memory: Memory, me: Scope, engine: str
) -> None:
    """A window and a session's record cost the same in short and long sessions, also without
    statistics.
    """
    faulty_memory, faults = with_faults(memory)
    watched = scope_of(faulty_memory, "ada", "scout")
    counter = WorkCounter("messages", "message_keys", "sessions")
    faults.wrap(counter)
    cost: dict[int, dict[str, int]] = {}
    for length in (100, 3000):
        session = me.sessions.add().id
        for _ in range(length // 100):
            me.messages.extend(session, [NewMessage("user", "x")] * 100)
        calls: dict[str, Callable[[], object]] = {
            "last": partial(watched.messages.window, session, last=20),
            "turns": partial(watched.messages.window, session, last=20, turns_only=True),
            "tokens": partial(watched.messages.window, session, tokens=60),
            "get": partial(watched.sessions.get, session),
            "list": partial(watched.sessions.list, limit=5),
        }
        cost[length] = {}
        for name, call in calls.items():
            call()
            cost[length][name] = counter.last
    for name, looked_at in cost[3000].items():
        assert 0 < looked_at <= max(60, 2 * cost[100][name]), (name, cost)
