"""The endpoint table, schemas, rendering and problems: shared by the server, MCP, the CLI and the client."""
