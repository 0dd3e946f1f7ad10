"""Give imported sessions and items the times that they had elsewhere. Only imports use this."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from retain.base import clock
from retain.kinds.items import Items
from retain.kinds.items.item import area_of, item_index_id, item_rows, join_names, searchable_texts
from retain.kinds.sessions import Sessions
from retain.storage.database import Transaction


def backdate_session(sessions: Sessions, id: str, created: datetime, updated: datetime) -> None:
    """Set when a session was created and last used."""
    created_at = clock.from_datetime(created, "created_at")
    updated_at = max(created_at, clock.from_datetime(updated, "updated_at"))
    sessions._write(
        "edit",
        lambda tx: tx.run(
            """update sessions set created_at = :created, touched_at = :updated
               where tenant = :tenant and id = :id and user_id = :user""",
            id=id,
            user=sessions._owner.user,
            created=created_at,
            updated=updated_at,
        ),
        row={"id": id},
    )


def deactivate_session(sessions: Sessions, id: str) -> None:
    """Make a session no longer the active one."""
    sessions._write(
        "edit",
        lambda tx: tx.run(
            """delete from active_sessions
               where tenant = :tenant and user_id = :user and agent = :agent
               and active_session_id = :id""",
            user=sessions._owner.user,
            agent=sessions._owner.agent,
            id=id,
        ),
        row={"id": id},
    )


def backdate_item(
    items: Items,
    namespace: Sequence[str],
    key: str,
    created: datetime,
    updated: datetime,
    *,
    expires: datetime | None = None,
) -> None:
    """Set the times of an item, in the index too, unless it was changed since."""
    area = area_of(items._owner.user)
    place = join_names(namespace)
    created_at = clock.from_datetime(created, "created_at")
    updated_at = max(created_at, clock.from_datetime(updated, "updated_at"))

    def work(tx: Transaction) -> None:
        row = tx.one(
            """update items set created_at = :created, updated_at = :updated,
                   expires_at = coalesce(:expires, expires_at)
               where tenant = :tenant and area = :area and place = :place and key = :key
               and version = 1
               returning fields, value, expires_at""",
            area=area,
            place=place,
            key=key,
            created=created_at,
            updated=updated_at,
            expires=None if expires is None else clock.from_datetime(expires, "expires_at"),
        )
        if row is None:
            return
        fields, value, expires_at = row
        texts = searchable_texts(json.loads(value), fields and json.loads(fields))
        rows = item_rows(area, place, key, texts, updated_at, expires_at)
        items._services.index.replace(tx, items.name, item_index_id(area, place, key), rows)

    items._write("edit", work, row={"area": area, "place": place, "key": key})
