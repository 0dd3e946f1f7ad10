"""Benchmarks that compare retain with its own drivers and with alternatives, as ratios of one run.

One file per question; `python -m bench --help` lists them, and docs/internals/performance.md explains and shows the tables.
"""
