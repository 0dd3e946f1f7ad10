"""The schema's steps: NNNN_name.sql, or a pair NNNN_name.sqlite.sql and NNNN_name.postgres.sql, each up and down."""
