"""What the tests of this room stand on."""

from tests.cli.commands import process, run, run_here  # noqa: F401
