"""Fixtures of the command line tests."""

from tests.cli.commands import process, run, run_here  # noqa: F401
