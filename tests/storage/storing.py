"""A process that stores, removes and purges references until killed, and logs acknowledged writes."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass

from memorist import Memory, Scope
from memorist.base import limits
from memorist.base.errors import NotFound
from memorist.base.settings import Settings
from memorist.storage.contents import blobs

TENANT = "acme"
USER = "ada"
AGENT = "scout"


def scope_of(memory: Memory) -> Scope:
    """Return the scope that these tests use."""
    return memory.scope(tenant=TENANT, user=USER, agent=AGENT)


@dataclass(frozen=True)
class Job:
    """The work of one process: purge, or store and remove; `shared` contents are common to all.

    With a folder, the purge has no grace period: only locks and rows protect contents.
    """

    url: str
    log: str
    name: str
    rounds: int = 1_000_000
    collect: bool = False
    shared: int = 0
    folder: str = ""


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start the process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.storage.storing", json.dumps(asdict(job))]
    )


def content(seed: str) -> bytes:
    """Return content whose size depends on its name: small, in several parts, or large enough for a
    file.
    """
    chance = random.Random(seed)
    return (seed.encode() + b"\n") * chance.choice((1, 500, 8_000, 40_000))


def settings(url: str, folder: str = "") -> Settings:
    """Return settings with small thresholds, so that every storage path is used."""
    limits.REF_FILE_BYTES = 64 << 10
    return Settings(database=url, ref_folder=folder)


def main(job: Job) -> None:
    chance = random.Random(job.name)
    if job.collect and job.folder:
        blobs.GRACE = 0
    with (
        Memory.open(settings=settings(job.url, job.folder)) as memory,
        open(job.log, "a", buffering=1, encoding="utf-8") as log,
    ):
        me = scope_of(memory)
        kept: list[str] = []
        for n in range(job.rounds):
            if job.collect:
                memory.services.blobs.collect("acme")
                continue
            seed = f"shared {chance.randrange(job.shared)}" if job.shared else f"{job.name} {n}"
            data = content(seed)
            key = me.refs.add(data, seed).key
            log.write(f"added {key} {hashlib.sha256(data).hexdigest()}\n")
            kept.append(key)
            if chance.random() < 0.5:
                gone = kept.pop(chance.randrange(len(kept)))
                log.write(f"removing {gone}\n")
                with suppress(NotFound):
                    me.refs.remove(gone)
                log.write(f"removed {gone}\n")
        log.write(f"done {job.name}\n")


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
