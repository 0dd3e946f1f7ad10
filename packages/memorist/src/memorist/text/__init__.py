"""Functions on any text: split into parts, search, describe, condense."""
