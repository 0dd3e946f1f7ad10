"""Messages of frameworks as messages of memorist, and back.

The format of LangChain is in `memorist.content.formats`: the import of SQL tables needs it too.
"""
