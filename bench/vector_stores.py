"""Search compared with vector stores: the same messages, the same encoder, recall and latency.

    uv run --with chromadb python -m bench.vector_stores FOLDER/locomo_dev.json.gz

The stores are chromadb and LangGraph's `InMemoryStore` with an index. LangGraph's `SqliteStore` is left
out: it needs a Python that can load SQLite extensions. As in the stores' documentation, each message
is stored with its text, author and user, and a question searches the messages of its user. All stores
use retain's encoder; computing the question's vector is part of a search. Latency is CPU time, because
other programs affect it least. chromadb is not a dependency of the project, because it needs thirty
packages.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

from bench import recall
from bench.recall import Talk
from retain import Memory, Settings
from retain.search.embedders import choose, embed_texts

RESULT_LIMIT = 10
ADVERSARIAL_TYPE = "5"
"""The category of questions without an answer. Left out, as in the papers that use LoCoMo."""
BATCH_SIZE = 500

Search = Callable[[Talk, recall.Ask], Sequence[str | int]]


def messages(talk: Talk) -> Iterator[tuple[str | int, str]]:
    """Yield the unit and the text of each message, with its author where there is one."""
    for turns in talk.sessions.values():
        for turn in turns:
            content = turn.message.content
            text = content if isinstance(content, str) else str(content["text"])
            author = turn.message.author
            yield turn.unit, f"{author}: {text}" if author else text


class Encoder:
    """retain's encoder as a function that the stores can call."""

    def __init__(self) -> None:
        embedder = choose(Settings(embedder="encoder"))
        assert embedder is not None
        self._embedder = embedder

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return embed_texts(self._embedder, list(texts)).tolist()  # type: ignore[no-any-return]


def open_chroma(talks: Sequence[Talk], encode: Encoder, folder: str) -> Search:
    """Return a search in a chromadb collection that is stored in a folder."""
    client = import_module("chromadb").PersistentClient(folder)
    collection = client.create_collection("messages", metadata={"hnsw:space": "cosine"})
    for talk in talks:
        rows = list(messages(talk))
        for start in range(0, len(rows), BATCH_SIZE):
            part = rows[start : start + BATCH_SIZE]
            collection.add(
                ids=[f"{talk.user}/{unit}" for unit, _ in part],
                documents=[text for _, text in part],
                embeddings=encode([text for _, text in part]),
                metadatas=[{"user": talk.user} for _ in part],
            )
    units = {f"{talk.user}/{unit}": unit for talk in talks for unit, _ in messages(talk)}

    def search(talk: Talk, ask: recall.Ask) -> list[str | int]:
        result = collection.query(
            query_embeddings=encode([ask.text]), n_results=RESULT_LIMIT, where={"user": talk.user}
        )
        return [units[id] for id in result["ids"][0]]

    return search


def open_langgraph(talks: Sequence[Talk], encode: Encoder) -> Search:
    """Return a search in LangGraph's InMemoryStore."""
    store = import_module("langgraph.store.memory").InMemoryStore(
        index={"dims": 384, "embed": encode, "fields": ["text"]}
    )
    for talk in talks:
        for unit, text in messages(talk):
            store.put((talk.user,), str(unit), {"text": text, "unit": unit})

    def search(talk: Talk, ask: recall.Ask) -> list[str | int]:
        hits = store.search((talk.user,), query=ask.text, limit=RESULT_LIMIT)
        return [hit.value["unit"] for hit in hits]

    return search


def open_retain(talks: Sequence[Talk], folder: str) -> Search:
    """Return a search of retain."""
    memory = Memory.open(
        settings=Settings(database=f"sqlite:///{folder}/retain.db", embedder="encoder")
    )
    units = recall.fill(memory, talks).units

    def search(talk: Talk, ask: recall.Ask) -> list[str | int]:
        me = memory.scope(user=talk.user)
        hits = me.search(ask.text, kinds=["messages"], at=ask.at, limit=RESULT_LIMIT)
        return [units[hit.id, hit.seq] for hit in hits]

    return search


def measure(name: str, talks: Sequence[Talk], search: Search) -> None:
    """Search for every question, and print recall and latency."""
    recalls: list[float] = []
    reciprocal_ranks: list[float] = []
    milliseconds: list[float] = []
    for talk in talks:
        for ask in talk.asks:
            if ask.type == ADVERSARIAL_TYPE or not ask.gold:
                continue
            started = time.process_time()
            ranked = search(talk, ask)
            milliseconds.append((time.process_time() - started) * 1000)
            ranks = [rank for rank, unit in enumerate(ranked, 1) if unit in ask.gold]
            recalls.append(len(ranks) / len(ask.gold))
            reciprocal_ranks.append(1 / ranks[0] if ranks else 0.0)
    p99 = statistics.quantiles(milliseconds, n=100)[98]
    print(
        f"{name:24s} {len(recalls)} questions: R@10 {statistics.fmean(recalls):.3f}, "
        f"MRR@10 {statistics.fmean(reciprocal_ranks):.3f}, "
        f"CPU p50 {statistics.median(milliseconds):.1f} ms, p99 {p99:.1f} ms",
        flush=True,
    )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Compare search with vector stores.")
    parser.add_argument("file", type=Path, help="a file of conversations and questions")
    talks = recall.read(parser.parse_args().file)
    encode = Encoder()
    with tempfile.TemporaryDirectory() as folder:
        measure("retain", talks, open_retain(talks, folder))
        measure("chromadb", talks, open_chroma(talks, encode, f"{folder}/chroma"))
        measure("LangGraph InMemoryStore", talks, open_langgraph(talks, encode))
    return 0


if __name__ == "__main__":
    sys.exit(main())
