"""The cookie of a browser that signed in, and the CSRF token that a change needs besides.

A browser sends a cookie with requests of any site, so a cookie alone proves little:

- It counts only if the browser says that our own page made the request.
- A change also needs a token that only our page knows (`X-Retain-CSRF`).
- Over https its name begins with `__Host-`, which no other host can set. Without https it counts
  only on this machine.
- Its name has the port of the URL: cookies belong to a host, and two servers on one machine would
  sign each other out.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from starlette.responses import Response
from starlette.types import Scope

from retain.auth.local import is_loopback
from retain.base.errors import Forbidden

CSRF = b"x-retain-csrf"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
_LABEL = b"retain: a change from the page"
_OURS = (b"same-origin", b"none")
_NO_COOKIE = "/mcp"  # for programs, each with its own key
_MAX_BYTES = 2048


def token_of(scope: Scope) -> str | None:
    """Return the token in the cookie of a request; None without a cookie that counts."""
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
    host_name = host.decode("latin-1")
    tokens = _values(cookies, name_of(host_name, secure=True))
    if not tokens and is_here(host_name):
        tokens = _values(cookies, name_of(host_name, secure=False))
    return tokens.pop() if len(tokens) == 1 else None


def name_of(host: str, *, secure: bool) -> str:
    """Return the name of the cookie for a host as the browser names it."""
    port = host.rpartition(":")[2]
    return ("__Host-retain" if secure else "retain") + (
        f"-{port}" if port.isdigit() and ":" in host else ""
    )


def is_here(host: str) -> bool:
    """Return whether a host name means the browser's own machine."""
    name, _, port = host.lower().rpartition(":")
    return is_loopback(name if port.isdigit() and name else host.lower())


def csrf_of(token: str) -> str:
    """Return the CSRF token of a sign-in. The sign-in's own token cannot be derived from it."""
    return hmac.new(token.encode(), _LABEL, hashlib.sha256).hexdigest()


def check_csrf(scope: Scope, token: str) -> None:
    """Raise Forbidden for a change without the right CSRF token."""
    if scope["method"] in SAFE:
        return
    sent = [value for name, value in scope["headers"] if name == CSRF]
    if len(sent) != 1 or not hmac.compare_digest(sent[0], csrf_of(token).encode()):
        problem = "the CSRF token is missing or wrong; send the header X-Retain-CSRF with the token from /api/web, or reload the page"
        raise Forbidden(problem=problem)


def set_cookie(
    response: Response, host: str, token: str, *, secure: bool, seconds: float | None
) -> None:
    """Set the cookie in a response.

    seconds: its lifetime; None until the browser is closed, 0 deletes it
    """
    response.set_cookie(
        name_of(host, secure=secure),
        token,
        max_age=None if seconds is None else int(seconds),
        secure=secure,
        httponly=True,
        samesite="strict",
    )


def _values(cookies: Iterable[bytes], name: str) -> set[str]:
    """Return the values of a cookie. The caller ignores a cookie with two values: it was forged."""
    pairs = (pair.strip().partition(b"=") for line in cookies for pair in line.split(b";"))
    wanted = name.encode()
    return {
        value.decode("latin-1")
        for cookie_name, _, value in pairs
        if cookie_name == wanted and 0 < len(value) <= _MAX_BYTES
    }
