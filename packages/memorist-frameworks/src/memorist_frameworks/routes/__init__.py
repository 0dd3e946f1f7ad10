"""Wire protocols of vendors: the clients of OpenAI, Anthropic and LangGraph work with another URL.

Each module has `ROUTES`, a `RouteSet` that the server finds by an entry point. Its operations only
translate; `route_set.py` authenticates, parses and audits with the parts of the server.
"""
