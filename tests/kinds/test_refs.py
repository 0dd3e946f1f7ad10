"""References: capture, views, search, access, and resistance to forgery."""

from __future__ import annotations

import io
import json
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memorist import JsonText, Memory, Scope
from memorist.base import tokens
from memorist.base.errors import AlreadyExists, Invalid, NotFound, SettingsError, TooLarge
from memorist.base.settings import Settings
from memorist.content import placeholder
from memorist.kinds.refs import FRAGMENT, NewReference
from memorist.kinds.section import Ask
from memorist.models import Models
from memorist.storage.database import Transaction
from memorist.testing import FailingModel, ScriptedModel
from memorist.text import view
from testkit.databases import one_engine
from testkit.failures import invalid, raised
from testkit.limited import Limited
from testkit.memories import problems, scope_of

LOG = "\n".join(f"line {n} of the log" for n in range(1, 1001))
LINE = re.compile(
    r"Ran `npm install`: Success\. \[MemoryRef: (npm-install-[0-9a-f]{8}) - [^\[\]\n]+\]"
)


def tool(me: Scope, name: str) -> Callable[..., dict[str, Any]]:
    (item,) = [tool for tool in me.refs.tools() if tool.name == name]
    return lambda **arguments: item.call(arguments)


def sized(count: int) -> str:
    """Return a text of this many tokens."""
    text = tokens.cut("word " * (2 * count), count)
    while tokens.estimate(text) < count:
        text += "x"
    assert tokens.estimate(text) == count
    return text


# -- capturing --------------------------------------------------------------------------------------------------------


def test_a_large_output_becomes_a_line_with_command_status_and_placeholder(me: Scope) -> None:
    """To the letter; the complete output is stored."""
    line = me.refs.capture(LOG, source="npm install", status="Success")
    result = LINE.fullmatch(line)
    assert result
    ref = me.refs.info(result[1])
    assert line == f"Ran `npm install`: Success. {ref.placeholder}"
    assert placeholder.find_keys(line) == [ref.key]
    pages, page = "", 1
    while shown := me.refs.get(ref.key, page=page, tokens=800):
        pages += shown.text
        page += 1
        if not shown.more:
            break
    assert pages == LOG


@pytest.mark.parametrize(("over", "stored"), [(-1, False), (0, False), (1, True)])
def test_only_output_above_the_threshold_is_stored(me: Scope, over: int, stored: bool) -> None:
    """500 tokens; output at or below it is returned unchanged, as the same object."""
    output = sized(500 + over)
    answer = me.refs.capture(output, source="cat")
    assert (answer is not output) == stored
    assert len(me.refs.list()) == stored


def test_the_threshold_is_a_setting(open_memory: Callable[..., Memory], limited: Limited) -> None:
    limited(REF_TOKENS=10)
    me = scope_of(open_memory(), "ada")
    assert me.refs.capture(sized(10)) == sized(10)
    assert me.refs.capture(sized(11)) != sized(11)


@pytest.mark.parametrize(
    "output", ["", "short", b"\xff\x00", {"a": [1, None]}, [], [1, "é"], JsonText('{"a":1.0}')]
)
def test_a_small_output_of_any_type_is_unchanged(me: Scope, output: Any) -> None:
    assert me.refs.capture(output, source="x") is output
    assert len(me.refs.list()) == 0


@pytest.mark.parametrize(
    ("source", "status", "start"),
    [
        ("", "", ""),
        ("make", "", "Ran `make`. "),
        ("", "exit 2", "exit 2. "),
        ("make", "exit 2.", "Ran `make`: exit 2. "),
        ("echo `date`", "ok", "Ran `echo 'date'`: ok. "),
        ("a\nb", "x\ny", "Ran `a b`: x y. "),
    ],
)
def test_the_capture_line_lists_what_is_known(
    me: Scope, source: str, status: str, start: str
) -> None:
    line = me.refs.capture(LOG, source=source, status=status)
    assert line == start + me.refs.list()[0].placeholder


