"""Every call of a model that retain makes becomes an interaction, whoever asked for it and whatever came of it."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from retain.base.errors import RetainError
from retain.kinds.interactions import Interactions
from retain.kinds.kind import Owner, Services
from retain.models.recording import ModelCall

_MOST_OF_AN_ERROR = 1000
_MOST_OF_A_NAME = 100
_MOST_TOKENS = 1 << 40


def record(
    services: Services, owner: Owner, route: str, call: ModelCall, session: str | None = None
) -> None:
    """Keep what a call took, as far as a model's word for it can be believed.

    An answer that is there is worth more than the record of it: what cannot be recorded is not, and nobody is told. Where
    the session is gone, what it cost is gone with it.
    """
    answer = call.answer
    with suppress(RetainError):
        Interactions(services, owner).add(
            route,
            str(call.model)[:_MOST_OF_A_NAME].strip() or "unnamed",
            latency_ms=call.latency_ms,
            tokens_in=_tokens(answer and answer.tokens_in),
            tokens_out=_tokens(answer and answer.tokens_out),
            cost=_cost(answer and answer.cost),
            error=call.error[:_MOST_OF_AN_ERROR],
            session=session,
        )


def _tokens(said: Any) -> int:
    return said if type(said) is int and 0 <= said <= _MOST_TOKENS else 0


def _cost(said: Any) -> float | None:
    known = type(said) in (int, float) and math.isfinite(said) and said >= 0
    return float(said) if known else None
