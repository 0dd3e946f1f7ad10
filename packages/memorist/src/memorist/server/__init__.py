"""The server: REST, chat, MCP and the web app over one memory, on one port."""
