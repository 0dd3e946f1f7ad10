"""The endpoint table, schemas, rendering and problems.

The server, MCP, the CLI and the client share them.
"""
