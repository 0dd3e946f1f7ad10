"""At services in other people's frameworks: one file for each of their interfaces, over the same scopes as everything else.

A framework is imported only by the file that is named after it, and installed as an extra of that name.
"""
