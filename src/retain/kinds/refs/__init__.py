"""References: large contents kept out of the prompt."""
