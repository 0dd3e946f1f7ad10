"""A conversation with any model: memorist assembles the messages to send, and saves the turn.

`pip install memorist`, then run this twice. A function stands in for the model.
"""

import os

from memorist import Memory


def model(messages: list[dict[str, str]]) -> str:
    """Answer as a chat model that knows only its messages."""
    if "?" not in messages[-1]["content"]:
        return "Noted."
    return "She lives in Lisbon." if "Lisbon" in str(messages) else "I do not know."


with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    me = memory.scope(user="ada", agent="scout")
    earlier = me.search("where does my sister live", limit=1)
    print(f"remembered: {earlier[0].text if earlier else 'nothing'}")
    session = me.sessions.add()  # a new conversation each time
    for question in ("I am Ada. My sister moved to Lisbon.", "Where does my sister live?"):
        context = me.context(session.id, question, budget=4000)
        answer = model(context.messages)
        turn = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        me.save_turn(session.id, turn, context=context)
        print(f"{question} {answer} {context.report.by_layer()}")
