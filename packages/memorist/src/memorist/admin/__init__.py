"""Administration: principals and credentials, keys, webhooks, users, the audit log, idempotency keys."""
