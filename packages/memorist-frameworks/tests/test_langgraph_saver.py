"""LangGraph's checkpointer: its conformance suite, comparison with its in-memory saver, and graphs
across a restart.
"""

from __future__ import annotations

import asyncio
import operator
import os
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from memorist import Memory, Scope
from memorist.base.errors import Invalid
from memorist_frameworks.checkpoints.checkpoints import checkpoints_of
from memorist_frameworks.langgraph import MemoristSaver
from testkit.databases import one_engine

EXAMPLES = 200 if os.environ.get("VENDORS") == "full" else 10
CAPABILITIES = {
    "put",
    "put_writes",
    "get_tuple",
    "list",
    "delete_thread",
    "delete_for_runs",
    "copy_thread",
    "prune",
}


def on(thread: Any, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, **more}}


def test_conformance(me: Scope) -> None:
    """LangGraph's own suite, all eight capabilities; its SQLite saver has five."""

    @checkpointer_test(name="memorist")
    async def saver() -> AsyncIterator[MemoristSaver]:
        yield MemoristSaver(me)

    report = asyncio.run(validate(saver))
    assert {
        name: result.failures for name, result in report.results.items() if not result.passed
    } == {}
    assert report.results.keys() == CAPABILITIES
    assert sum(result.tests_passed for result in report.results.values()) >= 81


class State(TypedDict, total=False):
    asked: str
    said: Annotated[list[Any], operator.add]
    answer: str


def graph(saver: BaseCheckpointSaver[Any]) -> Any:
    """Return a graph of three steps; the second is a subgraph that waits for a person."""

    def ask(state: State) -> Any:
        return {"said": [HumanMessage(state["asked"], id="1")]}

    def wait(state: State) -> Any:
        return {"answer": interrupt({"question": state["asked"]})}

    def reply(state: State) -> Any:
        return {"said": [AIMessage(f"You said {state['answer']}.", id="2")]}

    inner = StateGraph(State).add_node("wait", wait).add_edge(START, "wait").compile()
    outer = StateGraph(State).add_node("ask", ask).add_node("inner", inner).add_node("reply", reply)
    edges = ((START, "ask"), ("ask", "inner"), ("inner", "reply"), ("reply", END))
    for start, end in edges:
        outer.add_edge(start, end)
    return outer.compile(checkpointer=saver)


def comparable(history: Sequence[Any]) -> list[Any]:
    """Return the parts that are equal in every run."""
    return [
        (item.values, item.next, item.metadata["step"], item.metadata["source"]) for item in history
    ]


def test_a_graph_continues_after_a_restart(open_memory: Callable[..., Memory]) -> None:
    """Another process continues, goes back and branches, as with the in-memory saver."""
    theirs = graph(InMemorySaver())
    theirs.invoke({"asked": "Who are you?"}, on("t"))
    with open_memory() as memory:
        graph(MemoristSaver(memory.scope(tenant="acme", user="ada"))).invoke(
            {"asked": "Who are you?"}, on("t")
        )
    with open_memory() as memory:
        ours = graph(MemoristSaver(memory.scope(tenant="acme", user="ada")))
        for item in (ours, theirs):
            assert item.get_state(on("t")).interrupts[0].value == {"question": "Who are you?"}
            assert (
                item.invoke(Command(resume="Ada"), on("t"))["said"][-1].content == "You said Ada."
            )
            before = next(
                step for step in item.get_state_history(on("t")) if step.next == ("reply",)
            )
            forked = item.update_state(before.config, {"answer": "Bob"})
            assert item.invoke(None, forked)["said"][-1].content == "You said Bob."
        assert comparable(list(ours.get_state_history(on("t")))) == comparable(
            list(theirs.get_state_history(on("t")))
        )
        assert [
            step.values["answer"] for step in ours.get_state_history(on("t")) if not step.next
        ] == ["Bob", "Ada"]
        with pytest.raises(IndexError):
            graph(MemoristSaver(memory.scope(tenant="acme", user="bob"))).get_state(
                on("t")
            ).interrupts[0]


@one_engine
def test_a_graph_continues_asynchronously(me: Scope) -> None:
    """Every step switches to a thread and back."""
    ours = graph(MemoristSaver(me))

    async def run() -> Any:
        await ours.ainvoke({"asked": "Who?"}, on(7))
        done = await ours.ainvoke(Command(resume="Ada"), on(7))
        return done, [step async for step in ours.aget_state_history(on(7), limit=3)]

    done, history = asyncio.run(run())
    assert done["said"][-1].content == "You said Ada."
    assert [step.metadata["step"] for step in history] == [3, 2, 1]
    assert comparable([ours.get_state(on("7"))]) == comparable(history[:1])


