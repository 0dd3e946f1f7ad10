"""Who comes in without a key: whoever sits at the machine of a database that is a file of theirs, and nobody else."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from retain.base.settings import Settings
from retain.storage.connect import embedded


def may_be_open(settings: Settings) -> bool:
    """Whether the settings let somebody in without a key at all: on this machine alone, to a file of theirs."""
    return (
        settings.auth == "auto"
        and embedded(settings)
        and loopback(settings.host)
        and not settings.jwt_issuer
    )


@lru_cache(1024)
def loopback(host: str) -> bool:
    """Whether an address is this machine's own, which no other can reach."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
