"""Load the shared fixtures, for the tests of every package."""

import pytest

pytest.register_assert_rewrite("testkit")
pytest_plugins = ["testkit.plugin"]
