"""The error that a call raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from memorist.base.errors import Invalid

E = TypeVar("E", bound=BaseException)


def raised(kind: type[E], call: Callable[..., object], /, *arguments: Any, **named: Any) -> E:
    """Call something that must raise an error of a kind, and return the error."""
    with pytest.raises(kind) as error:
        call(*arguments, **named)
    return error.value


def invalid(field: str, call: Callable[..., object], /, *arguments: Any, **named: Any) -> None:
    """Call something that must reject its input, and name this field."""
    assert raised(Invalid, call, *arguments, **named).field == field
