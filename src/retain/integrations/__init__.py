"""Integrations with agent frameworks: one public module per framework, each an extra of that name.

A framework is imported only by its own module here. `importers` reads the exports of other
memories.
"""
