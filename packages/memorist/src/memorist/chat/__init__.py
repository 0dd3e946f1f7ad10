"""Chat with an agent: one turn of a conversation, with memory, a model and tools."""