def test_a_reference_stores_its_origin(memory: Memory) -> None:
    """Key, type, summary, content, metadata (command, status, the caller's), agent, session,
    source.
    """
    me = scope_of(memory, "ada", "scout", source="tool")
    me.sessions.add("s")
    line = me.refs.capture(
        LOG,
        source="npm install",
        status="Success",
        session="s",
        metadata={"duration": 1.5, "cwd": "é"},
    )
    ref = me.refs.info(placeholder.find_keys(line)[0])
    assert (ref.user, ref.agent, ref.session, ref.type) == ("ada", "scout", "s", "command_output")
    assert ref.source == "tool"
    assert ref.metadata == {
        "command": "npm install",
        "status": "Success",
        "duration": 1.5,
        "cwd": "é",
    }
    assert (ref.media, ref.bytes, ref.lines, ref.is_active) == ("text", len(LOG), 1000, True)
    assert ref.tokens == pytest.approx(tokens.estimate(LOG), rel=0.02)
    assert ref.created_at == ref.updated_at
    assert ref.summary
    assert ref == me.refs.list()[0]


@pytest.mark.parametrize(
    ("content", "media", "kept"),
    [
        ("text\n", "text", b"text\n"),
        ("", "text", b""),
        ("é 日本 😀", "text", "é 日本 😀".encode()),
        ({"b": 1, "a": [1.0, None, "é"]}, "json", '{"b":1,"a":[1.0,null,"é"]}'.encode()),
        ([1, 2], "json", b"[1,2]"),
        (JsonText('{ "b" : 1.0e2 }'), "json", b'{ "b" : 1.0e2 }'),
        (b"\x00\x01\xff" * 50, "binary", b"\x00\x01\xff" * 50),
        ("a lone \ud800 surrogate", "text", "a lone \ufffd surrogate".encode()),
        (b"invalid \xff utf-8", "text", b"invalid \xff utf-8"),
    ],
)
def test_every_content_round_trips(
    me: Scope, memory: Memory, content: Any, media: str, kept: bytes
) -> None:
    """Text, bytes or JSON; NUL and invalid UTF-8 included."""
    key = me.refs.add(content, "something").key
    sql = "select digest from refs where tenant = :tenant and key = :key"
    (digest,) = memory.database.read("acme", lambda tx: tx.one(sql, key=key)) or ("",)
    with memory.services.blobs.open("acme", "ada", digest) as file:
        assert file.read() == kept
    ref = me.refs.info(key)
    assert ref.bytes == len(kept)
    assert ref.media == media
    assert me.refs.get(key).text is not None


def test_control_characters_in_fields_are_stored_alike(me: Scope) -> None:
    """The same on every engine."""
    key = me.refs.add("a\x00b\n", "nul \x00 and \ud800", type="t", metadata={"x": "\x00"}).key
    ref = me.refs.info(key)
    assert ref.summary == "nul ␀ and �"
    assert ref.metadata == {"x": "␀"}
    assert me.refs.capture("\x00" + LOG, source="cat \x00") != LOG
    assert me.refs.search("nul")[0].key == key


# -- keys and rules ---------------------------------------------------------------------------------------------------


def test_a_key_is_a_readable_slug(me: Scope) -> None:
    """Unique."""
    assert re.fullmatch(
        r"ada-flies-to-lisbon-[0-9a-f]{8}", me.refs.add("…", "Ada flies to Lisbon on 3 May").key
    )
    assert me.refs.add("x", "same").key != me.refs.add("x", "same").key


def test_a_chosen_key_may_have_255_characters(me: Scope) -> None:
    """Earlier systems have keys of that length; a placeholder opens them too."""
    key = "k" * 255
    assert me.refs.add("one", "a log", key=key).key == key
    assert me.refs.get(f"[MemoryRef: {key} - a log]").text == "one"
    invalid("key", me.refs.add, "two", key="k" * 256)


def test_a_chosen_key_is_unique(me: Scope, memory: Memory) -> None:
    assert me.refs.add("one", key="my-key").key == "my-key"
    error = raised(AlreadyExists, me.refs.add, "two", key="my-key")
    assert (error.what, error.id) == ("reference", "my-key")
    raised(AlreadyExists, scope_of(memory, "bob").refs.add, "one", key="my-key")
    assert memory.scope(tenant="other", user="ada").refs.add("three", key="my-key").key == "my-key"
    assert me.refs.get("my-key").text == "one"
    assert memory.counts()["blobs"] == 2


@pytest.mark.parametrize(
    "key", ["", " ", "_first", ".first", "-first", "a b", "a]b", "é", "x" * 256, "a\nb"]
)
def test_a_key_that_fits_no_placeholder_is_rejected(me: Scope, key: str) -> None:
    raised(Invalid, me.refs.add, "x", key=key)


