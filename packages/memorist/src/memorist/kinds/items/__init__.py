"""Items: JSON documents under a namespace and a key."""

from memorist.kinds.items.item import Drop, Match, Place, PlacedItem, Put
from memorist.kinds.items.items import Items, fields_of

__all__ = ["Drop", "Items", "Match", "Place", "PlacedItem", "Put", "fields_of"]
