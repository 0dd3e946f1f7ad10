"""Other people's protocols on our server: their own clients work with nothing changed but the address.

A wire translates and decides nothing: who asks is said by the door, as for every other route.
"""

from __future__ import annotations

from fastapi import FastAPI

from retain.server.authenticator import Authenticator
from retain.server.vendors import anthropic, langgraph, openai


def add(app: FastAPI, authenticator: Authenticator) -> None:
    """The routes of every protocol."""
    anthropic.add(app, authenticator)
    langgraph.add(app, authenticator)
    openai.add(app, authenticator)
