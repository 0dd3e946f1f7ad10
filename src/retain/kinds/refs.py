"""References: big outputs out of the prompt, behind a placeholder, and opened again part by part."""

from __future__ import annotations

from retain.kinds.kind import Kind, Table


class Refs(Kind):
    """The references of the scope: its user's, and those that are no user's."""

    name = "refs"
    tables = (
        Table("blobs", order="user_id, digest", owned="user_id = :user"),
        Table("blob_parts", order="user_id, digest, part", owned="user_id = :user"),
        Table("refs", order="key", owned="user_id = :user"),
    )
