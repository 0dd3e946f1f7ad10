"""References: large contents stored outside of the prompt."""

from memorist.kinds.refs.reference import FRAGMENT, Output, Ref
from memorist.kinds.refs.refs import MAX_LISTED, NewReference, Prepared, Refs

__all__ = ["FRAGMENT", "MAX_LISTED", "NewReference", "Output", "Prepared", "Ref", "Refs"]
