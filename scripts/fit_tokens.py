"""Fit the table of retain.base.tokens to a real vocabulary: `python scripts/fit_tokens.py [SECONDS] [FOLDER …]`; needs numpy.

Reads real texts below the folders (or where most systems have some), counts their tokens exactly, and changes which
characters are in which group, one at a time, as long as that makes the estimate better. Two thirds of the files are fitted
to; `python -m bench --only tokens` measures on the rest. Begins with the table that is there, and prints the new one.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Any

from bench.texts import DEFAULT_FOLDERS, held_out, samples

from retain.base import tokens

np: Any = importlib.import_module("numpy")

PER_CLASS = 300
GROUPS = 8
UNDER = 1.25
"""The cost of an estimate that is too low, relative to one that is too high."""
BIAS = 2.0
"""The weight of the mean error of a class of texts, relative to the error of each text."""
WEIGHTS = {"English": 4, "German": 3, "Chinese": 3, "Python": 3, "JSON": 3, "Markdown": 3, "logs": 3, "base64": 9,
           "JavaScript": 2, "numbers": 2, "C": 2, "UUIDs": 2, "hex": 2, "Italian": 3, "Thai": 4, "Arabic": 2, "Japanese": 2,
           "Russian": 3}  # fmt: skip
ASCII = "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"
ALIKE = (
    b"\t\r", bytes(range(0xC4, 0xCC)), b"\xcc\xcd", b"\xce\xcf", b"\xd2\xd3\xd4", b"\xd5\xd6\xd7",
    bytes(range(0xD8, 0xE0)), bytes(range(0xEA, 0xEE)), b"\xee\xef", bytes(range(0xF0, 0xF8)),
    *(bytes([lead]) for lead in (0xC2, 0xC3, 0xD0, 0xD1, *range(0xE0, 0xEA))),
    *(bytes(range(start, start + 8)) for start in range(0x80, 0xC0, 8)),
)  # fmt: skip
"""Bytes that share their groups: those of UTF-8 by script."""


def main() -> None:
    """Fit for a number of seconds and print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300.0
    fit = Fit([Path(folder) for folder in sys.argv[2:]] or list(DEFAULT_FOLDERS))
    print(
        f"{len(fit.weights)} texts, {len(fit.names)} classes; at the start {fit.value:.5f}",
        file=sys.stderr,
    )
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not fit.sweep(end):
            fit.shake()
    print(f"at the end {fit.best[0]:.5f}", file=sys.stderr)
    fit.show()


class Fit:
    """The search: groups of each kind of byte as bits, and the error of the estimate."""

    def __init__(self, roots: list[Path]) -> None:
        self.kinds = [*(character.encode() for character in ASCII), *ALIKE, b""]
        of = np.full(256, len(self.kinds) - 1)
        for kind, several in enumerate(self.kinds):
            of[list(several)] = kind
        exact = tokens.counter("gpt-4o")
        texts_by_class = samples(roots, PER_CLASS)
        self.names = sorted(texts_by_class)
        rows, classes = [], []
        for number, name in enumerate(self.names):
            for file, text in texts_by_class[name]:
                if not held_out(file):
                    rows.append(
                        self._pairs(of[np.frombuffer(text.encode(), np.uint8)])
                        / np.float32(exact(text))
                    )
                    classes.append(number)
        self.pairs = np.stack(rows)
        self.classes = np.array(classes)
        self.counts = np.bincount(self.classes)
        importance = np.array([float(WEIGHTS.get(name, 1)) for name in self.names])
        self.importance = importance / importance.sum()
        self.weights = self.importance[self.classes] / self.counts[self.classes]
        self.ones = np.array([number.bit_count() for number in range(1 << GROUPS)], np.float32)
        self.dice = np.random.default_rng(1)
        self.groups = np.array(
            [tokens.FLAGS[several[0]] if several else 0 for several in self.kinds]
        )
        self.best = (9.0, self.groups, 0.0)
        self._measure()

    def _pairs(self, kinds: Any) -> Any:
        """Return how often each kind of byte follows each other kind."""
        size = len(self.kinds)
        before = np.concatenate([[size - 1], kinds[:-1]])
        return (
            np.bincount(before * size + kinds, minlength=size * size)
            .astype(np.float32)
            .reshape(size, size)
        )

    def _measure(self) -> None:
        starts = self.ones[self.groups[None, :] & ~self.groups[:, None]]
        self.starts = np.tensordot(self.pairs, starts, axes=([1, 2], [0, 1]))
        self.value, self.price = self._judge(self.starts)

    def _judge(self, starts: Any) -> tuple[float, float]:
        """Return the error, and the price of a run that minimises it."""
        price = float((self.weights * starts).sum() / (self.weights * starts * starts).sum())
        error = price * starts - 1
        error = np.where(error < 0, error * UNDER, error)
        means = np.bincount(self.classes, weights=error) / self.counts
        return float(
            (self.weights * error * error).sum() + BIAS * (self.importance * means * means).sum()
        ), price

    def sweep(self, end: float) -> bool:
        """Move each kind of byte into or out of each group; return whether the error fell."""
        better = False
        kinds = len(self.kinds) - 1
        for number in self.dice.permutation(kinds * (GROUPS + 2)):
            kind, group = divmod(int(number), GROUPS + 2)
            old = int(self.groups[kind])
            if group < GROUPS:
                new = old ^ 1 << group
            elif group == GROUPS:
                new = int(self.groups[self.dice.integers(kinds)])
            else:
                new = (
                    old
                    ^ 1 << int(self.dice.integers(GROUPS))
                    ^ 1 << int(self.dice.integers(GROUPS))
                )
            better |= new != old and self._try(kind, old, new)
            if time.monotonic() > end:
                break
        self._keep()
        return better

    def _try(self, kind: int, old: int, new: int) -> bool:
        after = self.groups.copy()
        after[kind] = new
        entered = self.ones[new & ~after] - self.ones[old & ~self.groups]
        left = self.ones[after & ~new] - self.ones[self.groups & ~old]
        left[kind] = 0
        starts = self.starts + self.pairs[:, :, kind] @ entered + self.pairs[:, kind, :] @ left
        value, price = self._judge(starts)
        if value < self.value - 1e-9:
            self.groups, self.starts, self.value, self.price = after, starts, value, price
            return True
        return False

    def _keep(self) -> None:
        if self.value < self.best[0]:
            self.best = (self.value, self.groups.copy(), self.price)

    def shake(self) -> None:
        """Restart near the best result."""
        self.groups = self.best[1].copy()
        for _ in range(int(self.dice.integers(3, 12))):
            self.groups[self.dice.integers(len(self.kinds) - 1)] ^= 1 << int(
                self.dice.integers(GROUPS)
            )
        self._measure()

    def show(self) -> None:
        """Return the table as source code."""
        _, groups, price = self.best
        print(f"# {price:.4f} tokens for a run")
        for group in range(GROUPS):
            inside = b"".join(
                self.kinds[kind] for kind in range(len(groups) - 1) if groups[kind] >> group & 1
            )
            plain = "".join(map(chr, sorted(byte for byte in inside if byte < 0x80)))
            print(f"    ({plain!r}, {ranges(sorted(byte for byte in inside if byte >= 0x80))!r}),")


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
