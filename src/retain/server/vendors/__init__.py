"""Vendor protocols: the clients of OpenAI, Anthropic and LangGraph work with another base URL.

These routes only translate. Authentication and permissions are the same as for every other route.
"""

from __future__ import annotations

from starlette.applications import Starlette

from retain.server.request_authenticator import RequestAuthenticator
from retain.server.vendors import anthropic, langgraph, openai


def add(app: Starlette, authenticator: RequestAuthenticator) -> None:
    """Add the routes of every protocol."""
    anthropic.add(app, authenticator)
    langgraph.add(app, authenticator)
    openai.add(app, authenticator)
