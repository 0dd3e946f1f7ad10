"""Access without a key: only from this machine, to a database that is a file on it."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from retain.base.settings import Settings
from retain.storage.connect import embedded


def allows_requests_without_key(settings: Settings) -> bool:
    """Return whether the server may answer requests without a key while no key exists."""
    return (
        settings.auth == "auto"
        and embedded(settings)
        and is_loopback(settings.host)
        and not settings.jwt_issuer
    )


@lru_cache(1024)
def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this machine."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
