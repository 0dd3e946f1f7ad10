"""Search in documents: add a file once, and find the passage that answers a question.

`pip install memorist`, then run this twice.
"""

import os

from memorist import Memory

HANDBOOK = """# Handbook

## Trams

Line 28 goes up the hill. Ada drives it on Mondays.

## Ferries

The ferry to Cacilhas leaves every twenty minutes.
"""

with Memory.open(os.environ.get("MEMORIST_DATABASE", "sqlite:///memorist.db")) as memory:
    me = memory.scope(user="ada")
    hits = me.documents.search("who drives the tram up the hill", limit=1)
    text = hits[0].text.replace("\n", " ") if hits else ""
    print(f"remembered: {text or 'nothing'}")
    document = me.documents.add("Handbook", HANDBOOK, path="handbook.md", media="markdown")
    print(f"{document.title} has {len(list(me.documents.passages(document.id)))} passages.")
