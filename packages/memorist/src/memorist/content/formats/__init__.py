"""The message format of LangChain, converted to memorist's messages and back without loss.

The import of SQL tables needs it. Those of other frameworks are in the package memorist-frameworks.
Each module has `to_message` and `from_message`. None of them imports the framework.
"""
