"""Adapters of memorist for agent frameworks, one module for each, and the protocols of vendors.

Import the module of your framework: `from memorist_frameworks.langgraph import MemoristStore`. The
hooks of coding agents are in `coding_agents`.
"""
