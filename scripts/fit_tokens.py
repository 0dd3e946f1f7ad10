"""Fit the byte groups of memorist.base.tokens to a real vocabulary; needs numpy.

    python scripts/fit_tokens.py [SECONDS] [FOLDER …]

Reads texts in the folders (default: system folders that have some) and counts their tokens exactly. It
starts with the current groups, moves one kind of byte at a time, keeps a move if it makes the estimate
better, and prints the result. It uses two thirds of the files; `python -m bench --only tokens`
measures the error on the rest.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

from bench.texts import DEFAULT_FOLDERS, held_out, samples
from memorist.base import tokens

np: Any = importlib.import_module("numpy")

PER_CLASS = 300
GROUPS = 8
UNDERESTIMATE_COST = 1.25
"""The cost of an estimate that is too low, relative to one that is too high."""
BIAS_WEIGHT = 2.0
"""The weight of the mean error of a class of texts, relative to the errors of single texts."""
WEIGHTS = {
    "English": 4,
    "German": 3,
    "Chinese": 3,
    "Python": 3,
    "JSON": 3,
    "Markdown": 3,
    "logs": 3,
    "base64": 9,
    "JavaScript": 2,
    "numbers": 2,
    "C": 2,
    "UUIDs": 2,
    "hex": 2,
    "Italian": 3,
    "Thai": 4,
    "Arabic": 2,
    "Japanese": 2,
    "Russian": 3,
}
"""Weights of the classes of texts; the others have 1."""
ASCII = "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
SIMILAR_BYTES = (
    b"\t\r", bytes(range(0xC4, 0xCC)), b"\xcc\xcd", b"\xce\xcf", b"\xd2\xd3\xd4", b"\xd5\xd6\xd7",
    bytes(range(0xD8, 0xE0)), bytes(range(0xEA, 0xEE)), b"\xee\xef", bytes(range(0xF0, 0xF8)),
    *(bytes([lead]) for lead in (0xC2, 0xC3, 0xD0, 0xD1, *range(0xE0, 0xEA))),
    *(bytes(range(start, start + 8)) for start in range(0x80, 0xC0, 8)),
)  # fmt: skip
"""Bytes that are always in the same groups: UTF-8 bytes, by script."""


def main() -> None:
    """Fit for a number of seconds and print the groups."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300.0
    fit = Fit([Path(folder) for folder in sys.argv[2:]] or list(DEFAULT_FOLDERS))
    print(
        f"{len(fit.weights)} texts, {len(fit.names)} classes; error at the start: {fit.value:.5f}",
        file=sys.stderr,
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not fit.sweep(end):
            fit.shake()
    print(f"error at the end: {fit.best[0]:.5f}", file=sys.stderr)
    fit.show()


class Fit:
    """A local search over the groups of each kind of byte, which are bits of a number."""

    def __init__(self, roots: list[Path]) -> None:
        self.kinds = [*(character.encode() for character in ASCII), *SIMILAR_BYTES, b""]
        kind_of_byte = np.full(256, len(self.kinds) - 1)
        for kind, members in enumerate(self.kinds):
            kind_of_byte[list(members)] = kind
        exact = tokens.counter("gpt-4o")
        texts_by_class = samples(roots, PER_CLASS)
        self.names = sorted(texts_by_class)
        rows, classes = [], []
        for number, name in enumerate(self.names):
            for file, text in texts_by_class[name]:
                if not held_out(file):
                    rows.append(
                        self._pairs(kind_of_byte[np.frombuffer(text.encode(), np.uint8)])
                        / np.float32(exact(text))
                    )
                    classes.append(number)
        self.pairs = np.stack(rows)
        self.classes = np.array(classes)
        self.counts = np.bincount(self.classes)
        importance = np.array([float(WEIGHTS.get(name, 1)) for name in self.names])
        self.importance = importance / importance.sum()
        self.weights = self.importance[self.classes] / self.counts[self.classes]
        self.bit_counts = np.array(
            [number.bit_count() for number in range(1 << GROUPS)], np.float32
        )
        self.rng = np.random.default_rng(1)
        self.groups = np.array(
            [tokens.FLAGS[members[0]] if members else 0 for members in self.kinds]
        )
        self.best = (9.0, self.groups, 0.0)
        self._measure()

    def _pairs(self, kinds: Any) -> Any:
        """Return how often each kind of byte follows each kind."""
        size = len(self.kinds)
        before = np.concatenate([[size - 1], kinds[:-1]])
        return (
            np.bincount(before * size + kinds, minlength=size * size)
            .astype(np.float32)
            .reshape(size, size)
        )

    def _measure(self) -> None:
        starts = self.bit_counts[self.groups[None, :] & ~self.groups[:, None]]
        self.starts = np.tensordot(self.pairs, starts, axes=([1, 2], [0, 1]))
        self.value, self.tokens_per_run = self._error(self.starts)

    def _error(self, starts: Any) -> tuple[float, float]:
        """Return the error, and the tokens per run that minimise it."""
        tokens_per_run = float(
            (self.weights * starts).sum() / (self.weights * starts * starts).sum()
        )
        error = tokens_per_run * starts - 1
        error = np.where(error < 0, error * UNDERESTIMATE_COST, error)
        means = np.bincount(self.classes, weights=error) / self.counts
        return float(
            (self.weights * error * error).sum()
            + BIAS_WEIGHT * (self.importance * means * means).sum()
        ), tokens_per_run

    def sweep(self, end: float) -> bool:
        """Move each kind of byte into or out of each group; return whether the error fell."""
        better = False
        kinds = len(self.kinds) - 1
        for number in self.rng.permutation(kinds * (GROUPS + 2)):
            kind, group = divmod(int(number), GROUPS + 2)
            old = int(self.groups[kind])
            if group < GROUPS:
                new = old ^ 1 << group
            elif group == GROUPS:
                new = int(self.groups[self.rng.integers(kinds)])
            else:
                new = (
                    old ^ 1 << int(self.rng.integers(GROUPS)) ^ 1 << int(self.rng.integers(GROUPS))
                )
            better |= new != old and self._try(kind, old, new)
            if time.monotonic() > end:
                break
        self._keep()
        return better

    def _try(self, kind: int, old: int, new: int) -> bool:
        after = self.groups.copy()
        after[kind] = new
        entered = self.bit_counts[new & ~after] - self.bit_counts[old & ~self.groups]
        left = self.bit_counts[after & ~new] - self.bit_counts[self.groups & ~old]
        left[kind] = 0
        starts = self.starts + self.pairs[:, :, kind] @ entered + self.pairs[:, kind, :] @ left
        value, tokens_per_run = self._error(starts)
        if value < self.value - 1e-9:
            self.groups = after
            self.starts = starts
            self.value = value
            self.tokens_per_run = tokens_per_run
            return True
        return False

    def _keep(self) -> None:
        if self.value < self.best[0]:
            self.best = (self.value, self.groups.copy(), self.tokens_per_run)

    def shake(self) -> None:
        """Change the best result at random, and continue the search from there."""
        self.groups = self.best[1].copy()
        for _ in range(int(self.rng.integers(3, 12))):
            self.groups[self.rng.integers(len(self.kinds) - 1)] ^= 1 << int(
                self.rng.integers(GROUPS)
            )
        self._measure()

    def show(self) -> None:
        """Print the groups as source code."""
        _, groups, tokens_per_run = self.best
        print(f"# {tokens_per_run:.4f} tokens per run")
        for group in range(GROUPS):
            members = b"".join(
                self.kinds[kind] for kind in range(len(groups) - 1) if groups[kind] >> group & 1
            )
            plain = "".join(map(chr, sorted(byte for byte in members if byte < 0x80)))
            print(f"    ({plain!r}, {ranges(sorted(byte for byte in members if byte >= 0x80))!r}),")


def ranges(numbers: list[int]) -> str:
    """Return numbers as `80-8F C3`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return " ".join(
        f"{part[0]:02X}-{part[-1]:02X}" if len(part) > 1 else f"{part[0]:02X}" for part in parts
    )


if __name__ == "__main__":
    main()
