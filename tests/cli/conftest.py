"""Fixtures of the command line tests."""

from tests.cli.commands import process, run  # noqa: F401
