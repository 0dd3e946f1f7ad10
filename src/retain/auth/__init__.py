"""Authentication and audit: principals, credentials, the audit log, idempotency keys."""
