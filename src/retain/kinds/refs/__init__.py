"""References: large contents stored outside of the prompt."""

from retain.kinds.refs.reference import FRAGMENT, Output, Ref
from retain.kinds.refs.refs import MAX_LISTED, Prepared, Refs

__all__ = ["FRAGMENT", "MAX_LISTED", "Output", "Prepared", "Ref", "Refs"]
