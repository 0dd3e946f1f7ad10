"""Preconditions of every integration: its framework is installed, and its scope is a local one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memorist.base.errors import Invalid, install_hint
from memorist.memory import Scope

_OTHER_SCOPES = {"AsyncScope": "a scope of AsyncMemory", "_RemoteScope": "a scope of Client"}


@contextmanager
def require_extra(name: str) -> Iterator[None]:
    """Name the extra to install if an import inside the block fails."""
    try:
        yield
    except ImportError as error:
        message = f"This integration requires the extra `{name}` ({error}); {install_hint(name)}."
        raise ImportError(message, name=error.name, path=error.path) from error


def require_local_scope(scope: Scope) -> Scope:
    """Return the scope of a Memory; raise Invalid for an asynchronous or a remote one.

    Integrations write in transactions, which a remote scope has not, and run them in threads.
    """
    if isinstance(scope, Scope) and hasattr(scope, "services"):
        return scope
    name = type(scope).__name__
    expected = "must be a scope of Memory, in asyncio too: Memory.open(…).scope(user=…)"
    raise Invalid(field="scope", problem=f"{expected}; got {_OTHER_SCOPES.get(name, name)}")
