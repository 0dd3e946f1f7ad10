"""A judge of histories: what clients asked and were told, held against the list that is there at the end.

A session is a list that can be appended to and read. Each append carries a payload of its own, so that a final list tells a
story that can be checked: what was acknowledged is there once, what was refused is not there, what is in doubt is there
at most once, nobody ever read anything but a beginning of that list, and whatever was acknowledged before another append
was asked for stands before it. A database that passes its own integrity check can fail every one of these.

All times are from the monotonic clock, which the processes of one machine share.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Literal

from memorist import Scope

Outcome = Literal["ok", "fail", "info"]
Numbered = tuple[int, str]
"""A message as the database numbers it, and its payload."""


@dataclass
class Append:
    """One payload: when it was first sent, and its final outcome; `info` means unknown."""

    payload: str
    invoked: float
    outcome: Outcome = "info"
    answered: float = float("inf")
    seq: int = 0


@dataclass(frozen=True)
class Read:
    """What a reader saw: consecutive messages up to the newest."""

    invoked: float
    answered: float
    seen: tuple[Numbered, ...]


@dataclass
class History:
    """What happened to one session, as its clients saw it; thread-safe."""

    appends: dict[str, Append] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # expected errors that clients handled
    _gate: threading.Lock = field(default_factory=threading.Lock)

    def invoke(self, payload: str, at: float | None = None) -> None:
        """Record an append; the same payload again is a retry with the same key."""
        at = time.monotonic() if at is None else at
        with self._gate:
            self.appends.setdefault(payload, Append(payload, at))

    def answer(self, payload: str, outcome: Outcome, seq: int = 0, at: float | None = None) -> None:
        """Record the client's result."""
        at = time.monotonic() if at is None else at
        with self._gate:
            append = self.appends[payload]
            if append.outcome == "ok" and (outcome, seq) != ("ok", append.seq):
                self.surprises.append(
                    f"{payload} was acknowledged as {append.seq} and then answered {outcome} {seq}"
                )
            elif append.outcome != "ok":
                append.outcome, append.seq = outcome, seq
                append.answered = float("inf") if outcome == "info" else at  # it may still happen

    def read(self, invoked: float, seen: Sequence[Numbered], at: float | None = None) -> None:
        """Record a reader's result."""
        with self._gate:
            self.reads.append(Read(invoked, time.monotonic() if at is None else at, tuple(seen)))

    def surprise(self, what: str) -> None:
        """Record something that must never happen, such as an unexpected error."""
        with self._gate:
            self.surprises.append(what)

    def of(self, outcome: Outcome) -> list[str]:
        """Return the payloads with an outcome."""
        return [
            append.payload for append in list(self.appends.values()) if append.outcome == outcome
        ]

    def problems(self, final: Sequence[Numbered]) -> list[str]:
        """Return every contradiction between the final list and this history."""
        return [
            *self.surprises,
            *_numbering(final),
            *_membership(self.appends, final),
            *_real_time(self.appends, final),
            *_reads(self, final),
        ]


def _numbering(final: Sequence[Numbered]) -> list[str]:
    return [
        f"number {seq} stands where {place} should"
        for place, (seq, _) in enumerate(final, start=1)
        if seq != place
    ][:20]


def _membership(appends: dict[str, Append], final: Sequence[Numbered]) -> list[str]:
    times = Counter(payload for _, payload in final)
    place = {payload: seq for seq, payload in final}
    results = []
    for payload, append in appends.items():
        if append.outcome == "ok" and times[payload] != 1:
            results.append(f"{payload} was acknowledged and is there {times[payload]} times")
        elif append.outcome == "ok" and place[payload] != append.seq:
            results.append(f"{payload} was acknowledged as {append.seq} and is {place[payload]}")
        elif append.outcome == "info" and times[payload] > 1:
            results.append(f"{payload} was in doubt and is there {times[payload]} times")
        elif append.outcome == "fail" and times[payload]:
            results.append(f"{payload} was refused and is there")
    return results + [
        f"{payload} was never asked for" for payload in times if payload not in appends
    ]


def _real_time(appends: dict[str, Append], final: Sequence[Numbered]) -> list[str]:
    results = []
    latest: Append | None = None
    for _, payload in final:
        append = appends.get(payload)
        if append is None:
            continue
        if latest and append.answered < latest.invoked:
            results.append(
                f"{payload} was acknowledged before {latest.payload} was asked for, and stands after it"
            )
        if latest is None or append.invoked > latest.invoked:
            latest = append
    return results


def _reads(history: History, final: Sequence[Numbered]) -> list[str]:
    results = []
    acknowledged = sorted(
        (a.answered, a.seq) for a in history.appends.values() if a.outcome == "ok"
    )
    answers = [answered for answered, _ in acknowledged]
    newest_by = list(accumulate((seq for _, seq in acknowledged), max, initial=0))
    place = {payload: seq for seq, payload in final}
    for number, read in enumerate(history.reads):
        if read.seen:
            first = read.seen[0][0]
            if tuple(final[first - 1 : first - 1 + len(read.seen)]) != read.seen:
                results.append(f"read {number} saw what is not a stretch of the final list")
        newest = read.seen[-1][0] if read.seen else 0
        due = newest_by[bisect_left(answers, read.invoked)]
        if newest < due:
            results.append(f"read {number} ended at {newest} after {due} had been acknowledged")
        early = [
            p
            for _, p in read.seen
            if p in history.appends and history.appends[p].invoked > read.answered
        ]
        results += [
            f"read {number} saw {payload} ({place.get(payload)}) before it was asked for"
            for payload in early
        ]
    return results


def messages_of(me: Scope, session: str) -> list[Numbered]:
    """Return the final list from the database, without the padding of messages."""
    return [(message.seq, message.text.rstrip(".")) for message in me.messages.window(session)]


def from_log(path: Path, history: History | None = None) -> History:
    """The history that writer processes left in a log, one short line at a time (see writer.py).

    A line that a kill cut short is no answer; a refusal that was followed by a retry is superseded by what the retry got.
    """
    history = history or History()
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            continue
        verb, at, payload, rest = line.rstrip("\n").split(" ", 3)
        if verb == "invoke":
            history.invoke(payload, float(at))
        elif verb == "ok":
            history.answer(payload, "ok", int(rest), float(at))
        elif verb in ("fail", "info"):
            history.answer(payload, "fail" if verb == "fail" else "info", 0, float(at))
        elif verb not in ("opening", "beginning", "round", "done"):
            history.surprise(f"{verb} {payload} {rest}")
    return history
