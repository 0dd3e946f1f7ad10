"""Crashes, power cuts, full disks and load: no acknowledged write is ever lost."""
