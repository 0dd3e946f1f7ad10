"""Loading of embedder and models while the server starts."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys

import pytest

from memorist import Memory
from memorist.base.settings import Settings
from memorist.chat.warm_up import warming_up


def test_the_embedder_and_the_models_are_loaded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "memorist.warm_up")
    settings = Settings(
        database="memory:", model="gpt-5-mini", base_url="http://127.0.0.1:9/v1", api_key="k" * 20
    )
    with Memory.open(settings=settings) as memory, warming_up(memory) as thread:
        thread.join(120)
    loaded = [record.getMessage().rpartition(" in ")[0] for record in caplog.records]
    assert loaded == ["Warm-up loaded the embedder", "Warm-up loaded the libraries of gpt-5-mini"]


def test_the_patterns_of_questions_are_compiled() -> None:
    """In another process, because other tests have compiled them here."""
    script = """
from memorist import Memory, Settings
from memorist.chat.warm_up import warming_up
from memorist.search import question, times
settings = Settings(database="memory:", embedder="static")
with Memory.open(settings=settings) as memory, warming_up(memory) as thread:
    thread.join(120)
patterns = [question._MANY, question._QUOTED, *[pattern for pattern, _ in times._READERS]]
assert all("compiled" in vars(pattern) for pattern in patterns)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_models_that_agents_choose_are_loaded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "memorist.warm_up")
    settings = Settings(
        database="memory:", embedder="none", base_url="http://127.0.0.1:9/v1", api_key="k" * 20
    )
    with Memory.open(settings=settings) as memory:
        agents = memory.scope(tenant=settings.tenant).agents
        agents.add("scout", model="gpt-5-nano")
        agents.add("cook", model="gpt-5-nano")
        with warming_up(memory) as thread:
            thread.join(120)
    assert len(caplog.records) == 1
    assert (
        caplog.records[0].getMessage().startswith("Warm-up loaded the libraries of gpt-5-nano in ")
    )


def test_a_failed_load_is_logged_and_does_not_stop_the_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = Settings(database="memory:", embedder="none", model="nobody:nothing")
    with Memory.open(settings=settings) as memory, warming_up(memory) as thread:
        thread.join(120)
    (record,) = caplog.records
    assert (
        record.getMessage()
        == "Warm-up could not load the libraries of nobody:nothing: SettingsError"
    )


def test_the_caller_may_start_it_later_or_never() -> None:
    settings = Settings(database="memory:", embedder="none")
    with Memory.open(settings=settings) as memory:
        with warming_up(memory, start=False) as thread:
            assert not thread.is_alive()
        with warming_up(memory, start=False) as thread:
            thread.start()
        assert not thread.is_alive()


def test_what_was_loaded_is_not_searched_for_garbage() -> None:
    settings = Settings(database="memory:", embedder="none")
    gc.unfreeze()
    try:
        with Memory.open(settings=settings) as memory, warming_up(memory) as thread:
            thread.join(120)
            assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
