"""Fixtures of the browser tests.

`make test` runs the main tasks in the browser: the tests that are marked `smoke`. All others are
`slow` and run with `make test-all`.
"""

import pytest

from testkit.browser import chromium, web  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark browser tests that are not part of the smoke suite as slow."""
    for item in items:
        uses_browser = "web" in getattr(item, "fixturenames", ())
        if uses_browser and not item.get_closest_marker("smoke"):
            item.add_marker(pytest.mark.slow)
