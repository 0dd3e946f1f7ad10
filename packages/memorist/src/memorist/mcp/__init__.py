"""MCP server: tools, resources and prompts, over HTTP and standard input."""
