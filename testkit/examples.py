"""Records of each kind, created through the library, with values that are hard to keep.

Records of a kind that is not in the table come from the examples of its verbs, by testkit/story.py.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from memorist import JsonText, Memory, NewMessage, Scope
from memorist.kinds import KINDS
from memorist.kinds.graph import GraphEntity, Observations, Relation
from memorist.kinds.summaries import Summaries
from memorist_frameworks.checkpoints.checkpoint import Write
from memorist_frameworks.checkpoints.checkpoints import checkpoints_of
from testkit.story import VERBS, complete_story

KEEP = "canary"
"""A word in everything that the owner writes."""


def make_session(me: Scope, mark: str) -> str:
    return me.sessions.add(
        f"session of {mark}", label=f"{mark} é\x00😀", attributes={"b": mark, "a": [1.0, None]}
    ).id


def make_read_session(me: Scope, mark: str) -> None:
    """Make a session from which facts were learned."""
    id = make_session(me, mark)
    me.services.database.write(
        me.owner.tenant,
        lambda tx: tx.run(
            """insert into fact_positions (tenant, session_id, seq, tries)
               values (:tenant, :id, 0, 0)""",
            id=id,
        ),
    )


def make_agents(me: Scope, mark: str) -> None:
    me.agents.add(f"agent of {mark}", prompt=mark, tools=["search_memory"], icon="🍳")
    me.agents.edit(f"agent of {mark}", model=f"model {mark}")


def make_messages(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} talking")
    me.messages.append(
        id,
        "user",
        f"{mark} \\u0000 \x00",
        key="k",
        created_at=datetime(2001, 2, 3, 4, 5, 6, 789_012, UTC),
    )
    raw = JsonText('{ "text" : "' + mark + ' \\u00e9", "n": 1.0e2, "n": 2 }')
    me.messages.extend(
        id,
        [
            NewMessage("assistant", raw, cost=0.1 + 0.2),
            NewMessage("tool", f"[MemoryRef: some-key - {mark}]", tokens_in=2**53),
        ],
        key=mark,
    )
    me.messages.append(id, "user", f"{mark} said and taken back")
    me.messages.pop(id)


def make_facts(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} stating")
    me.messages.append(id, "user", f"{mark} lives in Lisbon.")
    fact = me.facts.add(
        f"{mark} é😀 lives in Lisbon.",
        subject=mark,
        predicate="lives in",
        object=f"Lisbon of {mark}",
        topic="home",
        valid_from=datetime(1965, 2, 3, tzinfo=UTC),
        evidence=[f"{id}#1"],
        confidence=0.1 + 0.2,
    )
    me.facts.correct(fact.id, f"{mark} lives in Porto.", since=datetime(2020, 1, 1, tzinfo=UTC))
    me.facts.retract(me.facts.add(f"{mark} likes trains.").id)
    me.facts.merge(mark, f"{mark}'s brother")


def make_summaries(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} folding")
    me.messages.extend(
        id, [NewMessage("user", f"{mark} decided on plan {n} \x00 é.") for n in range(14)]
    )
    services = replace(
        me.services, settings=replace(me.services.settings, summary_model="extractive")
    )
    Summaries(services, me.owner).fold(id, force=True)


def make_notes(me: Scope, mark: str) -> None:
    me.notes.overwrite(f"# {mark}\r\n\u2028 \x00 😀\r\n")
    me.notes.append(f"## {mark} é\nmore")


def make_state(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} keeping")
    me.state.set(f"{mark} %_\\", JsonText('{ "b":1.0 , "a":"' + mark + '" }'))
    me.state.set("soon gone", mark, ttl=10**6 + 0.000_001)
    me.state.set("again", mark, area=f"session:{id}")
    me.state.set("again", [mark], area=f"session:{id}", if_version=1)


def make_items(me: Scope, mark: str) -> None:
    place = (f"place of {mark}", '%_"\\')
    me.items.put(
        place, f"{mark} %_\\", JsonText('{ "b":1.0 , "text":"' + mark + '" }'), fields=["text"]
    )
    me.items.put(place, f"{mark} %_\\", {"text": f"{mark} é\x00😀"}, if_version=1)
    me.items.put(place[:1], "soon gone", {mark: [mark, 1]}, ttl=10**6 + 0.000_001)


def make_interactions(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} calling")
    me.interactions.add(
        f"route {mark}",
        "m",
        latency_ms=0.1,
        cost=1e-300,
        parameters={"b": mark, "a": 1},
        session=id,
    )
    me.interactions.add(
        "r", f"model {mark}", latency_ms=2**40, tokens_in=2**53, error=f"{mark} \x00 broke"
    )


def make_refs(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} storing")
    me.refs.add(
        f"{mark} é\x00😀\n" * 3, f"{mark} [in] brackets", session=id, metadata={"b": mark, "a": 1.0}
    )
    me.refs.capture(b"\xff" + mark.encode() * 500, source=f"cat {mark}", status="Success")
    me.refs.edit(me.refs.add(mark).key, summary=f"{mark} édité", is_active=False)


def make_documents(me: Scope, mark: str) -> None:
    me.documents.add(
        f"guide of {mark}", f"# {mark} é\r\n\r\n\x00 😀\r\n\r\n## Two\r\n" + f"About {mark}. " * 200
    )
    me.documents.add(f"page of {mark}", f"<!doctype html><p>{mark}", path=f"web/{mark}.html")
    me.documents.add(f"guide of {mark}", f"# {mark}\n\nagain")


def make_turns(me: Scope, mark: str) -> None:
    id = make_session(me, f"{mark} taking turns")
    report = me.context(id, mark)
    me.save_turn(
        id,
        [NewMessage("user", mark), NewMessage("assistant", mark)],
        usage={"model": mark},
        context=report,
    )


def make_entries(me: Scope, mark: str) -> None:
    board = f"board of {mark}"
    me.entries.share(board, [me.owner.agent or "scout", f"friend of {mark}"])
    me.entries.add(f"on the board \x00 😀 {mark}", kind="whiteboard", board=board)
    me.entries.add(f"{mark}\nfor good", kind="core")
    me.entries.edit(me.entries.add("first words").id, f"{mark} for a week")


def make_consolidations(me: Scope, mark: str) -> None:
    for place in ("harbour", "station", "harbour", "station"):
        me.entries.add(f"{mark} goes to the {place} in Porto.")
    stored, *rest = me.consolidations.propose(days=0)
    me.consolidations.accept(stored.id)
    for item in rest:
        me.consolidations.refuse(item.id)


def make_checkpoints(me: Scope, mark: str) -> None:
    thread, written = (
        f"thread of {mark}",
        Write("task", 0, "said", ("bytes", mark.encode()), "path"),
    )
    values = {("said", "1.5"): ("bytes", b"\xff" + mark.encode())}
    payload = {"run_id": f"run of {mark}", "n": 1.5}
    checkpoints_of(me).add(
        thread,
        "1",
        ("bytes", mark.encode()),
        metadata=payload,
        versions={"said": "1.5"},
        values=values,
    )
    checkpoints_of(me).add(thread, "2", ("null", b""), parent="1", versions={"said": "1.5"})
    checkpoints_of(me).write(thread, "1", [written], ns=f"inner:{mark}|é")
    checkpoints_of(me).write(thread, "2", [written])


def make_graph(me: Scope, mark: str) -> None:
    me.graph.add(
        [
            GraphEntity(f"entity of {mark}", f"{mark} é\x00😀", [mark, "", mark]),
            GraphEntity(f"entity of {mark}", "twin"),
        ]
    )
    me.graph.observe([Observations(f"entity of {mark}", [f"{mark} again", "gone"])])
    me.graph.relate([Relation(f"entity of {mark}", "\u2028", mark)])
    me.graph.forget([Observations(f"entity of {mark}", ["gone"])])


def make_from_story(kind: str, me: Scope, mark: str) -> None:
    """Make records of a kind as the examples of its verbs do."""
    added = [step for step in complete_story() if VERBS[step.verb].kind == kind]
    for step in added:
        if VERBS[step.verb].effect == "add":
            arguments = {
                name: f"{value} {mark}" if isinstance(value, str) else value
                for name, value in step.arguments.items()
            }
            getattr(getattr(me, kind), VERBS[step.verb].verb)(**arguments)


EXAMPLES: dict[str, Callable[[Scope, str], Any]] = {
    kind.name: partial(make_from_story, kind.name) for kind in KINDS
} | {
    "agents": make_agents,
    "sessions": make_read_session,
    "messages": make_messages,
    "facts": make_facts,
    "summaries": make_summaries,
    "notes": make_notes,
    "entries": make_entries,
    "consolidations": make_consolidations,
    "refs": make_refs,
    "state": make_state,
    "items": make_items,
    "documents": make_documents,
    "interactions": make_interactions,
    "turns": make_turns,
    "checkpoints": make_checkpoints,
    "graph": make_graph,
}


def exported(memory: Memory, **which: Any) -> bytes:
    out = io.BytesIO()
    memory.export(out, **which)
    return out.getvalue()


def populate(me: Scope, mark: str = KEEP) -> None:
    for make in EXAMPLES.values():
        make(me, mark)