class Log(TypedDict, total=False):
    log: Annotated[
        list[int],
        DeltaChannel(
            lambda state, writes: [*state, *(n for one in writes for n in one)],
            snapshot_frequency=4,
        ),
    ]
    n: int


@one_engine
def test_channels_stored_as_deltas(me: Scope) -> None:
    """DeltaChannel: the value is rebuilt from changes, also after pruning, in a copy, and
    asynchronously.
    """

    def count(state: Log) -> Any:
        return {"log": [state["n"]], "n": state["n"] + 1}

    built = StateGraph(Log).add_node("count", count).add_edge(START, "count").add_edge("count", END)
    saver, theirs = MemoristSaver(me), InMemorySaver()
    for item in (saver, theirs):
        chain: Any = built.compile(checkpointer=item)
        for n in range(7):
            chain.invoke({"n": n}, on("t"))
    ours, measure = (built.compile(checkpointer=item) for item in (saver, theirs))
    history = [step.values for step in ours.get_state_history(on("t"))]
    assert history == [step.values for step in measure.get_state_history(on("t"))]
    assert history[0]["log"] == list(range(7))
    saver.copy_thread("t", "u")
    saver.prune(["t"])
    assert len(list(saver.list(on("t")))) < len(list(saver.list(on("u"))))
    for thread in ("t", "u"):
        assert ours.invoke({"n": 7}, on(thread))["log"] == list(range(8))
    newest = saver.get_tuple(on("t"))
    assert newest is not None
    result = saver.get_delta_channel_history(config=newest.config, channels=["log", "none"])
    assert result == asyncio.run(
        saver.aget_delta_channel_history(config=on("t"), channels=["log", "none"])
    )
    assert result == BaseCheckpointSaver.get_delta_channel_history(
        saver, config=newest.config, channels=["log", "none"]
    )
    assert saver.get_delta_channel_history(config=on("nobody"), channels=["log"]) == {
        "log": {"writes": []}
    }


@dataclass
class Own:
    """A class that no serializer knows."""

    name: str


class Tasks(TypedDict, total=False):
    log: Annotated[list[Own], operator.add]


OWN = [(Own.__module__, "Own")]


@one_engine
def test_a_class_is_never_turned_into_plain_data(me: Scope) -> None:
    """Reading imports only allowed classes; otherwise nothing is written in their place."""
    built = (
        StateGraph(Tasks)
        .add_node("go", lambda _: {"log": [Own("Ada")]})
        .add_edge(START, "go")
        .add_edge("go", END)
    )
    saver = MemoristSaver(me)
    refused = re.escape(
        f"{Own.__module__}.Own: allow it with MemoristSaver(…).with_allowlist([('{Own.__module__}', 'Own')])"
    )
    with pytest.raises(Invalid, match=refused):
        built.compile(checkpointer=saver).invoke({"log": []}, on("t"))
    allowed: Any = built.compile(checkpointer=saver.with_allowlist(OWN))
    for count in (1, 2, 3):
        assert allowed.invoke({"log": []}, on("u"))["log"] == [Own("Ada")] * count
    with pytest.raises(Invalid, match=refused):
        built.compile(checkpointer=saver).invoke({"log": []}, on("u"))
    with pytest.raises(Invalid, match=refused):
        list(saver.list(on("u")))
    assert allowed.get_state(on("u")).values["log"] == [Own("Ada")] * 3


@one_engine
def test_pickle_is_rejected(me: Scope) -> None:
    """In either direction, whatever the serializer says."""
    own = {
        "channel_values": {"own": object()},
        "channel_versions": {"own": "1"},
        "versions_seen": {},
    }
    checkpoint: Any = {"v": 4, "id": "1", "ts": "", **own}
    pickling = MemoristSaver(me, serde=JsonPlusSerializer(pickle_fallback=True))
    with pytest.raises(Invalid, match="pickle"):
        pickling.put(on("t", checkpoint_ns=""), checkpoint, {}, {"own": "1"})
    checkpoints_of(me).add("t", "2", ("pickle", b"cos\nsystem\n(S'true'\ntR."))
    with pytest.raises(Invalid, match="pickle"):
        pickling.get_tuple(on("t"))


