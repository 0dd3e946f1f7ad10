"""Kinds of memory, each in a separate module or folder.

KINDS lists them in the order in which an import can insert their rows.
"""

from retain.kinds.agents import Agents
from retain.kinds.checkpoints.checkpoints import Checkpoints
from retain.kinds.consolidations import Consolidations
from retain.kinds.entries import Entries
from retain.kinds.facts import Facts
from retain.kinds.graph import Graphs
from retain.kinds.interactions import Interactions
from retain.kinds.items import Items
from retain.kinds.kind import Kind
from retain.kinds.knowledge import Knowledge
from retain.kinds.messages.messages import Messages
from retain.kinds.notes import Notes
from retain.kinds.refs import Refs
from retain.kinds.sessions import Sessions
from retain.kinds.state import State
from retain.kinds.summaries import Summaries
from retain.kinds.turns import Turns

KINDS: tuple[type[Kind], ...] = (
    Agents,
    Sessions,
    Messages,
    Summaries,
    Notes,
    Facts,
    Entries,
    Consolidations,
    Refs,
    State,
    Items,
    Knowledge,
    Graphs,
    Interactions,
    Turns,
    Checkpoints,
)

SEARCHABLE_KINDS = tuple(kind.name for kind in KINDS if kind.findable)
"""The names of the kinds that can be searched."""