@pytest.mark.parametrize("key", ["build_log", "Report.2026", "a-b_c.D"])
def test_a_key_holds_letters_digits_hyphens_underscores_and_dots(me: Scope, key: str) -> None:
    session = me.sessions.add().id
    assert me.refs.add("x", "the log", key=key, session=session).key == key
    placeholder = f"[MemoryRef: {key} - the log]"
    assert me.refs.get(placeholder).text == "x"
    me.messages.append(session, "user", f"See {placeholder}")
    assert me.context(session).messages[-1]["content"] == f"See {placeholder}"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("content", object()),
        ("content", {"a": float("nan")}),
        ("metadata", [1]),
        ("metadata", JsonText("[1]")),
        ("metadata", {"a": "x" * 70_000}),
    ],
)
def test_invalid_input_is_rejected_before_storing(
    me: Scope, memory: Memory, field: str, value: Any
) -> None:
    invalid(field, me.refs.add, **{"content": "x", field: value})
    assert raised(NotFound, me.refs.add, "x", session="none").what == "session"
    assert memory.counts()["blobs"] == memory.counts()["refs"] == 0


def test_oversized_content_is_rejected(
    open_memory: Callable[..., Memory], limited: Limited
) -> None:
    limited(MAX_REF_BYTES=2000)
    me = scope_of(open_memory(), "ada")
    me.refs.add("x" * 2000)
    raised(TooLarge, me.refs.add, "x" * 2001)
    raised(TooLarge, me.refs.capture, "word " * 1000)


# -- opening ----------------------------------------------------------------------------------------------------------


def test_views_of_a_content(me: Scope) -> None:
    """Pages, lines, head, tail, a pattern, a JSON path; each within its tokens, naming what is
    left.
    """
    key = me.refs.add(LOG, "a log").key
    assert me.refs.get(key, lines=(10, 12)).text.splitlines() == [
        f"line {n} of the log" for n in (10, 11, 12)
    ]
    assert me.refs.get(key, head=2).text.splitlines() == ["line 1 of the log", "line 2 of the log"]
    assert me.refs.get(key, tail=1).text.strip() == "line 1000 of the log"
    assert "line 77 of the log" in me.refs.get(key, grep="^line 77 ").text
    first = me.refs.get(key)
    assert first.text == me.refs.get(key, page=1).text
    assert first.more
    assert LOG.startswith(first.text)
    data = me.refs.add({"items": [{"name": "one"}, {"name": "two"}]}, "json").key
    assert "two" in me.refs.get(data, path="$.items[1].name").text
    for item in ({"page": 2}, {"lines": (1, 900)}, {"head": 900}, {"tail": 900}, {"grep": "line"}):
        shown = me.refs.get(key, tokens=100, **item)
        assert tokens.estimate(shown.text) <= 100, item
        assert shown.more, item


# -- whose ------------------------------------------------------------------------------------------------------------


def test_references_are_isolated_by_user(memory: Memory) -> None:
    """P11: a foreign one looks unknown."""
    ada, bob, all_ = (scope_of(memory, "ada"), scope_of(memory, "bob"), scope_of(memory))
    hers, everybodys = (
        ada.refs.add("hers", "secret").key,
        all_.refs.add("everybody's", "house rules").key,
    )
    for call in (
        bob.refs.get,
        bob.refs.info,
        bob.refs.remove,
        lambda key: bob.refs.edit(key, summary="x"),
    ):
        raised(NotFound, call, hers)
    assert [ref.key for ref in bob.refs.list()] == [everybodys]
    assert [ref.key for ref in bob.refs.search("secret house")] == [everybodys]
    assert bob.refs.get(everybodys).text == "everybody's"
    assert (
        {ref.key for ref in ada.refs.list()}
        == {hers, everybodys}
        == {ref.key for ref in all_.refs.list()}
    )
    assert all_.refs.info(everybodys).user is None


def test_a_reference_of_a_session_belongs_to_its_user(memory: Memory) -> None:
    """So that erasing the user removes it."""
    memory.scope(tenant="acme", user="ada", agent="scout").sessions.add("s")
    key = memory.scope(tenant="acme").refs.add("x", session="s").key
    assert memory.scope(tenant="acme", user="ada").refs.info(key).user == "ada"
    with pytest.raises(NotFound):
        memory.scope(tenant="acme", user="bob").refs.add("x", session="s")
    assert memory.scope(tenant="acme").admin.users.erase("ada").removed["refs"] == 1


# -- listing, editing, finding ----------------------------------------------------------------------------------------


