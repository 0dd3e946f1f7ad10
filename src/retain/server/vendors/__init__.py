"""Vendor protocols: the clients of OpenAI, Anthropic and LangGraph work with another base URL.

These routes only translate. Authentication and permissions are the same as for every other route.
"""

from __future__ import annotations

from fastapi import FastAPI

from retain.server.authenticator import Authenticator
from retain.server.vendors import anthropic, langgraph, openai


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """Add the routes of every protocol."""
    anthropic.add(app, authenticator)
    langgraph.add(app, authenticator)
    openai.add(app, authenticator)
