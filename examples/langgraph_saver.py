"""A LangGraph graph whose threads persist between runs.

`pip install 'memorist[langgraph]'`, then run this twice.

The first run tells the graph a name; the second run, in a new process, continues the thread and knows it.
"""

from __future__ import annotations

import os

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from memorist import Memory
from memorist_frameworks.langgraph import MemoristSaver


def answer(state: MessagesState) -> dict[str, list[AIMessage]]:
    """Answer as a chat model that knows only its thread."""
    *before, _ = [message.text for message in state["messages"] if message.type == "human"]
    return {"messages": [AIMessage(f"remembered: {before[0] if before else 'nothing'}")]}


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    saver = MemoristSaver(memory.scope(user="ada"))
    graph = (
        StateGraph(MessagesState)
        .add_node(answer)
        .add_edge(START, "answer")
        .compile(checkpointer=saver)
    )
    thread = {"configurable": {"thread_id": "introductions"}}
    question = "Who am I?" if graph.get_state(thread).values else "I am called Ada."
    print(graph.invoke({"messages": [HumanMessage(question)]}, thread)["messages"][-1].text)
