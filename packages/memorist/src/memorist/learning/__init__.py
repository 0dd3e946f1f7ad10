"""Learning: read facts from conversations, and decide what they mean for the facts that are known."""
