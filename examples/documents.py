"""Search in documents: add a file once, and find the passage that answers a question.

`pip install /path/to/this/clone`, then run this twice.
"""

import os

from retain import Memory

HANDBOOK = """# Handbook

## Trams

Line 28 goes up the hill. Ada drives it on Mondays.

## Ferries

The ferry to Cacilhas leaves every twenty minutes.
"""

with Memory.open(os.environ.get("RETAIN_DATABASE", "sqlite:///retain.db")) as memory:
    me = memory.scope(user="ada")
    hits = me.knowledge.search("who drives the tram up the hill", limit=1)
    text = hits[0].text.replace("\n", " ") if hits else ""
    print(f"remembered: {text or 'nothing'}")
    document = me.knowledge.add("Handbook", HANDBOOK, path="handbook.md", media="markdown")
    print(f"{document.title} has {len(list(me.knowledge.passages(document.id)))} passages.")
