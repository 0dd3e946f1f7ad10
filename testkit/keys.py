"""API keys for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memorist import Memory
from memorist.admin.api_keys import ApiKey


def create_key(
    memory: Memory, tenant: str, name: str, permissions: Iterable[str], **options: Any
) -> tuple[ApiKey, str]:
    """Add a key of a tenant, and return it with its text."""
    keys = memory.scope(tenant=tenant).admin.keys
    key = keys.add(name, permissions=list(permissions), **options)
    return key, key.key
