"""Consolidations: proposals to turn fading journal entries into core ones."""
