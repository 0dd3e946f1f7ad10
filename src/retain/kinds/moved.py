"""What moved in keeps the times that it had elsewhere, and does not push aside what was in use here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from retain import clock
from retain.kinds.kind import Who
from retain.search.legs import AFTER_A_NAME
from retain.storage.database import Transaction

_SESSION = """update sessions set created_at = :created, touched_at = :updated
              where tenant = :tenant and id = :id and user_id = :user"""
_ITEM = """update items set created_at = :created, updated_at = :updated
           where tenant = :tenant and area = :area and place = :place and key = :key and version = 1"""
_REST = """delete from active_sessions
           where tenant = :tenant and user_id = :user and agent = :agent and active_session_id = :id"""


def session(tx: Transaction, who: Who, id: str, created: datetime, updated: datetime) -> None:
    """Let a session have begun and have been used when it was."""
    began, used = _moments(created, updated)
    tx.run(_SESSION, id=id, user=who.user, created=began, updated=used)


def rest(tx: Transaction, who: Who, id: str) -> None:
    """Let a session be there without being the active one."""
    tx.run(_REST, user=who.user, agent=who.agent, id=id)


def item(tx: Transaction, who: Who, place: Sequence[str], key: str, created: datetime, updated: datetime) -> None:
    """Let an item that nobody put since have been put when it was."""
    area = "tenant" if who.user is None else f"user:{who.user}"
    began, put = _moments(created, updated)
    tx.run(_ITEM, area=area, place="".join([name + AFTER_A_NAME for name in place]), key=key, created=began, updated=put)


def _moments(created: datetime, updated: datetime) -> tuple[int, int]:
    began = clock.from_datetime(created, "created_at")
    return began, max(began, clock.from_datetime(updated, "updated_at"))
