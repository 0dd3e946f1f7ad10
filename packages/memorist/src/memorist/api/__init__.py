"""The endpoints of declared verbs, schemas, rendering and problems.

The server, MCP, the CLI and the client share them.
"""