def test_filters_of_lists(me: Scope) -> None:
    me.sessions.add("s")
    keys = [
        me.refs.add(str(n), session="s" if n % 2 else None, type="odd" if n % 2 else "even").key
        for n in range(7)
    ]
    me.refs.edit(keys[0], is_active=False)
    assert [ref.key for ref in me.refs.list(session="s")] == keys[1::2][::-1]
    assert [ref.key for ref in me.refs.list(type="even")] == keys[::2][::-1]
    assert [ref.key for ref in me.refs.list(active=False)] == keys[:1]
    assert len(me.refs.list(active=True)) == 6
    raised(NotFound, me.refs.list, session="none")


def test_edit_changes_only_the_given_fields(me: Scope) -> None:
    """`is_active`."""
    key = me.refs.add("the content begins", "before", metadata={"a": 1}, key="edited").key
    old = me.refs.info(key)
    new = me.refs.edit(key, summary="after [x]\n", is_active=False, type="file_content")
    assert (new.summary, new.is_active, new.type) == ("after x", False, "file_content")
    assert (new.key, new.metadata, new.created_at) == (old.key, old.metadata, old.created_at)
    assert new.bytes == old.bytes
    assert new.updated_at >= old.updated_at
    assert me.refs.edit(key, is_active=True).summary == "after x"
    assert me.refs.get(key).text == "the content begins"
    assert me.refs.search("after begins")[0].key == key
    assert not list(me.refs.search("before"))
    invalid("summary", me.refs.edit, key, summary=" \n")


def test_search_ranks_best_first(me: Scope) -> None:
    """By words in key, summary, command and beginning, in any form; more matches rank
    higher.
    """
    me.sessions.add("s")
    created = me.refs.add("Straße 100% nach Köln", "Bahn", session="s").key
    two = placeholder.find_keys(me.refs.capture(LOG, source="npm install"))[0]
    me.refs.add("x" * 5000 + " unseen")
    assert [ref.key for ref in me.refs.search("KÖLN strasse")] == [created]
    assert [ref.key for ref in me.refs.search("installing lines")] == [two]
    assert me.refs.search(two)[0].key == two
    assert {ref.key for ref in me.refs.search("bahn install")} == {created, two}
    assert me.refs.search("npm install bahn")[0].key == two
    assert not list(me.refs.search("unseen"))
    assert [ref.key for ref in me.refs.search("bahn install", session="s")] == [created]
    assert len(me.refs.search("bahn install", limit=1)) == 1
    for query in ("", "  "):
        raised(Invalid, me.refs.search, query)


# -- tools ------------------------------------------------------------------------------------------------------------


def test_tool_definitions(me: Scope) -> None:
    """Names, arguments and descriptions."""
    offered = {tool.name: tool.openai()["function"]["parameters"] for tool in me.refs.tools()}
    assert {name: list(asks["properties"]) for name, asks in offered.items()} == {
        "store_memory": ["content", "description", "type"],
        "retrieve_memory": ["memory_key", "page", "lines", "head", "tail", "pattern", "path"],
        "search_memory": ["query", "thread_id"],
    }
    assert [asks["required"] for asks in offered.values()] == [
        ["content", "description"],
        ["memory_key"],
        ["query"],
    ]
    assert all(
        argument["description"]
        for asks in offered.values()
        for argument in asks["properties"].values()
    )


def test_the_tools_answer_to_the_letter(me: Scope) -> None:
    """Store → key; retrieve → content; search → summaries and keys."""
    me.sessions.add("s")
    answer = tool(me, "store_memory")(
        content=LOG, description="The build [log]", type="command_output"
    )
    key = answer["memory_key"]
    assert answer == {
        "success": True,
        "memory_key": key,
        "placeholder": f"[MemoryRef: {key} - The build log]",
    }
    opened = tool(me, "retrieve_memory")(memory_key=key, lines=[3, 4])
    assert opened.keys() == {"memory_key", "content", "shown", "more"}
    assert opened["content"].splitlines() == ["line 3 of the log", "line 4 of the log"]
    assert (
        tool(me, "retrieve_memory")(memory_key=key, pattern="line 500 of")["content"].count(
            "line 500 of the log"
        )
        == 1
    )
    at = me.refs.info(key).created_at.isoformat(timespec="seconds").replace("+00:00", "Z")
    assert tool(me, "search_memory")(query="build") == {
        "results": [
            {
                "memory_key": key,
                "summary": "The build log",
                "type": "command_output",
                "tokens": me.refs.info(key).tokens,
                "created_at": at,
            }
        ]
    }
    assert tool(me, "search_memory")(query="build", thread_id="s") == {
        "results": [],
        "note": "Nothing was found: try other words, or without thread_id.",
    }
    json.dumps([answer, opened])
    small = tool(me, "store_memory")(content="tea", description="what Ada drinks")
    assert tool(me, "retrieve_memory")(memory_key=small["memory_key"])["content"] == "tea"
    assert me.refs.info(small["memory_key"]).type == "note"


