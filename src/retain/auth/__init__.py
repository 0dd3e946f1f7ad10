"""Authentication and audit: principals, API keys, JWT, browser sessions, the audit log, idempotency keys."""
