"""What is proved with a real language model: `make test-llm`."""
