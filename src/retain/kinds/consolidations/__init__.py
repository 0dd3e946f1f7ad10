"""Consolidations: proposals to turn journal entries that fade into core entries."""

from retain.kinds.consolidations.consolidations import Consolidation, Consolidations, Status

__all__ = ["Consolidation", "Consolidations", "Status"]
