"""Messages of a session."""
