"""Consolidations: proposals to keep the content of journal entries that are about to expire."""

from memorist.kinds.consolidations.consolidations import Consolidation, Consolidations, Status

__all__ = ["Consolidation", "Consolidations", "Status"]
