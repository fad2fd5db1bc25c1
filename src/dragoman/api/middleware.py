"""What surrounds the routes, as ASGI middleware: the request log, CORS, what is refused before it is routed, and the path that
a proxy serves the server under.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from secrets import token_hex
from time import monotonic
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api import errors
from dragoman.errors import BodyTooLarge, DragomanError, Forbidden, InvalidRequest, Unavailable, UnknownHost
from dragoman.service.accounts import is_loopback
from dragoman.telemetry import requests
from dragoman.telemetry.logs import RequestLine
from dragoman.telemetry.requests import CANCELLED, FAILURES, RequestTrace
from dragoman.telemetry.tracing import Tracing

log = logging.getLogger("dragoman.request")  # the lines, and nothing else
api_logger = logging.getLogger("dragoman.api")

REQUEST_ID_HEADER = b"x-request-id"
_PLAIN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}").fullmatch
# Requested again and again by machines, or by browsers beside what was wanted: logged at level debug, never traced.
_QUIET_PATHS = frozenset(
    {"/", "/healthz", "/readyz", "/metrics", "/v1/stats", "/favicon.ico", "/engine", "/docs", "/openapi.json"}
)
_QUIET_FOLDER = "/web/"


def current_id() -> str:
    """The id of the request that this runs for; a new one outside of any."""
    request = requests.current.get()
    return request.request_id if request is not None else token_hex(8)


# ---- bodies

DRAIN_BYTES = 32 * 2**20
DRAIN_S = 5.0
SILENCE_S = 1.0
"""How much of a refused body is read, for how long, and for how long while nothing of it comes, so that a client that sends all
of it can read the answer."""

INCOMPLETE_BODIES = 32
SMALL_BODY_BYTES = 64 * 1024


@dataclass(slots=True)
class _Bodies:
    """Bodies of which a part is missing hold memory before their key is known: together as much as `INCOMPLETE_BODIES` of the
    largest. Beyond that those of over `SMALL_BODY_BYTES` are refused with 503. Uploads hold none: they go to disk."""

    max_bytes: int
    are_uploads: bool = False
    incomplete_bytes: int = 0  # of all that are being received

    def too_large(self, size: int) -> BodyTooLarge:
        return BodyTooLarge(f"the body has {size} bytes or more; this server accepts {self.max_bytes}")


@dataclass(slots=True, eq=False)
class _Exchange:
    """One request and its answer: counts the body's bytes, adds the id to the answer and notes its status.

    A client that sends its whole body before it reads would see a reset connection if the server closed it with data
    unread. So where the connection ends with this answer, what the client still sends is read and dropped, up to `DRAIN_BYTES`
    and for `DRAIN_S` at most, unless nothing comes for `SILENCE_S`. (uvicorn does that for a connection that is kept.)
    """

    request: RequestTrace
    bodies: _Bodies
    receive_message: Receive
    send_message: Send
    received_bytes: int = 0
    held_bytes: int = 0  # of a body of which a part is missing
    is_complete: bool = False  # or nothing is sent before it is asked for
    is_last: bool = False  # of its connection

    async def receive(self) -> Message:
        """The next message. Raises `BodyTooLarge`, and `Unavailable` where too much is held for incomplete bodies."""
        message = await self.receive_message()
        self.received_bytes += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        bodies, held_bytes = self.bodies, 0 if self.is_complete else self.received_bytes
        bodies.incomplete_bytes += held_bytes - self.held_bytes
        self.held_bytes = held_bytes
        if self.received_bytes > bodies.max_bytes:
            self.is_last = True
            raise bodies.too_large(self.received_bytes)
        if bodies.are_uploads:
            return message
        if held_bytes > SMALL_BODY_BYTES and bodies.incomplete_bytes > INCOMPLETE_BODIES * bodies.max_bytes:
            self.is_last = True
            raise Unavailable("the server receives too many large bodies; send this one again later")
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the answer; of the last body of a connection the rest is read before."""
        if message["type"] == "http.response.start":
            self.request.status = message["status"]
            headers = [*message.get("headers", ()), (REQUEST_ID_HEADER, self.request.request_id.encode("ascii"))]
            if self.is_last:
                headers.append((b"connection", b"close"))
                if not self.is_complete:
                    await _drain(self.receive_message)
            message["headers"] = headers
        await self.send_message(message)


