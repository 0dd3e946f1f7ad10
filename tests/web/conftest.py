"""What the tests of this room stand on."""

import os
from zlib import crc32

import pytest

from tests.calling import app, calling, http  # noqa: F401
from tests.web.browsing import chromium, web  # noqa: F401


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A page sees no difference between databases, and a browser is slow: each test has one of them, unless it says which.

    Which one, its name says: about half of the tests are on SQLite, the others on a server; ENGINES=all has all on both.
    """
    said = any("engine" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if {"web", "engine"} <= set(metafunc.fixturenames) and not said:
        both = ["sqlite", "modern"]
        if os.environ.get("ENGINES") != "all":
            both = [both[crc32(metafunc.definition.name.encode()) % 2]]
        metafunc.definition.add_marker(pytest.mark.parametrize("engine", both, indirect=True))
