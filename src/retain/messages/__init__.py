"""What is said: messages and their content, which calls and results belong together, and a conversation as text."""
