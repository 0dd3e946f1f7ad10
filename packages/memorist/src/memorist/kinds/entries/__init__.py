"""Entries: an agent's journal and core memory, and the whiteboards that agents share."""

from memorist.kinds.entries.entries import Entries
from memorist.kinds.entries.entry import JOURNAL_WINDOW, Entry, EntryKind, Review

__all__ = ["JOURNAL_WINDOW", "Entries", "Entry", "EntryKind", "Review"]
