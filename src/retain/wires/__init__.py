"""Other people's protocols on our server: their own clients work with nothing changed but the address.

A wire translates and decides nothing: who asks is said by the door, as for every other route.
"""

from __future__ import annotations

from fastapi import FastAPI

from retain.gate.door import Door
from retain.wires import anthropic, langgraph, openai


def add(app: FastAPI, door: Door) -> None:
    """The routes of every protocol."""
    anthropic.add(app, door)
    langgraph.add(app, door)
    openai.add(app, door)
