"""Personal data is masked before it is stored, or before a model reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base import masking, personal_data
from memorist.base.settings import Settings
from memorist.kinds.graph import GraphEntity
from memorist.models import Models
from memorist.testing import ScriptedModel
from testkit.databases import one_engine
from testkit.failures import invalid
from testkit.memories import scope_of
from tests.base.secrets import kept, write_everywhere

MASKED = {
    "email": [
        "ada@example.com",
        "ada.lovelace+news@mail.example.co.uk",
        "josé@exämple.de",
        "O_1@sub-domain.example.org",
    ],
    "phone": [
        "+49 30 1234567",
        "+1 (555) 123-4567",
        "+44 20 7946 0958",
        "+4915112345678",
        "0049 151 12345678",
        "030 1234567",
        "0171/1234567",
        "(030) 123 456 78",
        "(555) 123-4567",
        "555-123-4567",
        "01 23 45 67 89",
        "01711234567",
    ],
    "card": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "5500-0000-0000-0004",
        "378282246310005",
        "6011 1111 1111 1117",
        "2223003122003222",
        "30569309025904",
    ],
    "iban": [
        "DE89370400440532013000",
        "DE89 3704 0044 0532 0130 00",
        "GB82 WEST 1234 5698 7654 32",
        "FR14 2004 1010 0505 0001 3M02 606",
        "NO9386011117947",
        "gb82west12345698765432",
    ],
}
KEPT = [
    "4111111111111112",  # a wrong check digit
    "DE88370400440532013000",
    "DE8937040044053201300",  # too short
    "2026-01-31 and 31.01.2026 and 01-02-2026 and 01/02/2026",
    "2026-01-31T12:00:00+00:00",
    "10.0.0.1, 192.168.178.255:8080",
    "version 1.22.333, build 20260131",
    "order 123456789, 42 items at 1,234,567.89",
    "1767225600000000",  # microseconds
    "0198f000-0000-7000-8000-000000000001",
    "a @ b, @ada, ada@localhost, look@",
    "3.14159265358979",
    "page 555-556",
    "0x1f4a, 0.123456789",
    "[MemoryRef: cmd_log_123 - Log of npm install]",
]


@pytest.mark.parametrize("kind", MASKED)
def test_personal_data_is_found(kind: str) -> None:
    for text in MASKED[kind]:
        for around in ("{}", "Write to {}.", "({}), please", "a\n{}\nb", '"{}"', "is {}; and"):
            masked = personal_data.mask(around.format(text))
            assert masked == around.format(f"[personal: {kind}]"), (text, masked)
            assert personal_data.mask(masked) == masked


def test_other_numbers_and_texts_stay() -> None:
    for text in KEPT:
        assert personal_data.mask(text) == text


def test_words_and_numbers_after_a_number_are_no_part_of_it() -> None:
    text = "DE89 3704 0044 0532 0130 00 BY FRIDAY"
    assert personal_data.mask(text) == "[personal: iban] BY FRIDAY"
    assert personal_data.mask("4111 1111 1111 1111 123") == "[personal: card] 123"
    for kind, values in MASKED.items():
        twice = f"{values[0]} {values[0]}"
        assert personal_data.mask(twice) == f"[personal: {kind}] [personal: {kind}]"
    assert personal_data.mask("030 1234567 030 7654321") == "[personal: phone] [personal: phone]"


def test_names_that_are_masked_alike_keep_their_values() -> None:
    value = {"ada@example.com": 1, "[personal: email]": 2, "bob@example.com": 3}
    masked = masking.mask_personal_json(value, masking.Policy(personal_data=True))
    assert masked == {"[personal: email]": 1, "[personal: email] 2": 2, "[personal: email] 3": 3}
    secrets = {f"postgresql://u:{password}@host/db": password for password in ("hunter2", "12345")}
    masked = masking.guard_json(secrets, "value", masking.Policy("mask"))
    assert sorted(masked.values()) == ["12345", "hunter2"]


@pytest.mark.parametrize(
    "text", ["_{}_", "{}-", "{} - home", "Ada,{},Berlin", "tel.{}", "**{}**", "({})", "<{}>", "{}."]
)
def test_punctuation_around_personal_data(text: str) -> None:
    """Markdown, the columns of a file and the ends of sentences hide nothing."""
    for value in ("ada@example.com", "+49 30 1234567", "555-123-4567", "4111 1111 1111 1111"):
        if text == "tel.{}" and "@" in value:
            continue  # the beginning of an address
        masked = personal_data.mask(text.format(value))
        before, _, after = text.partition("{}")
        assert masked.endswith(f"]{after}")
        assert value[-4:] not in masked
        assert masked.startswith(f"{before}[personal: ") or "@" in value


@pytest.mark.parametrize("gap", ["\u00a0", "\u202f", "\u2011"])
def test_spaces_and_hyphens_that_do_not_break(gap: str) -> None:
    for number in (
        "+49 30 1234567",
        "555 123 4567",
        "4111 1111 1111 1111",
        "DE89 3704 0044 0532 0130 00",
    ):
        assert re.fullmatch(r"\[personal: \w+\]", personal_data.mask(number.replace(" ", gap)))


def test_a_function_must_return_text() -> None:
    policy = masking.Policy(personal_data=True, function=lambda text: None)  # type: ignore[arg-type, return-value]
    invalid("mask", masking.guard, "Hello", "content", policy)


def test_check_digits() -> None:
    assert personal_data.is_card("4111111111111111")
    assert not personal_data.is_card("4111111111111117")
    assert personal_data.is_iban("DE89370400440532013000")
    assert not personal_data.is_iban("DE90370400440532013000")


def test_masking_takes_linear_time() -> None:
    """No input makes a pattern try again from every character."""
    for part in ("a@", "a.", "1", "1 ", "0 1-", "+1(", "DE89 ", "4-", "@a.", "aa11"):
        text = part * (300_000 // len(part))
        personal_data.mask(text)


CANARIES = [values[0] for values in MASKED.values()] + ["4111 1111 1111 1111"]


@pytest.mark.parametrize("canary", CANARIES)
def test_masked_personal_data_is_stored_nowhere(
    open_memory: Callable[..., Memory], canary: str
) -> None:
    memory = open_memory(personal_data="in")
    write_everywhere(memory, canary)
    me = scope_of(memory, "ada", "scout")
    me.items.put(["facts"], "contact", {"is": canary})
    me.graph.add([GraphEntity("Ada", "person", [f"writes from {canary}"])])
    me.state.set("number", 4111111111111111)
    stored = kept(memory)
    assert canary.encode() not in stored
    assert b"4111111111111111" not in stored
    assert stored.count(b"[personal: ") > 20
    assert all(finding.ok for finding in memory.verify())


def test_stored_personal_data_reaches_no_model(open_memory: Callable[..., Memory]) -> None:
    """Stored as it is; masked in the context, in tool results and in what background jobs send."""
    model = ScriptedModel("A summary.")
    memory = open_memory(
        personal_data="out", summary_enabled=True, summary_threshold=2, summary_keep_last=1
    )
    models = Models(memory.settings, summary=model)
    memory.services = replace(memory.services, models=models)
    canary = "ada@example.com"
    me = scope_of(memory, "ada", "scout")
    session = me.sessions.add()
    me.notes.overwrite(f"Her address is {canary}.")
    me.entries.add(f"Write to {canary}.", kind="core")
    me.state.set("contact", {"email": canary})
    key = me.refs.add(f"long text with {canary}", f"mail of {canary}", session=session.id).key
    me.documents.add("Contacts", f"Ada has the address {canary}.")
    me.messages.append(session.id, "user", f"I am {canary}")
    call = {"id": "1", "function": {"name": "send", "arguments": json.dumps({"to": canary})}}
    me.messages.append(session.id, "assistant", {"text": "", "tool_calls": [call]})
    me.messages.append(
        session.id, "tool", {"text": f"sent to {canary}", "tool_call_id": "1", "name": "send"}
    )
    assert canary.encode() in kept(memory)  # stored as it is
    assert me.messages.window(session.id)[0].text == f"I am {canary}"

    context = me.context(session.id, f"Which address is {canary}?")
    assert "[personal: email]" in json.dumps(context.messages)
    assert canary not in json.dumps(context.messages)
    assert canary not in json.dumps(context.texts)
    answers = {
        "retrieve_memory": {"memory_key": key},
        "search_memory": {"query": "address"},
        "manage_long_term_memory": {"operation": "read"},
        "get_state": {"key": "contact"},
    }
    for tool in me.tools(list(answers)):
        answer = json.dumps(tool.call(answers[tool.name]))
        assert canary not in answer, tool.name
        assert "[personal: email]" in answer, tool.name
    me.summaries.fold(session.id, force=True)
    sent = repr(model.requests)
    assert "[personal: email]" in sent
    assert canary not in sent


def test_a_function_masks_after_the_patterns(tmp_path: Path) -> None:
    def mask(text: str) -> str:
        return re.sub(r"\bEMP-\d+", "[employee]", text)

    url = f"sqlite:///{tmp_path}/a.db"
    settings = Settings(database=url, personal_data="both")
    with Memory.open(settings=settings, mask=mask) as memory:
        me = memory.scope(user="ada")
        me.state.set("k", {"text": ["EMP-77 has ada@example.com"]})
        assert me.state.get("k").value == {"text": ["[employee] has [personal: email]"]}
    invalid("mask", Memory.open, url, mask=mask)


@one_engine
def test_off_is_the_default_and_ids_are_never_masked(open_memory: Callable[..., Memory]) -> None:
    assert Settings().masking is masking.OFF
    assert Settings().output_masking is masking.OFF
    memory = open_memory(personal_data="both")
    me = memory.scope(user="ada@example.com", agent="+49 30 1234567")
    session = me.sessions.add("ada@example.com")
    assert me.sessions.get("ada@example.com").user == "ada@example.com"
    me.state.set("ada@example.com", 1)
    assert me.state.get("ada@example.com").value == 1
    assert session.agent == "+49 30 1234567"
