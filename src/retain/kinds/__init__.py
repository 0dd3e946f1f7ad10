"""What is remembered: one file for each kind. The order here is the order in which an import can insert them."""

from retain.kinds.agents import Agents
from retain.kinds.interactions import Interactions
from retain.kinds.kind import Kind
from retain.kinds.messages import Messages
from retain.kinds.sessions import Sessions
from retain.kinds.state import State

KINDS: tuple[type[Kind], ...] = (Agents, Sessions, Messages, State, Interactions)
