"""What moved in keeps the times that it had elsewhere, and does not push aside what was in use here.

No verbs: nobody but an import knows better than the clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from retain import clock
from retain.kinds.kind import Kind
from retain.search.legs import AFTER_A_NAME

_SESSION = """update sessions set created_at = :created, touched_at = :updated
              where tenant = :tenant and id = :id and user_id = :user"""
_REST = """delete from active_sessions
           where tenant = :tenant and user_id = :user and agent = :agent and active_session_id = :id"""
_ITEM = """update items set created_at = :created, updated_at = :updated
           where tenant = :tenant and area = :area and place = :place and key = :key and version = 1"""


def session(sessions: Kind, id: str, created: datetime, updated: datetime) -> None:
    """Let a session have begun and have been used when it was."""
    began, used = _moments(created, updated)
    sessions._write(lambda tx: tx.run(_SESSION, id=id, user=sessions._who.user, created=began, updated=used))


def rest(sessions: Kind, id: str) -> None:
    """Let a session be there without being the active one."""
    sessions._write(lambda tx: tx.run(_REST, user=sessions._who.user, agent=sessions._who.agent, id=id))


def item(items: Kind, place: Sequence[str], key: str, created: datetime, updated: datetime) -> None:
    """Let an item that nobody put since have been put when it was."""
    area = "tenant" if items._who.user is None else f"user:{items._who.user}"
    where = "".join([name + AFTER_A_NAME for name in place])
    began, put = _moments(created, updated)
    items._write(lambda tx: tx.run(_ITEM, area=area, place=where, key=key, created=began, updated=put))


def _moments(created: datetime, updated: datetime) -> tuple[int, int]:
    began = clock.from_datetime(created, "created_at")
    return began, max(began, clock.from_datetime(updated, "updated_at"))
