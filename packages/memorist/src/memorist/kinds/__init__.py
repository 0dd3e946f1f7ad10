"""Kinds of memory, each in a separate module or folder.

KINDS lists them in the order in which an import can insert their rows.
"""

from memorist.kinds.agents import Agents
from memorist.kinds.checkpoints import CheckpointTables
from memorist.kinds.consolidations import Consolidations
from memorist.kinds.documents import Documents
from memorist.kinds.entries import Entries
from memorist.kinds.facts import Facts
from memorist.kinds.graph import Graphs
from memorist.kinds.interactions import Interactions
from memorist.kinds.items import Items
from memorist.kinds.kind import Kind
from memorist.kinds.messages.messages import Messages
from memorist.kinds.notes import Notes
from memorist.kinds.refs import Refs
from memorist.kinds.sessions import Sessions
from memorist.kinds.state import State
from memorist.kinds.summaries import Summaries
from memorist.kinds.turns import Turns

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
    Documents,
    Graphs,
    Interactions,
    Turns,
    CheckpointTables,
)

SEARCHABLE_KINDS = tuple(kind.name for kind in KINDS if kind.findable)
"""The names of the kinds that can be searched."""