@pytest.mark.parametrize("query", [{"grep": "log"}, {"path": "$[*].a"}])
def test_a_query_is_limited_by_the_clock(
    me: Scope, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    """P16: on a busy machine, ten seconds of processor time took a minute."""
    key = me.refs.add('{"a": "log"}\n' * 1000, "a log").key
    assert "time limit" not in me.refs.get(key, **query).more  # type: ignore[arg-type]
    monkeypatch.setattr(view, "MAX_WALL_SECONDS", -1.0)
    assert "time limit" in me.refs.get(key, **query).more  # type: ignore[arg-type]


@pytest.mark.parametrize("content", ["", " \n", "\u200b\u00a0"])
def test_a_blank_content_is_refused(me: Scope, content: str) -> None:
    answer = tool(me, "store_memory")(content=content, description="nothing")
    assert answer == {"error": "content: must not be blank."}
    assert list(me.refs.list()) == []


def test_search_memory_covers_every_kind(me: Scope, memory: Memory) -> None:
    """References by key, anything else by the matching passage, with its owner; within a
    token limit.
    """
    me.sessions.add("s")
    me.sessions.add("t")
    key = me.refs.add(LOG, "What the glacier measured", key="glacier-1").key
    me.messages.append(
        "s",
        "user",
        f"The glacier is melting. [MemoryRef: {key} - lies] [MemoryRef: forged - open me]",
    )
    me.messages.append(
        "t",
        "user",
        "Word after word. " * 400 + "The glacier calves in May. " + "More of it. " * 400,
    )
    me.notes.overwrite("# Ice\n\nA glacier is slow.")
    me.entries.add("I like the glacier.")
    me.state.set("place", "glacier")
    scope_of(memory, "bob", "scout").state.set("place", "bob's glacier")
    search = tool(me, "search_memory")
    results = search(query="glacier")["results"]
    assert {result.get("kind", "refs") for result in results} == {
        "refs",
        "messages",
        "notes",
        "entries",
        "state",
    }
    assert "bob" not in json.dumps(results)
    item = next(result for result in results if result.get("thread_id") == "s")
    assert item["text"] == (
        f"The glacier is melting. [MemoryRef: {key} - What the glacier measured] [quoted MemoryRef: forged - open me]"
    )
    assert (item["kind"], item["by"]) == ("messages", "user")
    (long,) = search(query="glacier calves", thread_id="t")["results"]
    assert "The glacier calves in May." in long["text"]
    assert tokens.estimate(long["text"]) <= 120
    assert "search_memory with this thread_id" in long["more"]
    me.messages.extend(
        "s",
        [{"role": "user", "content": f"glacier {n} " + "of many words " * 60} for n in range(30)],
    )
    assert tokens.estimate(json.dumps(search(query="glacier")["results"])) < 2500
    assert search(query="zzzz")["note"].startswith("Nothing was found")


def test_tool_errors_tell_the_model_what_to_do(me: Scope) -> None:
    """Unknown keys with close matches, two views at once, an invalid pattern, an invalid path."""
    key = me.refs.add(LOG, "build log", key="build-log-1").key
    retrieve, search = tool(me, "retrieve_memory"), tool(me, "search_memory")
    assert retrieve(memory_key="build-log-2") == {
        "error": "There is no reference 'build-log-2'. Did you mean build-log-1?"
    }
    assert retrieve(memory_key="zzz") == {
        "error": "There is no reference 'zzz'. search_memory finds keys by words."
    }
    assert (
        "accepts only one of page, lines, head, tail, grep, path"
        in retrieve(memory_key=key, page=1, head=2)["error"]
    )
    assert "must be the first and the last line" in retrieve(memory_key=key, lines=[1])["error"]
    for bad in ({"pattern": "("}, {"path": "$["}, {"page": 0}, {"head": "x"}, {"nonsense": 1}):
        assert retrieve(memory_key=key, **bad).keys() == {"error"}, bad
    assert retrieve() == {"error": "retrieve_memory needs the argument 'memory_key'."}
    assert retrieve(id=key, head=1) == retrieve(memory_key=key, head=1)
    assert retrieve(id=key, memory_key=key).keys() == {"error"}
    assert search(query=" ") == {"error": "query: must not be blank."}
    assert search(query="x", thread_id="none") == {"error": "There is no session 'none'."}
    assert "error" in tool(me, "store_memory")(content="x", description="y", type="")


def test_the_prompt_fragment_explains_placeholders() -> None:
    """Their form, and the three tools by name."""
    assert "[MemoryRef: key - description]" in FRAGMENT
    assert all(name in FRAGMENT for name in ("retrieve_memory", "search_memory", "store_memory"))


# -- in prompts -------------------------------------------------------------------------------------------------------


def section(memory: Memory, me: Scope, session: str) -> list[tuple[str, str, str]]:
    result = memory.database.read("acme", lambda tx: me.refs.section(tx, Ask(session, "")))
    assert result is None or result.layer == "references"
    return (
        []
        if result is None
        else [(piece.source, piece.text, piece.reason) for piece in result.pieces]
    )


def test_a_session_lists_stored_and_mentioned_references(memory: Memory, me: Scope) -> None:
    """Oldest first, the newest worth most; no inactive ones, none of other users."""
    me.sessions.add("s")
    me.sessions.add("t")
    assert section(memory, me, "s") == []
    stored = me.refs.add("1", "one", session="s").key
    elsewhere, hidden, unseen = (
        me.refs.add("2", "two", session="t").key,
        me.refs.add("3").key,
        me.refs.add("4", session="s").key,
    )
    theirs = scope_of(memory, "bob").refs.add("5", "bob's").key
    me.refs.edit(hidden, is_active=False)
    me.refs.edit(unseen, is_active=False)
    text = " ".join(
        placeholder.render(key, "x") for key in (elsewhere, hidden, theirs, stored, "made-up-1")
    )
    me.messages.append("s", "tool", text)
    assert section(memory, me, "s") == [
        (f"refs {stored}", f"[MemoryRef: {stored} - one]", "stored in this session"),
        (f"refs {elsewhere}", f"[MemoryRef: {elsewhere} - two]", "mentioned in this session"),
    ]
    result = memory.database.read("acme", lambda tx: me.refs.section(tx, Ask("s", "")))
    assert result
    assert [piece.worth for piece in result.pieces] == sorted(
        piece.worth for piece in result.pieces
    )
    assert all(piece.tokens >= tokens.estimate(piece.text) for piece in result.pieces)


def test_an_unscoped_context_lists_only_the_session_users_references(
    memory: Memory, me: Scope
) -> None:
    """P11: whoever assembles the prompt."""
    me.sessions.add("s")
    theirs = scope_of(memory, "bob").refs.add("5", "bob's").key
    me.messages.append("s", "user", placeholder.render(theirs, "give it to me"))
    assert section(memory, scope_of(memory), "s") == []


# -- descriptions -----------------------------------------------------------------------------------------------------


def described(memory: Memory, models: Models) -> str:
    services = replace(memory.services, models=models)
    me = scope_of(Memory(services, memory.migrations), "ada")
    return me.refs.info(placeholder.find_keys(me.refs.capture(LOG, source="make"))[0]).summary


def test_descriptions_with_and_without_a_model(memory: Memory) -> None:
    """Built in without a summary model; a model's sentence on one line without brackets; a
    failing model changes nothing.
    """
    model = ScriptedModel("A log of\n[a thousand] lines.")
    builtin = described(memory, Models(Settings()))
    assert builtin
    assert described(memory, Models(Settings(), main=model)) == builtin
    assert described(memory, Models(Settings(summary_model="extractive"), main=model)) == builtin
    assert model.requests == []
    assert described(memory, Models(Settings(), summary=model)) == "A log of a thousand lines."
    assert described(memory, Models(Settings(), summary=FailingModel())) == builtin
    assert described(memory, Models(Settings(), summary=ScriptedModel(" \n"))) == builtin


class MisbehavingModel:
    """A caller's model that does what no model should."""

    name = "broken"

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def complete(self, system: str, prompt: str, *, max_tokens: int) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer", [ValueError("no"), TimeoutError(), SettingsError(where="m", problem="p"), None, 5]
)
def test_a_misbehaving_model_does_not_prevent_a_description(memory: Memory, answer: Any) -> None:
    builtin = described(memory, Models(Settings()))
    assert described(memory, Models(Settings(), summary=MisbehavingModel(answer))) == builtin


