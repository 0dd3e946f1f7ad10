"""A LangChain agent that remembers across conversations.

`pip install 'memorist[langchain]'`, then run this twice.

The first run tells the agent a name; the second run, in a new process and a new thread, recalls it.
"""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from memorist import Memory
from memorist_frameworks.langchain import MemoristMiddleware


class Model(GenericFakeChatModel):
    """A stand-in for a chat model: it knows only its prompt."""

    def bind_tools(self, tools: Any, **options: Any) -> Model:
        """Accept the tools of the middleware."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        lines = [
            line
            for message in messages[:-1]
            for line in message.text.splitlines()
            if "called Ada" in line
        ]
        return ChatResult(
            generations=[
                ChatGeneration(message=AIMessage(f"remembered: {lines[0] if lines else 'nothing'}"))
            ]
        )


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    me = memory.scope(user="ada", agent="scout")
    agent = create_agent(Model(messages=iter([])), middleware=[MemoristMiddleware(me)])
    question = "What am I called?" if me.sessions.list().items else "I am called Ada."
    thread = {"configurable": {"thread_id": str(uuid4())}}  # a new conversation each time
    print(agent.invoke({"messages": [HumanMessage(question)]}, thread)["messages"][-1].text)
