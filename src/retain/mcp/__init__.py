"""The same memory for agents that speak MCP: tools, resources and prompts, over HTTP and standard input."""
