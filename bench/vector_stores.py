"""Search compared with vector stores: the same messages, the same encoder, recall and latency.

    uv run --with chromadb python -m bench.vector_stores FOLDER/locomo_dev.json.gz

The stores are chromadb and LangGraph's `InMemoryStore` with an index. LangGraph's `SqliteStore` is left
out: it needs a Python that can load SQLite extensions. As in the stores' documentation, each message
is stored with its text, author and user, and a question searches the messages of its user. All stores
use memorist's encoder; computing the question's vector is part of a search. Latency is CPU time, because
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
from memorist import Memory, Settings
from memorist.search.embedders import choose, embed_texts
from memorist_eval.benchmark_files import Conversation, GoldQuestion

RESULT_LIMIT = 10
ADVERSARIAL_TYPE = "5"
"""The category of questions without an answer. Left out, as in the papers that use LoCoMo."""
BATCH_SIZE = 500

Search = Callable[[Conversation, GoldQuestion], Sequence[str | int]]


def messages(conversation: Conversation) -> Iterator[tuple[str | int, str]]:
    """Yield the unit and the text of each message, with its author where there is one."""
    for turns in conversation.sessions.values():
        for turn in turns:
            content = turn.message.content
            text = content if isinstance(content, str) else str(content["text"])
            author = turn.message.author
            yield turn.unit, f"{author}: {text}" if author else text


class Encoder:
    """memorist's encoder as a function that the stores can call."""

    def __init__(self) -> None:
        embedder = choose(Settings(embedder="encoder"))
        assert embedder is not None
        self._embedder = embedder

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts."""
        return embed_texts(self._embedder, list(texts)).tolist()  # type: ignore[no-any-return]


def open_chroma(conversations: Sequence[Conversation], encode: Encoder, folder: str) -> Search:
    """Return a search in a chromadb collection that is stored in a folder."""
    client = import_module("chromadb").PersistentClient(folder)
    collection = client.create_collection("messages", metadata={"hnsw:space": "cosine"})
    for conversation in conversations:
        rows = list(messages(conversation))
        for start in range(0, len(rows), BATCH_SIZE):
            part = rows[start : start + BATCH_SIZE]
            collection.add(
                ids=[f"{conversation.user}/{unit}" for unit, _ in part],
                documents=[text for _, text in part],
                embeddings=encode([text for _, text in part]),
                metadatas=[{"user": conversation.user} for _ in part],
            )
    units = {
        f"{conversation.user}/{unit}": unit
        for conversation in conversations
        for unit, _ in messages(conversation)
    }

    def search(conversation: Conversation, question: GoldQuestion) -> list[str | int]:
        result = collection.query(
            query_embeddings=encode([question.text]),
            n_results=RESULT_LIMIT,
            where={"user": conversation.user},
        )
        return [units[id] for id in result["ids"][0]]

    return search


def open_langgraph(conversations: Sequence[Conversation], encode: Encoder) -> Search:
    """Return a search in LangGraph's InMemoryStore."""
    store = import_module("langgraph.store.memory").InMemoryStore(
        index={"dims": 384, "embed": encode, "fields": ["text"]}
    )
    for conversation in conversations:
        for unit, text in messages(conversation):
            store.put((conversation.user,), str(unit), {"text": text, "unit": unit})

    def search(conversation: Conversation, question: GoldQuestion) -> list[str | int]:
        hits = store.search((conversation.user,), query=question.text, limit=RESULT_LIMIT)
        return [hit.value["unit"] for hit in hits]

    return search


def open_memorist(conversations: Sequence[Conversation], folder: str) -> Search:
    """Return a search of memorist."""
    memory = Memory.open(
        settings=Settings(database=f"sqlite:///{folder}/memorist.db", embedder="encoder")
    )
    units = recall.fill(memory, conversations).units

    def search(conversation: Conversation, question: GoldQuestion) -> list[str | int]:
        me = memory.scope(user=conversation.user)
        hits = me.search(question.text, kinds=["messages"], at=question.at, limit=RESULT_LIMIT)
        return [units[hit.id, hit.seq] for hit in hits]

    return search


def measure(name: str, conversations: Sequence[Conversation], search: Search) -> None:
    """Search for every question, and print recall and latency."""
    recalls: list[float] = []
    reciprocal_ranks: list[float] = []
    milliseconds: list[float] = []
    for conversation in conversations:
        for question in conversation.questions:
            if question.type == ADVERSARIAL_TYPE or not question.gold:
                continue
            started = time.process_time()
            ranked = search(conversation, question)
            milliseconds.append((time.process_time() - started) * 1000)
            ranks = [rank for rank, unit in enumerate(ranked, 1) if unit in question.gold]
            recalls.append(len(ranks) / len(question.gold))
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
    conversations = recall.read(parser.parse_args().file)
    encode = Encoder()
    with tempfile.TemporaryDirectory() as folder:
        measure("memorist", conversations, open_memorist(conversations, folder))
        measure("chromadb", conversations, open_chroma(conversations, encode, f"{folder}/chroma"))
        measure("LangGraph InMemoryStore", conversations, open_langgraph(conversations, encode))
    return 0


if __name__ == "__main__":
    sys.exit(main())
