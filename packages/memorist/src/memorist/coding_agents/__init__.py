"""The memory that the coding agents of a project share: its settings, and the log of their hooks.

The hooks and their installation are in the package memorist-frameworks.
"""
