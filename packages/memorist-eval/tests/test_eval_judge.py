"""Answers of a model: their prompt."""

from __future__ import annotations

from datetime import datetime

from memorist.testing import ScriptedModel
from memorist_eval.judge import answer_question


class PortableTime(datetime):
    """A time that rejects the flags that only some systems know."""

    def strftime(self, format: str) -> str:
        """Format the time."""
        assert "%-" not in format
        return super().strftime(format)


def test_the_day_is_written_on_every_system() -> None:
    model = ScriptedModel("Bergen.")
    prompt = [{"role": "system", "content": ""}, {"role": "user", "content": "Where?"}]
    assert answer_question(model, prompt, PortableTime(2024, 6, 4)) == "Bergen."
    assert "Today is 4 June 2024." in str(model.requests[0])