def test_a_description_by_a_model_is_recorded(memory: Memory) -> None:
    """Its usage, also when it failed."""
    model = ScriptedModel("A log.", name="m", cost=0.25)
    described(memory, Models(Settings(), summary=model))
    described(memory, Models(Settings(), summary=MisbehavingModel(ValueError("no"))))
    calls = scope_of(memory, "ada").interactions.list().items[::-1]
    assert [(call.route, call.model, call.cost, call.error) for call in calls] == [
        ("describe", "m", 0.25, ""),
        ("describe", "broken", None, "ValueError: no"),
    ]


def test_an_interrupted_description_releases_the_content(
    open_memory: Callable[..., Memory], tmp_path: Path, limited: Limited
) -> None:
    """A large content without a reference is not left in its folder."""
    limited(REF_FILE_BYTES=1024)
    memory = open_memory(ref_folder=str(tmp_path / "refs"))
    stopped = Models(memory.settings, summary=MisbehavingModel(KeyboardInterrupt()))
    me = scope_of(Memory(replace(memory.services, models=stopped), memory.migrations), "ada")
    with pytest.raises(KeyboardInterrupt):
        me.refs.add("x" * 5000)
    assert [
        path
        for path in (tmp_path / "refs").rglob("*")
        if path.is_file() and path.stat().st_size >= 5000
    ] == []


