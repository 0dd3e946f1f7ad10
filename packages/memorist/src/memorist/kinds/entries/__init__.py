"""Entries: short texts that an agent remembers.

There are three kinds: `journal` (expires), `core` (permanent), `whiteboard` (shared by agents).
"""

from memorist.kinds.entries.entries import Entries
from memorist.kinds.entries.entry import JOURNAL_WINDOW, Entry, EntryKind, Review

__all__ = ["JOURNAL_WINDOW", "Entries", "Entry", "EntryKind", "Review"]
