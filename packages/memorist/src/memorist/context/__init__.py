"""The context of a model call: sections, token budget, prompt, and the report about them."""
