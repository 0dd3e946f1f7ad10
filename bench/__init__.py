"""Benchmarks: retain beside what it stands on and beside what a user would pick instead, as ratios measured in one run.

One file per question; `python -m bench --help` lists them, and docs/internals/performance.md explains and shows the tables.
"""