async def _drain(receive: Receive) -> None:
    """Read what the client still sends, and drop it."""
    dropped, until_s = 0, monotonic() + DRAIN_S
    try:
        while dropped < DRAIN_BYTES:
            async with asyncio.timeout(min(SILENCE_S, until_s - monotonic())):
                message = await receive()
            dropped += len(message.get("body", b""))
            if not message.get("more_body", False):
                return
    except TimeoutError:
        return


# ---- all of it

_CORS_METHODS = ("GET", "POST", "PATCH", "DELETE")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_EXPOSED_HEADERS = ("X-Request-ID", "Retry-After", "X-Trace-ID", "X-Prompt-Passed", "X-Engine-Lacks")
_PREFLIGHT_MAX_AGE_S = 20 * 86_400  # LibreTranslate's; browsers cap it at 2 h or 24 h


class RequestMiddleware:
    """Every request gets an id, exactly one answer, a count, one line in the log and, where it is traced, a span.

    A stream's line is logged at its end. The path is logged as the route's template: an unknown path may hold anything.
    Whether a line is written is the logger's level.

    Refused before they are routed are bodies of more than `max_body_bytes`, on `upload_paths` of more than
    `max_upload_bytes`, by Content-Length or by counting where there is none; Host headers that are not `is_allowed`; and
    changes by web pages of other origins on paths that are not `open_paths`.
    Pages of `origins` get CORS headers on these paths alone.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        count: Callable[[RequestTrace], None],
        tracing: Tracing | None = None,
        max_body_bytes: int,
        max_upload_bytes: int = 0,
        upload_paths: Collection[str] = (),
        is_allowed: Callable[[str], bool],
        open_paths: Sequence[re.Pattern[str]] = (),
        origins: Sequence[str] = (),
    ) -> None:
        self.app = app
        self._count = count
        self._tracing = tracing
        self._bodies = _Bodies(max_body_bytes)
        self._uploads = _Bodies(max(max_upload_bytes, max_body_bytes), are_uploads=True)
        self._upload_paths = upload_paths
        self._is_allowed = is_allowed
        self._open_paths = open_paths
        self._cors = CORSMiddleware(
            app,
            allow_origins=list(origins),
            allow_methods=_CORS_METHODS,
            allow_headers=("*",),  # whatever a page asks for: Authorization, X-Request-Timeout, X-Target-Language
            allow_private_network=True,  # pages of the Internet that call a server of the local network
            expose_headers=_EXPOSED_HEADERS,
            max_age=_PREFLIGHT_MAX_AGE_S,
        )
        self._has_cors = bool(origins)
        self._paths: frozenset[str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, path = dict[bytes, bytes](scope["headers"]), scope["path"]
        if "//" in path:  # of clients that join an address that ends with a slash and a path that begins with one
            path = re.sub("//+", "/", path)
            scope = {**scope, "path": path}
        if b"origin" in headers and self._has_cors and self._is_open(path):
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await self._cors.preflight_response(Headers(scope=scope))(scope, receive, send)
                return
            send = partial(self._cors.send, send=send, request_headers=Headers(scope=scope))
        given_id = headers.get(REQUEST_ID_HEADER, b"")  # the client's, where it can stand in logs and headers
        request = RequestTrace(given_id.decode() if _PLAIN_ID(given_id) else token_hex(8), scope["method"])
        request.client = (scope.get("client") or ("",))[0]
        is_quiet = path in _QUIET_PATHS or path.startswith(_QUIET_FOLDER)
        if self._tracing and not is_quiet:
            self._tracing.begin(request, scope["headers"])
        bodies = self._uploads if path in self._upload_paths else self._bodies
        has_body = b"content-length" in headers or b"transfer-encoding" in headers
        is_last = scope["http_version"] == "1.0" or b"close" in headers.get(b"connection", b"").lower()
        exchange = _Exchange(
            request, bodies, receive, send, is_complete=not has_body or b"expect" in headers, is_last=is_last
        )
        token = requests.current.set(request)
        try:
            if refusal := self._refusal(scope, headers, exchange):
                await errors.response(refusal, scope)(scope, receive, exchange.send)
            else:
                await self.app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            request.fault = CANCELLED
        except Exception as error:
            failed = errors.unexpected(scope, self._route(scope), error)
            if request.status:  # too late for another status: the connection is closed, and the client notices
                raise
            await failed(scope, receive, exchange.send)
        finally:
            bodies.incomplete_bytes -= exchange.held_bytes
            request.route = self._route(scope)
            self._end(request, is_quiet)
            requests.current.reset(token)

    def _is_open(self, path: str) -> bool:
        """Whether web pages of other origins may use the path."""
        return any(pattern.match(path) for pattern in self._open_paths)

    def _refusal(self, scope: Scope, headers: dict[bytes, bytes], exchange: _Exchange) -> DragomanError | None:
        """Why a request is not routed.

        - It has two Host headers: a proxy may have gone by the one, and this server by the other.
        - Its Host header is not one of the server's names. A page can have its own name resolve to 127.0.0.1 (DNS rebinding),
          and its scripts would then be of the same origin as a server there; but the browser sends the page's name.
        - A page of another origin changes something. Browsers send forms without asking first.
        - Its body is too large.
        """
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if host is not None:  # browsers always send one
            if [name for name, _ in scope["headers"]].count(b"host") > 1:
                return InvalidRequest("a request has one Host header")
            if not self._is_allowed(host.decode("latin-1")):
                name = host[:100].decode("latin-1")
                return UnknownHost(f"this server does not answer to the name {name!r} (server.allowed_hosts)")
        is_same_origin = origin is None or origin.partition(b"://")[2] == host
        if not is_same_origin and scope["method"] not in _SAFE_METHODS and not self._is_open(scope["path"]):
            return Forbidden("web pages of other origins may not do this")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > exchange.bodies.max_bytes:
            exchange.is_last = True
            return exchange.bodies.too_large(int(length))
        return None

    def _route(self, scope: Scope) -> str | None:
        """The route's template; for what was refused before it was routed, the path if it is a known one."""
        if scope["path"].startswith(_QUIET_FOLDER):
            return f"{_QUIET_FOLDER}{{name}}"
        template: str | None = getattr(scope.get("route"), "path", None)
        if template is not None:
            return template
        if self._paths is None:
            routes: list[Any] = scope["app"].routes
            self._paths = frozenset(getattr(route, "path", "") for route in routes)
        return scope["path"] if scope["path"] in self._paths else None

    def _end(self, request: RequestTrace, is_quiet: bool) -> None:
        """Count and log what has ended. A fault in metrics or tracing is logged, and does not cost a client its answer."""
        request.end()
        try:
            self._count(request)
            if self._tracing:
                self._tracing.end(request)
        except Exception:
            api_logger.exception("a request could not be recorded")
        level = logging.DEBUG if is_quiet else logging.ERROR if request.outcome in FAILURES else logging.INFO
        if log.isEnabledFor(level):
            line = RequestLine(request)
            log.log(level, "%s", line, extra={"event": "request", "fields": line.fields})


# ---- what the settings say


def comma_separated(value: str) -> list[str]:
    """The entries of a setting that is a list."""
    return [entry.strip() for entry in value.split(",") if entry.strip()]


def host_rule(allowed: str, listens_on: str, *, behind_proxy: bool = False) -> Callable[[str], bool]:
    """Which Host headers a server answers to: `allowed` names; by default, on a loopback address, its machine's own."""
    names = [name.lower() for name in comma_separated(allowed)]
    exact = {name for name in names if not name.startswith("*.")}
    suffixes = tuple(name[1:] for name in names if name.startswith("*.")) or (() if names else (".localhost",))
    is_open = "*" in exact or (not names and (behind_proxy or not is_loopback(listens_on)))

    @lru_cache(maxsize=32)  # which hold as much as headers may have
    def is_allowed(host: str) -> bool:
        name = re.sub(r":\d*$", "", host) if not host.endswith("]") else host
        name = name.strip("[]").rstrip(".").lower()
        return is_open or name in exact or name.endswith(suffixes) or (not names and is_loopback(name))

    return is_allowed


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
