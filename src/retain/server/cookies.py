"""The cookie of a browser that signed in: for which requests it counts, and what a change must have besides.

A browser sends a cookie whoever made it ask, so that a cookie alone proves little: it counts where the browser says that it
was our own page that asked, and for a change that page must also say a word that only it can know (`X-Retain-CSRF`). Over
https its name begins with `__Host-`, which no other host can set; without, it counts on this machine alone. Where the
address has a port the name has it too: cookies are a host's, and two servers on one machine would sign each other out.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

from starlette.types import Scope

from retain.auth.local import is_loopback
from retain.base.errors import Forbidden

CSRF = b"x-retain-csrf"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_LABEL = b"retain: a change from the page"
_OURS = (b"same-origin", b"none")
_NO_COOKIE = "/mcp"  # programs come here, each with a key of its own
_MOST_BYTES = 2048


def token_of(scope: Scope) -> str | None:
    """The sign-in's text in the cookie of a request, None where there is none or it does not count."""
    headers: dict[bytes, bytes] = {}
    cookies: list[bytes] = []
    for name, value in scope["headers"]:
        headers[name] = value
        if name == b"cookie":
            cookies.append(value)
    if (
        not cookies
        or scope["path"].startswith(_NO_COOKIE)
        or headers.get(b"sec-fetch-site", b"none") not in _OURS
    ):
        return None
    host = headers.get(b"host", b"")
    if headers.get(b"origin", b"http://" + host) not in (b"http://" + host, b"https://" + host):
        return None
    called = host.decode("latin-1")
    found = _values(cookies, name_of(called, secure=True))
    if not found and is_here(called):
        found = _values(cookies, name_of(called, secure=False))
    return found.pop() if len(found) == 1 else None


def name_of(host: str, *, secure: bool) -> str:
    """What the cookie of a server is called, by the name that a browser calls it."""
    port = host.rpartition(":")[2]
    return ("__Host-retain" if secure else "retain") + (
        f"-{port}" if port.isdigit() and ":" in host else ""
    )


def is_here(host: str) -> bool:
    """Whether a server is called by a name that means the browser's own machine."""
    name, _, port = host.lower().rpartition(":")
    return is_loopback(name if port.isdigit() and name else host.lower())


def csrf_of(token: str) -> str:
    """The word that the page of a sign-in says with each change; the token cannot be found from it."""
    return hmac.new(token.encode(), _LABEL, hashlib.sha256).hexdigest()


def check_csrf(scope: Scope, token: str) -> None:
    """Go on only with a request that changes nothing, or that the page itself made."""
    if scope["method"] in SAFE:
        return
    said = [value for name, value in scope["headers"] if name == CSRF]
    if len(said) != 1 or not hmac.compare_digest(said[0], csrf_of(token).encode()):
        problem = "a change by a browser that is signed in needs the header X-Retain-CSRF as /api/web gave it; load the page again"
        raise Forbidden(problem=problem)


def set_cookie(host: str, token: str, *, secure: bool, seconds: float | None) -> tuple[str, str]:
    """The header that gives a browser its cookie, as long as it is open or for so many seconds; 0 takes it away."""
    parts: list[Any] = [
        f"{name_of(host, secure=secure)}={token}",
        "Path=/",
        "HttpOnly",
        "SameSite=Strict",
    ]
    parts += ["Secure"] if secure else []
    parts += [] if seconds is None else [f"Max-Age={int(seconds)}"]
    return "Set-Cookie", "; ".join(parts)


def _values(cookies: Iterable[bytes], name: str) -> set[str]:
    """What cookies of one name say; one that is there with two values is somebody else's doing, and counts for nothing."""
    pairs = (pair.strip().partition(b"=") for line in cookies for pair in line.split(b";"))
    wanted = name.encode()
    return {
        value.decode("latin-1")
        for given, _, value in pairs
        if given == wanted and 0 < len(value) <= _MOST_BYTES
    }
