"""Benchmarks: memorist compared with bare database drivers and with other libraries.

Both sides of a ratio are measured in the same run. `python -m bench --help` lists the benchmarks;
docs/internals/performance.md shows and explains the results.
"""
