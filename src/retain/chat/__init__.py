"""An agent that uses it all: one turn of a conversation, with memory, a model and tools."""
