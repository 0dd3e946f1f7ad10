"""The size of the programme: a sample with every `pytest`, all of it with CHAOS=full (`make
chaos`).
"""

from __future__ import annotations

import os

FULL = os.environ.get("CHAOS") == "full"

KILLS = 20 if FULL else 6  # of writers of one file
KILLED_FILES = 10 if FULL else 1
KILLED_WRITER_SECONDS = 0.5 if FULL else 0.25  # the longest a writer lives before it is killed
INTERRUPTS = 20 if FULL else 3
POWER_CUTS = 500 if FULL else 10
POWER_MESSAGES = 400 if FULL else 150
SERVER_CRASHES = 10 if FULL else 1  # of each kind
SERVER_TERMINATIONS = 100 if FULL else 5
CROWD_WRITES = 150 if FULL else 10  # by each of 64 threads
CROWD_RUNS = 3 if FULL else 1
PROCESS_WRITES = 500 if FULL else 40  # by each of 8 processes
STARTS = 4 if FULL else 1  # rounds of STARTERS processes
STARTERS = 16 if FULL else 6
FAULTS = {  # which call of a writer's thread fails: the early ones while it creates the file
    "fdatasync": range(1, 46) if FULL else (2,),
    "pwrite64": range(5, 500, 20) if FULL else (260,),
}
LOCK_SECONDS = 12.0 if FULL else 2.0
READER_ROUNDS = 40 if FULL else 8
HTTP_SERVERS = (
    [("sqlite", 1), ("sqlite", 2), ("modern", 1), ("modern", 2)]
    if FULL
    else [("sqlite", 2), ("modern", 1)]
)
HTTP_KILLS = (
    50 if FULL else 2
)  # of each of these, with so many processes: every other one is a SIGTERM
