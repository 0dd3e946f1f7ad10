"""Consolidations: proposals to keep what journal entries say that fade."""

from retain.kinds.consolidations.consolidations import Consolidation, Consolidations, Status

__all__ = ["Consolidation", "Consolidations", "Status"]
