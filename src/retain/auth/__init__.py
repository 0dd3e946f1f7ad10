"""Who may do what, and what was done: keys, their permissions, the audit log, answers that are given only once."""