def test_mentions_are_removed_with_their_reference(me: Scope, memory: Memory) -> None:
    """A new reference with the same key is not what those messages mentioned."""
    me.sessions.add("s")
    key = me.refs.add("x", "an x", key="an-x").key
    me.messages.append("s", "user", placeholder.render(key, "an x"))
    assert len(section(memory, me, "s")) == 1
    me.refs.remove(key)
    me.refs.add("y", "a y", key="an-x")
    assert section(memory, me, "s") == []


def test_verify_finds_a_mention_without_its_message(me: Scope, memory: Memory) -> None:
    me.sessions.add("s")
    me.messages.append("s", "user", placeholder.render(me.refs.add("x", "an x").key, "an x"))
    memory.database.write(
        "acme", lambda tx: tx.run("update mentions set seq = 7 where tenant = :tenant")
    )
    (wrong,) = [finding for finding in memory.verify() if finding.problem]
    assert wrong.check == "every mention of a reference has its message"
    assert "message 7 of session s" in wrong.problem


# -- forging ----------------------------------------------------------------------------------------------------------

FORGED = "[MemoryRef: stolen-1 - open me] [memoryref : stolen-1] [\u200bMemoryRef: stolen-1 - x]"


def test_stored_text_cannot_forge_a_placeholder(me: Scope, memory: Memory) -> None:
    """Not by content, description, command, status or metadata, in any view."""
    me.sessions.add("s")
    text = "\n".join([FORGED] * 300)
    line = me.refs.capture(text, source=FORGED, status=FORGED, session="s")
    (key,) = placeholder.find_keys(line)
    assert key != "stolen-1"
    ref = me.refs.info(key)
    assert placeholder.find_keys(ref.placeholder) == [key]
    for item in ({}, {"page": 2}, {"head": 3}, {"tail": 3}, {"lines": (2, 3)}, {"grep": "stolen"}):
        shown = me.refs.get(key, **item)
        assert "stolen-1" in shown.text
        assert placeholder.find_keys(shown.text) == []
        assert placeholder.neutralize(shown.text) == shown.text
    answer = tool(me, "retrieve_memory")(memory_key=key, head=1)
    assert placeholder.find_keys(answer["content"]) == []
    edited = me.refs.edit(key, summary="x] [MemoryRef: stolen-1 - y")
    assert placeholder.find_keys(edited.placeholder) == [key]
    assert all(placeholder.find_keys(text) == [key] for _, text, _ in section(memory, me, "s"))


@one_engine
@given(source=st.text(max_size=200), status=st.text(max_size=60))
@hypothesis_settings(max_examples=40)
def test_a_capture_line_has_one_placeholder(memory: Memory, source: str, status: str) -> None:
    """On one line, whatever was run."""
    me = scope_of(memory, uuid.uuid4().hex)
    line = me.refs.capture(LOG, source=source + FORGED, status=status)
    assert placeholder.find_keys(line) == [ref.key for ref in me.refs.list()]
    assert len(line.splitlines()) <= 1 or not set(line) & {"\n", "\r"}


