"""Items: JSON documents under a namespace and a key."""

from retain.kinds.items.item import Drop, Match, Place, PlacedItem, Put
from retain.kinds.items.items import Items

__all__ = ["Drop", "Items", "Match", "Place", "PlacedItem", "Put"]
