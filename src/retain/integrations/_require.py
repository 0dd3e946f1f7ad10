"""What an adapter is given: the framework that it is for, and a scope of a memory that is open in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retain.base.errors import Invalid
from retain.memory import Scope

_OTHERS = {"AsyncScope": "one of AsyncMemory", "_RemoteScope": "one of Client"}


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import a framework; where it is not installed, say which extra brings it (its own name may be another package's)."""
    try:
        yield
    except ImportError as error:
        said = f"this adapter needs the extra `{name}` ({error}): install retain[{name}] from where you got retain"
        raise ImportError(said, name=error.name, path=error.path) from error


def local(scope: Scope) -> Scope:
    """The scope, if an adapter can use it: here, because it does several things at once; and one that does not await."""
    if isinstance(scope, Scope) and hasattr(scope, "services"):
        return scope
    name = type(scope).__name__
    what = "must be a scope of Memory, in asyncio too: Memory.open(…).scope(user=…)"
    raise Invalid(field="scope", problem=f"{what}; this is {_OTHERS.get(name, name)}")
