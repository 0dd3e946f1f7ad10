"""Which route a request means, found by the parts of its address: a hundred patterns are not tried one after the other.

The address is looked at as it was sent: a name with a slash in it, sent as `%2F`, is one part, and can be mistaken for
nothing else. Where the slash was sent as it is, the framework's own patterns find the route a little later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

_NUMBER = ":int"
_MOST_DIGITS = 19


class _Pattern:
    """One address: which of its parts are as they are, which are names, and what each method leads to."""

    def __init__(self, path: str) -> None:
        self.words: list[tuple[int, bytes]] = []
        self.names: list[tuple[int, str, Callable[[bytes], Any]]] = []
        self.numbers: list[int] = []
        self.routes: dict[str, APIRoute] = {}
        for place, part in enumerate(path.split("/")):
            if not part.startswith("{"):
                self.words.append((place, part.encode()))
                continue
            name = part.strip("{}").partition(":")[0]
            self.names.append((place, name, int if part.endswith(_NUMBER + "}") else _decoded))
            if part.endswith(_NUMBER + "}"):
                self.numbers.append(place)

    def fits(self, parts: list[bytes]) -> bool:
        """Whether an address is of this pattern."""
        for place, word in self.words:
            if parts[place] != word:
                return False
        return all(
            parts[place].isdigit() and len(parts[place]) <= _MOST_DIGITS for place in self.numbers
        )


class Index(BaseRoute):
    """Every route that was added to it, by the number of parts of its address and by the third of them."""

    def __init__(self) -> None:
        self._patterns: dict[tuple[int, bytes], list[_Pattern]] = {}
        self._by_path: dict[str, _Pattern] = {}

    def add(self, route: APIRoute) -> None:
        """Find this route from now on; those that say more than others are to be added before them."""
        pattern = self._by_path.get(route.path)
        if pattern is None:
            pattern = self._by_path[route.path] = _Pattern(route.path)
            parts = route.path.split("/")
            self._patterns.setdefault((len(parts), parts[2].encode()), []).append(pattern)
        pattern.routes |= dict.fromkeys(route.methods or (), route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The route of a request, as the framework asks for it."""
        raw = scope.get("raw_path")
        if raw is None or scope["type"] != "http" or scope.get("root_path"):
            return Match.NONE, {}
        parts = raw.split(b"/")
        if len(parts) < 3 or parts[1] != b"api":
            return Match.NONE, {}
        allowed: set[str] = set()
        for pattern in self._patterns.get((len(parts), parts[2]), ()):
            if pattern.fits(parts):
                route = pattern.routes.get(scope["method"])
                if route is not None:
                    named = {name: read(parts[place]) for place, name, read in pattern.names}
                    return Match.FULL, {
                        "endpoint": route.endpoint,
                        "path_params": named,
                        "route": route,
                    }
                allowed |= pattern.routes.keys()
        return (Match.FULL, {"allowed": allowed}) if allowed else (Match.NONE, {})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Do what the route that was found does."""
        if allowed := scope.get("allowed"):
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(allowed))})
        await scope["route"].app(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        """Not from here: the routes themselves know."""
        raise NoMatchFound(name, path_params)


class Straight:
    """The way from an address that the index knows to its operation, past layers that would add nothing but time.

    An operation answers by itself what a caller did wrong; only what nobody expects goes on to the layer around.
    """

    def __init__(self, app: ASGIApp, index: Index) -> None:
        self._app, self._index = app, index

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the framework do so."""
        try:
            _, found = self._index.matches(scope)
        except HTTPException:  # the framework finds the same, and knows how to say it
            found = {}
        if "route" not in found:
            await self._app(scope, receive, send)
            return
        scope.update(found)
        await found["route"].app(scope, receive, send)


def install(app: FastAPI) -> None:
    """Go straight to what the index of an app knows."""
    app.add_middleware(Straight, index=app.state.index)


def _decoded(part: bytes) -> str:
    """A part of an address as text."""
    try:
        return (unquote_to_bytes(part) if b"%" in part else part).decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "the address is not UTF-8 text") from None
