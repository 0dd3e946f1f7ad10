"""Power cuts on SQLite (F2, P1): full durability loses nothing acknowledged; normal loses at most
the end.
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

from memorist import Memory
from memorist.base.errors import NotFound
from testkit import sizes
from testkit.databases import SETTINGS
from tests.chaos.power import SESSION, Cut, Disk, Event, cuts, scope_of
from tests.chaos.writer import ROOT


def recorded(folder: Path, durability: str, seed: int) -> list[Event]:
    """Return what a workload in another process wrote, and when writes were acknowledged."""
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.chaos.power",
        str(folder),
        durability,
        str(sizes.POWER_MESSAGES),
        str(seed),
    ]
    subprocess.run(command, cwd=ROOT, check=True, timeout=200)
    return [Event(*parts) for parts in pickle.loads((folder / "recording").read_bytes())]


def found_after(cut: Cut, folder: Path) -> list[tuple[int, str]]:
    """Return what memorist reads after the cut; the files must be intact and writable."""
    folder.mkdir()
    for name, content in cut.files.items():
        (folder / name).write_bytes(content)
    with Memory.open(f"sqlite:///{folder}/agent.db", settings=SETTINGS) as memory:
        me = scope_of(memory)
        assert [f for f in memory.verify() if not f.ok and "only its owner" not in f.check] == []
        try:
            messages = [
                (message.seq, message.text.rstrip(".")) for message in me.messages.window(SESSION)
            ]
        except NotFound:
            me.sessions.add(SESSION)
            messages = []
        assert me.messages.append(SESSION, "user", "after the cut").seq == len(messages) + 1
    return messages


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_a_power_cut(tmp_path: Path, durability: str) -> None:
    """full: 0 acknowledged lost, 0 corrupt. normal, the control: 0 corrupt, and only the end of the
    list may be lost.
    """
    seed = random.randrange(1_000_000)
    events = recorded(tmp_path / "original", durability, seed)
    chance = random.Random(seed)
    places = [chance.randrange(len(events) + 1) for _ in range(sizes.POWER_CUTS)]
    whole = {event.name: event.offset for event in events if event.what == "ack"}
    lost = 0
    for number, cut in enumerate(cuts(events, places, chance)):
        where = f"{durability}, seed {seed}, cut at {cut.place}"
        result = found_after(cut, tmp_path / str(number))
        assert [seq for seq, _ in result] == list(range(1, len(result) + 1)), where
        assert all(whole[payload] == seq and payload in cut.invoked for seq, payload in result), (
            where
        )
        missing = [payload for payload, seq in cut.acknowledged.items() if seq > len(result)]
        assert durability != "full" or missing == [], where
        lost += len(missing)
    checkpoints = [event for event in events if event.what == "sync" and event.name == "agent.db"]
    assert len(checkpoints) > 3, "the workload was meant to meet checkpoints"
    if durability == "normal" and sizes.FULL:
        assert lost, "the simulation keeps everything: it proves nothing about full durability"


def test_the_simulated_disk_keeps_synced_data_and_loses_or_tears_the_rest() -> None:
    """Without this, a simulation that never loses anything would pass."""
    chance = random.Random(1)
    images = set()
    for _ in range(200):
        disk = Disk()
        for event in (
            Event("write", "f", 0, b"a" * 1024),
            Event("sync", "f"),
            Event("write", "f", 512, b"b" * 1024),
        ):
            disk.apply(event)
        image = disk.after_a_cut(chance)
        assert image is not None
        assert image[:512] == b"a" * 512
        images.add(image[512:].replace(b"\x00", b""))
    assert {b"a" * 512, b"b" * 1024, b"b" * 512, b"a" * 512 + b"b" * 512} <= images
