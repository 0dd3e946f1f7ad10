"""Fixed limits: sizes, counts and times that protect the process.

They are not settings. Code reads them as `limits.MAX_PAGE`, so that a test can set a smaller value.
"""

from __future__ import annotations

# -- the size of one record ------------------------------------------------------------

MAX_MESSAGE_BYTES = 1 << 20
"""The content of one message, as JSON."""
MAX_STATE_BYTES = 1 << 20
"""The value of one state key, as JSON."""
MAX_ITEM_BYTES = 4 << 20
"""The value of one item, as JSON."""
MAX_ATTRIBUTES_BYTES = 64 << 10
"""The attributes, parameters or prompt of one record."""
MAX_NOTES_BYTES = 256 << 10
"""One notes document."""
MAX_DOCUMENT_BYTES = 64 << 20
"""One document, as a file and as text."""
MAX_REF_BYTES = 1 << 30
"""The content of one reference."""
REF_TOKENS = 500
"""Tool outputs above this many tokens become references."""
SHORT_TOKENS = 250
"""A user message or a tool call above `REF_TOKENS` is shortened to this in later prompts."""
REF_FILE_BYTES = 256 << 10
"""References above this size are stored in files, if there is a folder for them."""

MAX_BODY_BYTES = 8 << 20
"""A request body, except uploads of references and documents."""

# -- one call --------------------------------------------------------------------------

MAX_BATCH = 1000
"""Records in one call that writes several."""
MAX_PAGE = 1000
"""Records in one page of a list."""

# -- models ----------------------------------------------------------------------------

MODEL_RETRIES = 2
"""Retries of one failed call."""
MODEL_PAUSE_SECONDS = 30.0
"""Pause before the next call of a service that failed five times in a row."""
SUMMARY_TOKENS = 800
"""The longest summary."""
SUMMARY_INPUT_TOKENS = 12_000
"""Input of one summary call; a longer session is summarized in several."""
QUERY_VECTOR_SECONDS = 3.0
"""The longest wait of a search for the vector of its query; then it uses keywords alone."""
VECTOR_MEMORY_MIB = 512
"""Memory for vectors; the least recently searched are dropped. A million static vectors take
260 MiB."""

# -- chat ------------------------------------------------------------------------------

CHAT_SECONDS = 300.0
"""One chat turn, with all its tool calls; or `CHAT_MODEL_CALLS` calls of a model, if that is longer."""
CHAT_MODEL_CALLS = 5
"""Calls of `model_seconds` each for which a chat turn has time."""
CHAT_ROUNDS = 8
"""Rounds of tool calls in one turn."""
TOOL_SECONDS = 60.0
"""One call of a tool that is not a memory tool; also the start of an MCP server."""
CHAT_TOKENS = 2000
"""Tokens of one answer."""
MAX_RUNNING_TURNS = 32
"""Chat turns that one server process runs or queues at a time; the next get 503."""

# -- the server ------------------------------------------------------------------------

MAX_IN_FLIGHT = 256
"""Requests that one process handles at a time; the next get 503."""
REQUEST_SECONDS = 30.0
"""The longest time for a request to arrive."""
DRAIN_SECONDS = 5.0
"""How long a server behind a proxy keeps accepting requests after SIGTERM, while `/readyz` fails."""
STOP_SECONDS = 10.0
"""The longest time that a stopping server lets running requests finish."""
JOB_INTERVAL_SECONDS = 5.0
"""The pause between two rounds of background jobs in the server."""
