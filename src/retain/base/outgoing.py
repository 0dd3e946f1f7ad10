"""Send requests to addresses that users choose, without reaching the server's own network.

The host is resolved once, every address is checked, and the connection goes to a checked address. So
a name that resolves to another address a moment later does not help. Redirects are not followed,
proxies are not used, and the body of the response is not read.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from retain.base.errors import Invalid, TooLarge

if TYPE_CHECKING:
    import http.client
    import ssl

SECONDS = 10.0
"""The time limit of a request, from the resolution of the name to the status of the response."""
NO_RESPONSE = "there was no response within {:g} s"
MAX_URL_LENGTH = 2000
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
METADATA_ADDRESSES = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Services of cloud providers for their machines that have a public address."""
IPV4_NETWORKS = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("64:ff9b::/96"))
"""Their addresses contain an IPv4 address in their last 32 bits."""
PRIVATE_NETWORKS = (
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("64:ff9b:1::/48"),  # local NAT64
    ipaddress.ip_network("fec0::/10"),  # site-local
    ipaddress.ip_network("::ffff:0:0:0/96"),  # IPv4 addresses, translated
)
"""Networks that `is_global` takes for public ones in some versions of Python."""


class RequestFailed(Exception):
    """A request failed; the text says why, without the address."""


def check_url(url: str) -> str:
    """Return a URL that requests can be sent to; raise Invalid otherwise."""
    if len(url) > MAX_URL_LENGTH:
        raise TooLarge(field="url", size=len(url), unit="characters", limit=MAX_URL_LENGTH)
    problem = ""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a port
        if parts.scheme not in ("http", "https") or not parts.hostname:
            problem = "must be a URL such as https://example.org/hooks"
        elif parts.username is not None or parts.password is not None:
            problem = "must not contain a user name or a password"
        elif parts.fragment:
            problem = "must not contain a fragment (#…)"
    except ValueError:
        problem = "must be a URL such as https://example.org/hooks"
    if not problem and not (url.isascii() and url.isprintable() and " " not in url):
        problem = "must consist of printable ASCII characters; encode others as %XX"
    if problem:
        raise Invalid(field="url", problem=problem)
    return url


def check_target(url: str, *, allow_private: bool) -> None:
    """Raise RequestFailed if the host cannot be resolved, or is in a private network."""
    _addresses(urlsplit(url), allow_private)


def post(url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool) -> int:
    """Send a request and return the status of its response.

    It runs in a thread of its own, because the resolution of a name has no time limit.
    """
    exchange = _Exchange(url, body, headers, allow_private)
    thread = threading.Thread(target=exchange.run, name="retain-post", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if exchange.status is not None:
        return exchange.status
    problem = exchange.problem or NO_RESPONSE.format(SECONDS)
    exchange.stop()
    raise RequestFailed(problem)


class _Exchange:
    """One request and its response."""

    def __init__(
        self, url: str, body: bytes, headers: Mapping[str, str], allow_private: bool
    ) -> None:
        self._parts = urlsplit(url)
        self._body = body
        self._headers = headers
        self._allow_private = allow_private
        self._deadline = time.monotonic() + SECONDS
        self._connection: http.client.HTTPConnection | None = None
        self.status: int | None = None
        self.problem = ""

    def run(self) -> None:
        """Send the request and read the status of the response."""
        import http.client

        parts = self._parts
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            addresses = _addresses(parts, self._allow_private)
            self._connection = _connection(parts, addresses, self._deadline)
            self._connection.request("POST", path, self._body, dict(self._headers))
            self.status = self._connection.getresponse().status
        except RequestFailed as error:
            self.problem = str(error)
        except TimeoutError:
            self.problem = NO_RESPONSE.format(SECONDS)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "verify_message", "") or type(error).__name__
            self.problem = f"the connection failed ({reason})"
        finally:
            if self._connection is not None:
                self._connection.close()

    def stop(self) -> None:
        """End the request now if it still waits."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)


def _addresses(parts: SplitResult, allow_private: bool) -> list[str]:
    """Return the addresses of a host, all of which are public unless private ones are allowed."""
    try:
        results = socket.getaddrinfo(
            parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise RequestFailed("the host cannot be resolved") from None
    addresses = [str(result[4][0]) for result in results]
    if not allow_private and not all(is_public(address) for address in addresses):
        raise RequestFailed(
            "the host is in a private network; the setting `events: private` allows that"
        )
    return addresses


def is_public(address: str) -> bool:
    """Return whether an address is on the internet, and not on this machine or in its network."""
    parsed: Address = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.teredo:
            return False
        if any(parsed in network for network in IPV4_NETWORKS):
            parsed = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        else:
            parsed = parsed.ipv4_mapped or parsed.sixtofour or parsed
    if parsed in METADATA_ADDRESSES or any(parsed in network for network in PRIVATE_NETWORKS):
        return False
    return parsed.is_global and not parsed.is_multicast


def _connection(
    parts: SplitResult, addresses: Sequence[str], deadline: float
) -> http.client.HTTPConnection:
    """Return an open connection to the first address of a host that accepts one."""
    import http.client

    host = parts.hostname or ""
    is_encrypted = parts.scheme == "https"
    port = parts.port or (443 if is_encrypted else 80)
    opened = _open(addresses, port, deadline)
    connection: http.client.HTTPConnection
    # With a port, http.client takes the host as it is, and puts an IPv6 address into brackets.
    try:
        if is_encrypted:
            opened = trusted_certificates().wrap_socket(opened, server_hostname=host)
            connection = http.client.HTTPSConnection(host, port)
        else:
            connection = http.client.HTTPConnection(host, port)
    except BaseException:  # an interruption must not leave the connection open
        opened.close()
        raise
    connection.sock = opened
    return connection


def _open(addresses: Sequence[str], port: int, deadline: float) -> socket.socket:
    for address in addresses:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            break
        try:
            return socket.create_connection((address, port), seconds)
        except OSError:
            if address == addresses[-1]:
                raise
    raise TimeoutError


@functools.cache
def trusted_certificates() -> ssl.SSLContext:
    """Return the trusted certificates; cached, because loading them is slow."""
    import ssl

    return ssl.create_default_context()
