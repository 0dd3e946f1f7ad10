"""What the tests of this room stand on."""

import pytest

from tests.calling import app, calling, http  # noqa: F401
from tests.web.browsing import chromium, web  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A browser sees no difference between two PostgreSQL servers: one is enough, unless a test says otherwise."""
    said = any("engine" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if {"web", "engine"} <= set(metafunc.fixturenames) and not said:
        metafunc.definition.add_marker(pytest.mark.parametrize("engine", ["sqlite", "modern"], indirect=True))
