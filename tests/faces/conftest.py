"""What the tests of this room stand on."""

from tests.faces.commands import process, run, run_here  # noqa: F401