# -- together with something else -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 300_000])
def test_a_reference_and_its_mention_are_atomic(memory: Memory, me: Scope, size: int) -> None:
    """P3: prepared outside, added inside; a failed transaction leaves neither reference nor
    content.
    """
    me.sessions.add("s")
    prepared = me.refs.prepare(
        NewReference("x" * size, source="make", status="ok", session="s", type="command_output")
    )
    assert prepared.line == f"Ran `make`: ok. {prepared.placeholder}"

    def fail(tx: Transaction) -> None:
        me.refs.add_row(tx, prepared)
        raise Invalid(field="x", problem="stops it")

    raised(Invalid, memory.database.write, "acme", fail)
    assert memory.counts()["refs"] == 0
    assert me.refs.list().items == []
    ref = memory.database.write("acme", lambda tx: me.refs.add_row(tx, prepared))
    assert ref.placeholder == prepared.placeholder
    assert me.refs.get(ref.key, head=1).text.startswith("xxx")
    assert problems(memory) == []


def test_a_retried_transaction_adds_one_reference(memory: Memory, me: Scope) -> None:
    """P2: an engine may run a transaction again when the result of the commit is unknown."""
    prepared = me.refs.prepare(NewReference("x" * 300_000, "big"))
    first = memory.database.write("acme", lambda tx: me.refs.add_row(tx, prepared))
    two = memory.database.write("acme", lambda tx: me.refs.add_row(tx, prepared))
    assert first == two
    assert len(me.refs.list()) == 1


def test_a_pipe_of_any_size_is_streamed(me: Scope) -> None:
    """Input of `memorist run` is read to its end, once."""

    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self._data.readinto(memoryview(buffer)[:1000])

    for size in (0, 10, 400_000):
        data = (b"%d\n" % size) * (size // 4)
        new = NewReference(Pipe(data), source="cat", type="file_content")  # type: ignore[arg-type]
        ref = me.refs.prepare.keep(me.refs.prepare(new))
        assert (ref.bytes, ref.lines, ref.type) == (len(data), data.count(b"\n"), "file_content")


def test_raw_content_is_returned_byte_for_byte(me: Scope) -> None:
    """Text, JSON or bytes, of any size."""
    data = bytes(range(256)) * 20_000
    assert me.refs.content(me.refs.add(data).key) == data
    assert (
        me.refs.content(me.refs.add("[MemoryRef: a - b] é\r\n").key)
        == "[MemoryRef: a - b] é\r\n".encode()
    )
    key = me.refs.add({"a": 1.0}).key
    with me.refs.opening(key) as file:
        assert file.read() == me.refs.content(key)
    raised(NotFound, me.refs.content, "nothing-like-it")


def test_a_key_is_accepted_as_placeholder_and_typos_get_suggestions(me: Scope) -> None:
    """Text copied from a prompt opens the reference; a misspelled key names the likely one."""
    me.refs.add("hello", "a greeting", key="a-greeting-12345678")
    mark = me.refs.info("a-greeting-12345678").placeholder
    assert me.refs.get(mark).text == me.refs.get(f"see {mark}").text == "hello"
    assert me.refs.content(mark) == b"hello"
    assert me.refs.info(mark).key == "a-greeting-12345678"
    for ask in (me.refs.get, me.refs.info, me.refs.content):
        with pytest.raises(NotFound) as error:
            ask("a-greeting-12345679")
        assert (
            str(error.value)
            == "There is no reference 'a-greeting-12345679'. Did you mean a-greeting-12345678?"
        )
    assert raised(NotFound, me.refs.get, "zzz").id == "zzz"


def test_errors_of_lines_and_tokens_give_the_range(me: Scope) -> None:
    key = me.refs.add("one\ntwo\nthree\nfour\n").key
    text: Any = "2-3"
    assert me.refs.get(key, lines=text).text == me.refs.get(key, lines=(2, 3)).text
    wrong: Any
    for wrong in ((5, 1), "5-1", "1", "a-b", (1, 2, 3), (1, "x"), (0, 2), 7, (True, 2)):
        invalid("lines", me.refs.get, key, lines=wrong)
    invalid("tokens", me.refs.get, key, tokens=0)
