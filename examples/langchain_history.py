"""A LangChain chain whose chat history persists between runs.

`pip install 'memorist[langchain]'`, then run this twice.
"""

import os

from langchain_core.messages import AIMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from memorist import Memory
from memorist_frameworks.langchain import MemoristChatMessageHistory


def model(prompt: PromptValue) -> AIMessage:
    """Answer as a chat model that knows only its prompt."""
    *before, _ = prompt.to_messages()
    texts = [str(message.content) for message in before if message.type == "human"]
    return AIMessage(f"remembered: {texts[-1] if texts else 'nothing'}")


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    me = memory.scope(user="ada", agent="scout")
    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("history"), ("human", "{input}")]
    )
    chain = RunnableWithMessageHistory(
        prompt | RunnableLambda(model),
        lambda session_id: MemoristChatMessageHistory(me, session_id),
        input_messages_key="input",
        history_messages_key="history",
    )
    answer = chain.invoke(
        {"input": "I am called Ada."}, {"configurable": {"session_id": "langchain-history"}}
    )
    print(answer.content)
