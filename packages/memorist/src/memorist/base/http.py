"""Every outgoing request: one place for its address checks, its limits and its certificates.

`send` and `exchange` make one request on a connection of its own. The host is resolved once, every
address is checked, and the connection goes to a checked address: a name that resolves to another
address a moment later does not help. Redirects are not followed and proxies are not used.

`client` and `async_client` are for libraries and long-lived connections to addresses from the
settings.
"""

from __future__ import annotations

import functools
import ipaddress
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from memorist.base.deadline import run_in_thread
from memorist.base.errors import Invalid, TooLarge

if TYPE_CHECKING:
    import ssl

    import httpx2

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


@dataclass(frozen=True)
class OutgoingRequest:
    """A request to one address."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""
    max_response_bytes: int = 0
    """How much of the response's body is read, and one byte more if there is more; 0: nothing."""
    allow_private: bool = False
    """Whether the address may be in a private network, because an administrator has set it."""


@dataclass(frozen=True)
class Response:
    """A response; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


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


def send(request: OutgoingRequest, seconds: float) -> Response:
    """Send a request and return its response within `seconds`; raise RequestFailed otherwise."""
    try:
        return run_in_thread(exchange(request), seconds, "memorist-http")
    except TimeoutError:
        raise RequestFailed(f"there was no response within {seconds:g} s") from None


async def exchange(request: OutgoingRequest) -> Response:
    """Send a request and return its response; raise RequestFailed.

    The resolution of the name blocks the event loop: call it in a thread of its own, with a
    deadline, as `send` does.
    """
    import httpx2

    addresses = _addresses(urlsplit(request.url), request.allow_private)
    headers = {"Accept-Encoding": "identity", **request.headers}
    try:
        outgoing = httpx2.Request(
            request.method, request.url, headers=headers, content=request.body or None
        )
        host = outgoing.url.raw_host.decode()
        outgoing.extensions["sni_hostname"] = host.strip("[]")
        transport = httpx2.AsyncHTTPTransport(verify=trusted_certificates())
        async with transport:
            response = await _first_response(transport, outgoing, addresses)
            try:
                body = await _read(response, request.max_response_bytes)
            finally:
                await response.aclose()
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise RequestFailed(f"the connection failed ({_reason(error)})") from None
    return Response(response.status_code, dict(response.headers), body)


async def _first_response(
    transport: httpx2.AsyncHTTPTransport, request: httpx2.Request, addresses: list[tuple[str, int]]
) -> httpx2.Response:
    """Send a request to the first of the addresses that accepts a connection."""
    import httpx2

    for address, port in addresses:
        # The header `Host` is set already and keeps the name of the host.
        request.url = request.url.copy_with(host=address, port=port)
        try:
            return await transport.handle_async_request(request)
        except httpx2.ConnectError:
            if (address, port) == addresses[-1]:
                raise
    raise RequestFailed("the host has no address")


async def _read(response: httpx2.Response, max_bytes: int) -> bytes:
    body = bytearray()
    if max_bytes:
        async for part in response.aiter_raw():
            body += part
            if len(body) > max_bytes:
                break
    return bytes(body[: max_bytes + 1])


def _reason(error: Exception) -> str:
    """Return a short reason without the address: why a certificate is invalid, or a class name."""
    reason = type(error).__name__
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError):  # the error of the operating system says most
            reason = getattr(cause, "verify_message", "") or type(cause).__name__
        cause = cause.__cause__ or cause.__context__
    return reason


def client(**options: Any) -> httpx2.Client:
    """Return a client of httpx2 that follows no redirects, for an address from the settings."""
    import httpx2

    return httpx2.Client(follow_redirects=False, verify=trusted_certificates(), **options)


def async_client(**options: Any) -> httpx2.AsyncClient:
    """Return the same as `client` for asyncio, without a time limit unless one is given."""
    import httpx2

    options = {"timeout": None, **options}
    return httpx2.AsyncClient(follow_redirects=False, verify=trusted_certificates(), **options)


def retry_after(value: str | None, default: float = 0.0) -> float:
    """Return the seconds of a Retry-After header: a number or a date."""
    from email.utils import parsedate_to_datetime

    text = (value or "").strip()
    with suppress(ValueError, TypeError, OverflowError):
        if text.isdigit():
            return float(text)
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return default


def _addresses(parts: SplitResult, allow_private: bool) -> list[tuple[str, int]]:
    """Return the addresses and ports of a host, all public unless private ones are allowed."""
    try:
        results = socket.getaddrinfo(
            parts.hostname, parts.port or parts.scheme, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError):
        raise RequestFailed("the host cannot be resolved") from None
    addresses = [(str(result[4][0]), int(result[4][1])) for result in results]
    if not allow_private and not all(is_public(address) for address, _ in addresses):
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


@functools.cache
def trusted_certificates() -> ssl.SSLContext:
    """Return the trusted certificates; cached, because loading them is slow."""
    import httpx2

    return httpx2.create_ssl_context()