def test_dotted_names_filter_nested_metadata(me: Scope) -> None:
    """They used to find nothing; LangGraph's SQLite saver reads them as a path."""
    saver = MemoristSaver(me)
    metadata = [
        {"source": "input", "step": -1, "info": {"node": {"score": 1}}},
        {"source": "input", "step": 0, "info": {"node": {"score": 2}}},
        {"source": "input", "step": 1, "info.node.score": 2, "info": None},
    ]
    for number, fields in enumerate(metadata):
        checkpoint = {**empty_checkpoint(), "id": f"{number:032x}"}
        saver.put(on("first", checkpoint_ns=""), checkpoint, fields, {})  # type: ignore[arg-type]

    def steps(wanted: dict[str, Any]) -> list[int]:
        return [item.metadata["step"] for item in saver.list(on("first"), filter=wanted)]

    assert steps({"info.node.score": 2}) == [1, 0]
    assert steps({"info.node": {"score": 1}}) == [-1]
    assert steps({"info.node.score": 2, "step": 0}) == [0]
    assert steps({"info.other.score": 2}) == []
    assert steps({"source.node": "input"}) == []


@one_engine
def test_invalid_input_is_rejected(me: Scope) -> None:
    """As in the in-memory saver: writes need a step."""
    saver = MemoristSaver(me)
    with pytest.raises(KeyError, match="checkpoint_id"):
        saver.put_writes(on("t", checkpoint_ns=""), [("a", 1)], "task")
    with pytest.raises(Invalid, match="strategy"):
        saver.prune(["t"], strategy="some")


# -- the same random operations on LangGraph's in-memory saver ----------------------------------------------------------

_threads, _spaces = st.sampled_from(["t", "u"]), st.sampled_from(["", "inner:1"])
_values = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.tuples(st.text()),
)
_steps = st.integers(0, 9).map(lambda n: f"{n:04}")
_puts = st.tuples(
    st.just("put"),
    _threads,
    _spaces,
    _steps,
    st.none() | _steps,
    st.dictionaries(st.sampled_from("abc"), _values),
)
_writes = st.tuples(
    st.just("write"),
    _threads,
    _spaces,
    _steps,
    st.sampled_from(["task", "other"]),
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "__error__", "__interrupt__"]), _values), max_size=3
    ),
    st.sampled_from(["", "path"]),
)
_gets = st.tuples(st.just("get"), _threads, _spaces, st.none() | _steps)
_lists = st.tuples(
    st.just("list"),
    _threads,
    _spaces,
    st.sampled_from([None, {"source": "loop"}, {"mark": "0003", "source": "loop"}, {"nothing": 1}]),
    st.none() | _steps,
    st.none() | st.integers(0, 3),
)
_deletes = st.tuples(st.just("delete"), _threads)
OPERATIONS = st.lists(st.one_of(_puts, _puts, _writes, _gets, _lists, _deletes), max_size=14)


def applied(saver: BaseCheckpointSaver[Any], operations: Sequence[Any]) -> list[Any]:
    """Return the result of each operation."""
    answers: list[Any] = []
    for place, (name, thread, *rest) in enumerate(operations):
        if name == "put":
            ns, id, parent, values = rest
            versions: Any = {channel: f"{place:032}.{channel}" for channel in values}
            checkpoint: Any = {
                "v": 4,
                "id": id,
                "ts": "now",
                "channel_values": values,
                "channel_versions": versions,
            }
            checkpoint["versions_seen"] = {"node": versions}
            config = on(
                thread,
                checkpoint_ns=ns,
                **({} if parent is None else {"checkpoint_id": parent}),
                user="ada",
            )
            answers.append(
                saver.put(
                    config,
                    checkpoint,
                    {"source": "loop", "mark": id, "parents": {}},  # type: ignore[typeddict-unknown-key]
                    versions,
                )
            )
        elif name == "write":
            ns, id, task, writes, path = rest
            saver.put_writes(on(thread, checkpoint_ns=ns, checkpoint_id=id), writes, task, path)
        elif name == "get":
            ns, id = rest
            answers.append(
                saver.get_tuple(
                    on(thread, checkpoint_ns=ns, **({} if id is None else {"checkpoint_id": id}))
                )
            )
        elif name == "list":
            ns, where, before, limit = rest
            until = None if before is None else on(thread, checkpoint_id=before)
            answers.append(
                list(
                    saver.list(
                        on(thread, checkpoint_ns=ns), filter=where, before=until, limit=limit
                    )
                )
            )
        else:
            saver.delete_thread(thread)
    everything: list[CheckpointTuple] = list(saver.list(None))
    return [
        *answers,
        sorted(everything, key=lambda one: sorted(one.config["configurable"].items())),
    ]


@settings(max_examples=EXAMPLES)
@given(operations=OPERATIONS)
def test_equivalence_with_the_in_memory_saver(memory: Memory, operations: Sequence[Any]) -> None:
    """For random puts, writes, reads and deletions."""
    ours = MemoristSaver(memory.scope(tenant="acme", user="ada"))
    for thread in ("t", "u"):
        ours.delete_thread(thread)
    assert applied(ours, operations) == applied(InMemorySaver(), operations)
