"""Entries: journal, core and whiteboard."""
