"""Which segments of an owner are merged, so that there are few and none is written often.

Segments grow by tiers: up to 8 documents, 64, 512, 4,096. New documents join the smallest ones; when
there are eight segments of a tier, they become one of the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from memorist.search.segment import INVERTED_DOCUMENTS, MAX_DOCUMENTS

FANOUT = 8
TIERS = (8, 64, 512, MAX_DOCUMENTS)
DEAD_SHARE = 4
"""A large segment is written again when one in this many of its documents is gone."""


class SegmentSize(NamedTuple):
    """The documents of a segment, and those of them that are still there."""

    size: int
    alive: int

    @property
    def needs_rewrite(self) -> bool:
        """Whether what is gone should not stay: always in a small segment."""
        gone = self.size - self.alive
        return gone > 0 and (self.size <= INVERTED_DOCUMENTS or gone * DEAD_SHARE >= self.size)


def plan_merges(sizes: Mapping[str, SegmentSize]) -> list[list[str]]:
    """Return the segments to write again, those of a group as one."""
    alive = {id: each.alive for id, each in sizes.items()}
    groups = {id: [id] for id in sizes}
    for low, high in zip((0, *TIERS), TIERS, strict=False):
        # The smallest first: the first two must fit together, or nothing would be merged any more.
        members = sorted((id for id in groups if low <= alive[id] < high), key=alive.__getitem__)
        least = 2 if low == 0 else FANOUT
        while len(members) >= least:
            joined = _first_that_fit(members, alive)
            if len(joined) < 2:
                break
            first, *others = joined
            for id in others:
                groups[first] += groups.pop(id)
                alive[first] += alive[id]
            members = [id for id in members if id not in joined]
    return [group for group in groups.values() if len(group) > 1 or sizes[group[0]].needs_rewrite]


def _first_that_fit(members: Sequence[str], alive: Mapping[str, int]) -> list[str]:
    joined: list[str] = []
    total = 0
    for id in members:
        if total + alive[id] > MAX_DOCUMENTS:
            break
        joined.append(id)
        total += alive[id]
    return joined
