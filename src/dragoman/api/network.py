"""ASGI middleware for a server that others can reach: the path that a proxy serves it under, Host headers, other origins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.api import errors
from dragoman.errors import DragomanError, Forbidden, InvalidRequest, UnknownHost
from dragoman.service.accounts import is_loopback

_CORS_METHODS = ("GET", "POST")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_EXPOSED_HEADERS = ("X-Request-ID", "Retry-After", "X-Trace-ID")
_PREFLIGHT_MAX_AGE_S = 20 * 86_400  # LibreTranslate's; browsers cap it at 2 h or 24 h


def comma_separated(value: str) -> list[str]:
    """The entries of a setting that is a list."""
    return [entry.strip() for entry in value.split(",") if entry.strip()]


class RootPath:
    """Takes the path under which a proxy serves this server off the paths of requests, where the proxy has left it."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self.app = app
        self._prefix = "/" + root_path.strip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            if path == self._prefix or path.startswith(f"{self._prefix}/"):
                scope = {**scope, "path": path[len(self._prefix) :] or "/"}
        await self.app(scope, receive, send)


class TranslationCors:
    """Cross-origin requests from web pages, to the translation APIs alone: other paths get no CORS headers."""

    def __init__(self, app: ASGIApp, origins: Sequence[str], paths: Sequence[re.Pattern[str]]) -> None:
        self.app = app
        self._paths = paths
        self._cors = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_methods=_CORS_METHODS,
            allow_headers=("*",),  # whatever a page asks for: Authorization, X-Request-Timeout, X-Target-Language
            expose_headers=_EXPOSED_HEADERS,
            max_age=_PREFLIGHT_MAX_AGE_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        applies = scope["type"] == "http" and any(name == b"origin" for name, _ in scope["headers"])
        if applies and any(pattern.match(scope["path"]) for pattern in self._paths):
            await self._cors(scope, receive, send)
        else:
            await self.app(scope, receive, send)


class BrowserCheck:
    """Refuses what a browser sends for a web page that is not this server's, and Host headers that mislead.

    - Two Host headers: a proxy may have gone by the one, and this server by the other.
    - A Host header that is not one of the server's names. A page can have its own name resolve to 127.0.0.1 (DNS
      rebinding), and its scripts would then be of the same origin as a server there; but the browser sends the page's name.
    - Changes by pages of other origins, on paths that are not `open_to_origins`. Browsers send forms without asking first.
    """

    def __init__(
        self, app: ASGIApp, is_allowed: Callable[[str], bool], open_to_origins: Sequence[re.Pattern[str]] = ()
    ) -> None:
        self.app = app
        self._is_allowed = is_allowed
        self._open_to_origins = open_to_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._fault(scope) if scope["type"] == "http" else None
        if fault is not None:
            await errors.response(fault, scope)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _fault(self, scope: Scope) -> DragomanError | None:
        headers = Headers(scope=scope)
        hosts, origin = headers.getlist("host"), headers.get("origin")
        if len(hosts) > 1:
            return InvalidRequest("a request has one Host header")
        host = hosts[0] if hosts else None
        if host is not None and not self._is_allowed(_without_port(host)):  # browsers always send one
            return UnknownHost(f"this server does not answer to the name {host[:100]!r} (server.allowed_hosts)")
        if origin is None or scope["method"] in _SAFE_METHODS or origin.partition("://")[2] == host:
            return None
        if any(pattern.match(scope["path"]) for pattern in self._open_to_origins):
            return None
        return Forbidden("web pages of other origins may not do this")


def _without_port(host: str) -> str:
    name = re.sub(r":\d*$", "", host) if not host.endswith("]") else host
    return name.strip("[]").rstrip(".").lower()


def host_rule(allowed: str, listens_on: str, *, behind_proxy: bool = False) -> Callable[[str], bool]:
    """Which names a server answers to: those that are `allowed`; by default, on a loopback address, that machine's own."""
    names = [name.lower() for name in comma_separated(allowed)]
    exact = {name for name in names if not name.startswith("*.")}
    suffixes = tuple(name[1:] for name in names if name.startswith("*."))
    if "*" in exact or (not names and (behind_proxy or not is_loopback(listens_on))):
        return lambda _: True
    if names:
        return lambda name: name in exact or name.endswith(suffixes)
    return lambda name: is_loopback(name) or name.endswith(".localhost")
