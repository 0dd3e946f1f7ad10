"""Every verb in one story: calls with arguments, in an order in which each finds something to do.

The tests of interfaces, isolation and permissions run it. A verb that it does not name is called
with the arguments of the example in its declaration; its ids are those of the record that the story
added last to the kind. Only what such an example cannot say stands here: values that later steps
use, several calls of one verb, and verbs that only adapters call.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memorist.base.canonical import JsonText
from memorist.base.verbs import Effect, Endpoint
from memorist.cli.verb_commands import add_verb, values_of
from memorist.kinds import KINDS
from memorist.kinds.graph import GraphEntity, Observations, Relation
from memorist.kinds.items import Drop, Put
from memorist.memory import Scope

Call = Callable[[Endpoint, dict[str, Any]], Any]
"""Calls a verb through one interface; the arguments and the result are JSON values."""
VERBS: dict[str, Endpoint] = {
    endpoint.name: endpoint
    for verbs in (*(kind.verbs for kind in KINDS), Scope.verbs)
    for endpoint in verbs.values()
}
ORDER: Sequence[Effect] = ("add", "read", "change", "remove", "forget")
ELLIPSIS_ID = re.compile(r"0199[0-9a-f-]*…")
"""How the examples write an id."""


@dataclass(frozen=True)
class Step:
    """One call: a verb, its arguments, and the name under which later steps know the new id."""

    verb: str
    arguments: Mapping[str, Any]
    name: str = ""


def step(verb: str, name: str = "", /, **arguments: Any) -> Step:
    return Step(verb, arguments, name)


MESSAGES = [
    {"role": "user", "content": "Where do we go? é😀"},
    {
        "role": "assistant",
        "content": {"text": "To Lisbon.", "parts": [{"type": "text", "text": "By train."}]},
        "cost": 0.5,
    },
    {"role": "user", "content": "When?", "created_at": "2026-01-31T12:00:00Z"},
]
LONG_OUTPUT = "a line of output that goes on for a while\n" * 200
STORY = (
    step("agents_add", name="scout", prompt="You scout ahead.", tools=["search_memory"], icon="🧭"),
    step("agents_get", name="scout"),
    step("agents_edit", name="scout", model="gpt-5-mini", if_version=1),
    step("agents_list", limit=10),
    step("sessions_add", id="a/trip", label="A trip", attributes={"pinned": True, "n": 1.5}),
    step("sessions_get", id="a/trip"),
    step("sessions_edit", id="a/trip", label="Lisbon é"),
    step("sessions_resume", stored_id="a/trip"),
    step("sessions_active"),
    step("sessions_add", id="trip"),
    step("sessions_activate", id="a/trip"),
    step("sessions_list", limit=1),
    step("sessions_list", search="lisbon"),
    step(
        "messages_append",
        session="a/trip",
        role="user",
        content="Hello",
        key="k",
        author="Ada",
        tokens_in=3,
    ),
    step(
        "messages_append",
        session="a/trip",
        role="user",
        content="Hello",
        key="k",
        author="Ada",
        tokens_in=3,
    ),
    step(
        "messages_append",
        session="a/trip",
        role="assistant",
        content={"text": "Hi", "parts": []},
        expected_last_seq=1,
    ),
    step("messages_extend", session="a/trip", messages=MESSAGES, key="k2"),
    step("messages_window", session="a/trip", last=2, turns_only=True),
    step("messages_window", session="a/trip", tokens=30),
    step("messages_window", session="a/trip", last=2, before=3),
    step("messages_list", session="a/trip", limit=2),
    step("messages_get", session="a/trip", seq=4),
    step(
        "messages_extend",
        session="a/trip",
        messages=[{"role": "user", "content": f"Plan {n} it is."} for n in range(14)],
    ),
    step("summaries_fold", session="a/trip", force=True),
    step("summaries_get", session="a/trip"),
    step("summaries_list", session="a/trip"),
    step("summaries_expand", session="a/trip", limit=2),
    step(
        "facts_add",
        "fact",
        statement="Clara lives in Lisbon.",
        subject="Clara",
        predicate="lives in",
        object="Lisbon",
        topic="people",
        valid_from="2020-01-01T00:00:00Z",
        evidence=["a/trip#2"],
        confidence=0.9,
    ),
    step("facts_list", about="Clara", topic="people", limit=1),
    step("facts_get", id="$fact"),
    step(
        "facts_correct",
        "corrected",
        id="$fact",
        statement="Clara lives in Porto.",
        since="2026-01-01T00:00:00Z",
        evidence=["a/trip#3"],
    ),
    step("facts_list", at="2025-01-01T00:00:00Z"),
    step("facts_list", include_replaced=True),
    step("facts_list", status="replaced"),
    step("facts_history", id="$fact"),
    step("facts_search", query="where does Clara live", limit=3),
    step("facts_profile"),
    step("facts_review"),
    step("facts_timeline", about="Clara", limit=2),
    step("facts_entities"),
    step("facts_merge", name="Clara", other="the user's sister"),
    step("facts_separate", name="Clara", other="the user's sister"),
    step("facts_undo", id="$corrected"),
    step("facts_retract", id="$fact"),
    step("facts_undo", id="$fact"),
    step("facts_retract", id="$fact"),
    step("facts_add", "forgotten", statement="Ada likes trains."),
    step("facts_forget", id="$forgotten"),
    step("facts_add", "confirmed", statement="Ada has a sister."),
    step("facts_confirm", id="$confirmed"),
    step("notes_read"),
    step("notes_overwrite", text="# Likes\n- tea\n\n# Other\nx"),
    step("notes_append", text="- more é", if_version=1),
    step("notes_prepend", text="Speak German."),
    step("notes_replace_section", header="Likes", text="- coffee"),
    step("notes_delete_section", header="# Other"),
    step("notes_history", limit=2),
    step("notes_diff", version=4, against=1),
    step("notes_changes", after=4),
    step("notes_clear"),
    step("notes_restore", version=2),
    step("entries_share", board="trips", agents=["scout", "planner"]),
    step("entries_boards"),
    step("entries_add", "entry", content="Ada prefers trains.", kind="core"),
    step("entries_add", content="On the board.", kind="whiteboard", board="trips"),
    step("entries_get", id="$entry"),
    step("entries_edit", id="$entry", content="Ada prefers night trains.", if_version=1),
    step("entries_list", kind="core", search="night"),
    step("entries_list", since="2020-01-01T00:00:00Z", expired=False, limit=1),
    step("entries_search", query="what does Ada prefer", limit=3),
    step("entries_counts"),
    step("entries_prompt"),
    step("entries_whiteboard"),
    step("entries_add_many", entries=[{"content": "Ada goes to the port in Porto."}]),
    *(
        step("entries_add", content=f"Ada goes to the {place} in Porto.")
        for place in ("inn", "port", "inn")
    ),
    step("entries_export"),
    step("entries_remove", id="$entry"),
    step(
        "entries_add_many",
        "waits",
        entries=[{"content": "Always obey.", "kind": "core", "review": "pending"}],
    ),
    step("entries_queue"),
    step("entries_list", review="pending"),
    step("entries_accept", id="$waits", if_version=1),
    step("entries_refuse", id="$waits"),
    step("entries_queue", review="refused", limit=5),
    step("entries_add", "gone", content="Soon gone."),
    step("entries_remove_many", ids=["$gone", "never there"]),
    step("consolidations_propose", "one", days=0.0),
    step("consolidations_list", status="proposed"),
    step("consolidations_get", id="$one"),
    step("consolidations_accept", id="$one"),
    step("consolidations_undo", id="$one"),
    *(
        step("entries_add", content=f"Bob sails to the {place} of Rome.")
        for place in ("port", "inn") * 2
    ),
    step("consolidations_propose", "two", days=0.0),
    step("consolidations_refuse", id="$two"),
    step(
        "refs_add",
        content="one\ntwo\nthree\n",
        description="counting",
        key="numbers",
        session="a/trip",
        metadata={"a": 1},
    ),
    step("refs_capture", output="small", source="make"),
    step("refs_capture", output=LONG_OUTPUT, source="make all", status="Success"),
    step("refs_get", key="numbers", lines=(2, 3)),
    step("refs_get", key="numbers", grep="t.*"),
    step("refs_content", key="numbers"),
    step("refs_info", key="numbers"),
    step("refs_edit", key="numbers", summary="counted", is_active=False),
    step("refs_list", session="a/trip", active=False),
    step("refs_search", query="counted", limit=2),
    step("refs_remove", key="numbers"),
    step("state_set", key="a/theme", value={"dark": True, "n": [1, None, "é"]}, ttl=3600.5),
    step("state_set", key="plain", value=None, area="tenant", if_version=0),
    step("state_get", key="a/theme"),
    step("state_list", prefix="a", limit=5),
    step("state_remove", key="a/theme", if_version=1),
    step(
        "items_put",
        place=["memories", "ada"],
        key="a/tea",
        value={"text": "likes green tea é", "n": 1},
        ttl=3600.5,
    ),
    step(
        "items_put",
        place=["memories"],
        key="k",
        value={"n": 2},
        fields=["text", "tags[*]"],
        if_version=0,
    ),
    step("items_get", place=["memories", "ada"], key="a/tea"),
    step("items_list", place=["memories"], where={"n": {"$gte": 2}}, exact=True, limit=5),
    step("items_search", query="green tea", place=["memories"], where={"n": 1}, limit=5),
    step("items_places", under=["memories"], depth=2, limit=5),
    step("items_remove", place=["memories", "ada"], key="a/tea", if_version=1),
    step(
        "documents_add", "document", title="Handbook", text="# Trams\n\nLine 28 goes up the hill. é"
    ),
    step("documents_get", id="$document"),
    step("documents_text", id="$document"),
    step("documents_passages", id="$document", seq=1, around=1),
    step("documents_list"),
    step("documents_search", query="which line goes up"),
    step("documents_counts"),
    step("documents_remove", id="$document"),
    step(
        "interactions_add",
        route="chat",
        model="gpt-5-mini",
        latency_ms=812.5,
        tokens_in=9,
        parameters={"t": 0.5},
    ),
    step("interactions_list", model="gpt-5-mini"),
    step("interactions_totals", by="model"),
    step("interactions_totals", by="day", split="model", route="chat"),
    step("search", query="where do we go", limit=3),
    step("context", session="a/trip", message="What now?", budget=2000),
    step(
        "save_turn",
        "turn",
        session="a/trip",
        messages=MESSAGES[:2],
        usage={"model": "m", "tokens_in": 3},
        key="t",
    ),
    step("turns_get", id="$turn"),
    step("turns_list", session="a/trip"),
    step("turns_list", session="a/trip", seq=18),
    step("items_read", asks=[(("memories",), "k"), (("memories",), "none")], refresh=False),
    step("items_write", changes=[Put(("memories",), "k", {"n": 3}), Drop(("memories",), "none")]),
    step("items_write", changes=[Put(("memories",), "l", {"n": 4}), Drop(("memories",), "k", 2)]),
    step("graph_add", entities=[GraphEntity("Ada", "person", ["likes maps", "likes tea"])]),
    step("graph_add", entities=[GraphEntity("Bob", "person")]),
    step("graph_observe", observations=[Observations("Ada", ["likes maps", "likes boats"])]),
    step("graph_relate", relations=[Relation("Ada", "Bob", "knows")]),
    step("graph_read"),
    step("graph_search", query="BOATS"),
    step("graph_open", names=["Ada"]),
    step("graph_forget", observations=[Observations("Ada", ["likes tea"])]),
    step("graph_unrelate", relations=[Relation("Ada", "Bob", "knows")]),
    step("graph_remove_many", names=["Bob"]),
)
ENDING = (
    step("messages_remove", session="a/trip", seq=3),
    step("messages_pop", session="a/trip"),
    step("messages_list", session="a/trip", limit=4),
    step("messages_clear", session="a/trip"),
    step("sessions_remove", id="trip"),
    step("agents_remove", name="scout"),
)
"""Calls that remove what the others need."""


def complete_story(*, ends: bool = True) -> tuple[Step, ...]:
    """Return the story, with or without its end, with a step for each verb that it does not name."""
    named = {item.verb for item in (*STORY, *ENDING)}
    derived = sorted(
        (endpoint for endpoint in VERBS.values() if endpoint.name not in named),
        key=lambda endpoint: (endpoint.kind, ORDER.index(endpoint.effect)),
    )
    return (*STORY, *map(step_of_example, derived), *(ENDING if ends else ()))


def step_of_example(endpoint: Endpoint) -> Step:
    """Return the call that the example of a verb shows."""
    command = endpoint.example.partition("memorist ")[2].partition(" > ")[0]
    assert command, f"{endpoint.name} has no example: add a step to the story"
    kind, *words = shlex.split(command)
    parser = argparse.ArgumentParser()
    add_verb(parser.add_subparsers(), kind, endpoint.word)
    values = values_of(parser.parse_args(words))
    return Step(endpoint.name, {name: _as_written(kind, value) for name, value in values.items()})


def _as_written(kind: str, value: Any) -> Any:
    """Return a value of a command as JSON, with `$kind` for an id."""
    if isinstance(value, JsonText):
        return json.loads(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list):
        return [_as_written(kind, item) for item in value]
    return f"${kind}" if isinstance(value, str) and ELLIPSIS_ID.fullmatch(value) else value


def run_story(
    call: Call,
    before: Callable[[Endpoint, dict[str, Any]], None] | None = None,
    *,
    ends: bool = True,
) -> Iterator[tuple[Step, Any]]:
    """Yield every step with its result. `before` also gets each call, before it is made."""
    ids: dict[str, str] = {}
    for item in complete_story(ends=ends):
        endpoint = VERBS[item.verb]
        arguments = {name: _with_ids(ids, value) for name, value in item.arguments.items()}
        if before is not None:
            before(endpoint, arguments)
        result = call(endpoint, arguments)
        added = result[0] if isinstance(result, list) and result else result
        if isinstance(added, dict) and "id" in added:
            ids[item.name or endpoint.kind] = added["id"]
        yield item, result


def _with_ids(ids: Mapping[str, str], value: Any) -> Any:
    if isinstance(value, list):
        return [_with_ids(ids, item) for item in value]
    return ids[value[1:]] if isinstance(value, str) and value.startswith("$") else value


_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
_KEY = re.compile(r"(make-all-)[0-9a-f]{8}")


def same(result: Any) -> Any:
    """Return a result without the parts that always differ."""
    if isinstance(result, dict):
        if "statement" in result:  # through MCP, an agent adds the fact
            result = {**result, "agent": "<agent>"}
        return {name: _plain(name, value) for name, value in result.items()}
    if isinstance(result, Sequence) and not isinstance(result, str | bytes):
        return [same(item) for item in result]
    if isinstance(result, str):
        return _KEY.sub(r"\1…", _TIME.sub("<time>", _ID.sub("<id>", result)))
    return result


def _plain(name: str, value: Any) -> Any:
    if name == "why":  # its last decimals depend on how long everything is, random names too
        return sorted(value)
    # A person's correction is confirmed, an agent's is not.
    if name in ("source", "score", "confirmed") or (name == "next" and isinstance(value, str)):
        return f"<{name}>"
    return same(value)
