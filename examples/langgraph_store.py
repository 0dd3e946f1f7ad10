"""A LangGraph graph with a long-term store.

`pip install 'memorist[langgraph]'`, then run this twice.

The first run stores a name; the second run, in a new process, finds it.
"""

from __future__ import annotations

import os

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from memorist import Memory
from memorist_frameworks.langgraph import MemoristStore

model = FakeListChatModel(responses=["Nice to see you."])  # any chat model


def answer(state: MessagesState, runtime: Runtime) -> dict[str, list]:
    """Answer from the store, and store facts about the user."""
    message = state["messages"][-1].text
    items = runtime.store.search(("memories",), query=message, limit=5)
    known = [item.value["text"] for item in items]
    print("remembered:", "; ".join(known) or "nothing")
    if message.startswith("I am"):
        runtime.store.put(("memories",), "name", {"text": message})
    reply = model.invoke(
        [SystemMessage("What you know about the user: " + "; ".join(known)), *state["messages"]]
    )
    return {"messages": [reply]}


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    store = MemoristStore(memory.scope(user="ada"))
    graph = (
        StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(store=store)
    )
    question = "Who am I?" if store.get(("memories",), "name") else "I am called Ada."
    graph.invoke({"messages": [HumanMessage(question)]})
