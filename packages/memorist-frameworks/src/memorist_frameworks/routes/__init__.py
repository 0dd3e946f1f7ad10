"""Wire protocols of vendors: the clients of OpenAI, Anthropic and LangGraph work with another URL.

Each module has `ROUTES`, which the server finds by an entry point. The routes only translate;
authentication, permissions, audit and idempotency are the server's.
"""
