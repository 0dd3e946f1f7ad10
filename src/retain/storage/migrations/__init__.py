"""The migrations of the schema, each with an up and a down part.

A migration is a file NNNN_name.sql, or a pair NNNN_name.sqlite.sql and NNNN_name.postgres.sql.
"""
