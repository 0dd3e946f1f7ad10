"""Message formats of other frameworks, converted to retain's messages and back without loss.

Each module has `to_message` and `from_message`. None of them imports the framework.
"""
