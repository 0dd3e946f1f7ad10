"""Access without a key: only from this machine, to a database that is a file on it."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from memorist.base.errors import SettingsError
from memorist.base.settings import Settings
from memorist.storage.connect import embedded


def allows_requests_without_key(settings: Settings) -> bool:
    """Return whether the server may answer requests without a key while no key exists."""
    return (
        settings.auth == "auto"
        and embedded(settings)
        and is_loopback(settings.host)
        and not settings.jwt_issuer
    )


def check_host(settings: Settings, *, keys_exist: bool) -> None:
    """Raise SettingsError if other machines could reach a server without keys.

    With `auth: keys` they may, because it rejects all requests until a key is created.
    """
    if keys_exist or is_loopback(settings.host):
        return
    if settings.auth == "keys" or settings.jwt_issuer:
        return
    problem = (
        f"is {settings.host}, which other machines can reach, and there is no key yet: create one "
        "with `memorist keys add NAME --permissions read,write,delete,admin`, or listen on "
        "127.0.0.1"
    )
    raise SettingsError(where="host", problem=problem)


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
