"""Warm-up: load libraries and model weights in a thread while the program already responds.

The libraries of a model take up to 15 seconds to import. The first chat must not wait for them.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from memorist.base.errors import MemoristError
from memorist.memory import Memory
from memorist.models.model import RemoteModel
from memorist.search.embedders import Embedder, embed_texts
from memorist.search.question import parse_question
from memorist.search.service_embedder import ServiceEmbedder

_JOIN_SECONDS = 5.0
WARM_UP_THREAD = "memorist-warm-up"
_log = logging.getLogger("memorist.warm_up")


@contextmanager
def warming_up(memory: Memory, *, start: bool = True) -> Iterator[threading.Thread]:
    """Load libraries and weights in a thread.

    Errors are only logged: the first request that needs a library raises them. Without `start`, the caller starts the thread.
    """
    stopping = threading.Event()
    thread = threading.Thread(
        target=_load, args=(memory, stopping), name=WARM_UP_THREAD, daemon=True
    )
    if start:
        thread.start()
    try:
        yield thread
    finally:
        stopping.set()
        if thread.is_alive():
            thread.join(_JOIN_SECONDS)  # an interpreter that exits during an import may crash


def _load(memory: Memory, stopping: threading.Event) -> None:
    for name, load in _loads(memory):
        if stopping.is_set():
            return
        started = time.monotonic()
        try:
            load()
        except Exception as error:  # the first request loads it again and raises the error
            _log.warning("Warm-up could not load %s: %s", name, type(error).__name__)
        else:
            _log.info("Warm-up loaded %s in %.1f s", name, time.monotonic() - started)
    gc.freeze()  # searching the libraries for garbage would stop all threads for 60 ms each time


def _loads(memory: Memory) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the name and the loader of each part to load. Nothing is sent to a service."""
    services = memory.services
    embedder = services.embedder
    if embedder is not None and not isinstance(embedder, ServiceEmbedder):
        yield "the embedder", lambda: _load_search(embedder)
    models = [services.models.main, services.models.summary]
    models += [services.models.named(name) for name in _models_of_agents(memory)]
    for model in dict.fromkeys(models):
        if isinstance(model, RemoteModel):
            yield f"the libraries of {model.name}", model.prepare


def _load_search(embedder: Embedder) -> None:
    """Load an embedder, and compile the patterns by which a search reads a question: 60 ms."""
    parse_question("hello")
    embed_texts(embedder, ["hello"])


def _models_of_agents(memory: Memory) -> Sequence[str]:
    """Return the models that agents of the configured tenant choose."""
    try:
        agents = list(memory.scope(tenant=memory.settings.tenant).agents.list())
    except MemoristError as error:
        _log.warning("Cannot read the agents: %s", type(error).__name__)
        return []
    return [agent.model for agent in agents if agent.model]
