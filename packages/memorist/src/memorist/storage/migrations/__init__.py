"""The migrations of the schema, each with an up and a down part.

A migration is a file NNNN_name.sql. What one engine has in addition, or in another form, stands in
NNNN_name.ENGINE.sql: its up part runs after the shared one, its down part before it.
"""
