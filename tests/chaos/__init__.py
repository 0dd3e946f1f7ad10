"""Crashes, power cuts, full disks and crowds: proof that an acknowledged write is never lost."""
