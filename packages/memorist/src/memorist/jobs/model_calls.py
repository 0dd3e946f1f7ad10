"""Record every model call that memorist makes as an interaction."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

from memorist.base.errors import MemoristError
from memorist.kinds.interactions import Interactions
from memorist.kinds.kind import Owner, Services
from memorist.models.recording import ModelCall

MAX_ERROR_CHARACTERS = 1000
MAX_NAME_CHARACTERS = 100
MAX_TOKENS = 1 << 40


def record(
    services: Services, owner: Owner, route: str, call: ModelCall, session: str | None = None
) -> None:
    """Record a model call, with implausible numbers left out.

    The answer is worth more than its record, so an error here is suppressed; for example, the
    session may have been removed meanwhile.
    """
    answer = call.answer
    with suppress(MemoristError):
        Interactions(services, owner).add(
            route,
            str(call.model)[:MAX_NAME_CHARACTERS].strip() or "unnamed",
            latency_ms=call.latency_ms,
            tokens_in=_tokens(answer and answer.tokens_in),
            tokens_out=_tokens(answer and answer.tokens_out),
            cost=_cost(answer and answer.cost),
            parameters=call.parameters,
            error=call.error[:MAX_ERROR_CHARACTERS],
            session=session,
        )


def _tokens(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0


def _cost(value: Any) -> float | None:
    is_known = type(value) in (int, float) and math.isfinite(value) and value >= 0
    return float(value) if is_known else None
