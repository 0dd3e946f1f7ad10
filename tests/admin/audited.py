"""Audit records and rendered responses."""

from __future__ import annotations

import json
from typing import Any

from memorist import Memory
from memorist.admin.audit_log import AuditRecord
from memorist.admin.stored_responses import StoredResponse
from memorist.api.rendering import as_json


def render(found: Any) -> StoredResponse:
    """Render a result as an adapter would."""
    return StoredResponse(200, json.dumps(as_json(found)), getattr(found, "version", None))


def records(memory: Memory) -> list[AuditRecord]:
    """Return the audit log, oldest first."""
    return memory.scope(tenant="acme").admin.audit.list().items[::-1]
