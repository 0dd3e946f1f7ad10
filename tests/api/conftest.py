"""What the tests of this room stand on."""

from tests.calling import app, calling, http  # noqa: F401
