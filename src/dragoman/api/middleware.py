"""ASGI middleware around all routes: the request log and the limit of bodies.

Order, from the outside: `RequestLog` (whatever fails within is answered there, so that a 500 carries the request's id as
well), `BodyLimit`, the routes.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from secrets import token_hex
from time import monotonic
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api import errors
from dragoman.errors import BodyTooLarge, Unavailable
from dragoman.telemetry import requests
from dragoman.telemetry.logs import RequestLine
from dragoman.telemetry.requests import CANCELLED, FAILURES, RequestTrace
from dragoman.telemetry.tracing import Tracing

log = logging.getLogger("dragoman.request")  # the lines, and nothing else
api_logger = logging.getLogger("dragoman.api")

# ---- the request log

REQUEST_ID_HEADER = b"x-request-id"
_PLAIN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}").fullmatch
# Requested again and again by machines, or by browsers beside what was wanted: logged at level debug, never traced.
_QUIET_PATHS = frozenset(
    {"/", "/healthz", "/readyz", "/metrics", "/v1/stats", "/favicon.ico", "/docs", "/openapi.json"}
)
_QUIET_FOLDER = "/web/"


def current_id() -> str:
    """The id of the request that this runs for; a new one outside of any."""
    request = requests.current.get()
    return request.request_id if request is not None else token_hex(8)


def _id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The client's id where it is short and plain, so that it can stand in logs and headers; else a new one."""
    for name, value in headers:
        if name == REQUEST_ID_HEADER:
            return value.decode("ascii") if _PLAIN_ID(value) else token_hex(8)
    return token_hex(8)


class RequestLog:
    """Every request gets an id, exactly one answer, a count, one line in the log and, where it is traced, a span.

    A stream's line is logged at its end. The path is logged as the route's template: an unknown path may hold anything.
    Whether a line is written is the logger's level.
    """

    def __init__(self, app: ASGIApp, count: Callable[[RequestTrace], None], tracing: Tracing | None = None) -> None:
        self.app = app
        self.count = count
        self.tracing = tracing
        self._paths: frozenset[str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = RequestTrace(_id_of(scope["headers"]), scope["method"])
        quiet = scope["path"] in _QUIET_PATHS or scope["path"].startswith(_QUIET_FOLDER)
        if self.tracing and not quiet:
            self.tracing.begin(request, scope["headers"])
        token = requests.current.set(request)
        try:
            await self._answer(scope, receive, send, request)
        finally:
            request.route = self._route(scope)
            request.end()
            self._record(request)
            _log(request, logging.DEBUG if quiet else logging.INFO)
            requests.current.reset(token)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, request: RequestTrace) -> None:
        request_id = (REQUEST_ID_HEADER, request.request_id.encode("ascii"))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                message["headers"] = [*message.get("headers", ()), request_id]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except ClientDisconnect:
            request.fault = CANCELLED
        except Exception as error:
            failed = errors.unexpected(scope, self._route(scope), error)
            if request.status:  # too late for another status: the connection is closed, and the client notices
                raise
            await failed(scope, receive, send_with_id)

    def _record(self, request: RequestTrace) -> None:
        """A fault in metrics or tracing is logged, and does not cost a client its answer."""
        try:
            self.count(request)
            if self.tracing:
                self.tracing.end(request)
        except Exception:
            api_logger.exception("a request could not be recorded")

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


def _log(request: RequestTrace, level: int) -> None:
    if level > logging.DEBUG and request.outcome in FAILURES:
        level = logging.ERROR
    if log.isEnabledFor(level):
        line = RequestLine(request)
        log.log(level, "%s", line, extra={"event": "request", "fields": line.fields})


# ---- the limit of bodies

DRAIN_BYTES = 32 * 2**20
DRAIN_S = 5.0
"""How much of a refused body is read, and for how long, so that a client that sends all of it can read the answer."""

INCOMPLETE_BODIES = 32
SMALL_BODY_BYTES = 64 * 1024


class BodyLimit:
    """Refuses bodies over a size with 413: by Content-Length before reading, or by counting where there is none.

    A client that sends its whole body before it reads would see a reset connection if the server closed it with data
    unread. So what it still sends is read and dropped, up to `DRAIN_BYTES` and for `DRAIN_S` at most.

    Bodies of which a part is missing hold memory before their key is known: together as much as `INCOMPLETE_BODIES` of the
    largest. Beyond that those of over `SMALL_BODY_BYTES` are refused with 503.
    """

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes
        self._incomplete_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        received, held, complete, refused = 0, 0, False, False

        def hold(size: int) -> None:
            nonlocal held
            self._incomplete_bytes += size - held
            held = size

        async def counted() -> Message:
            nonlocal received, complete, refused
            message = await receive()
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            hold(0 if complete else received)
            refused = True
            self._check(received)
            if held > SMALL_BODY_BYTES and self._incomplete_bytes > INCOMPLETE_BODIES * self.max_body_bytes:
                raise Unavailable("the server receives too many large bodies; send this one again later")
            refused = False
            return message

        async def close_if_refused(message: Message) -> None:
            if refused and message["type"] == "http.response.start":
                if not complete:
                    await _drain(receive)
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        try:
            if length.isdigit() and int(length) > self.max_body_bytes:
                refused, complete = True, b"expect" in headers  # which sends no body before it is asked to
                self._check(int(length))
            await self.app(scope, counted, close_if_refused)
        except (BodyTooLarge, Unavailable) as error:
            await errors.response(error, scope)(scope, receive, close_if_refused)
        finally:
            hold(0)

    def _check(self, size: int) -> None:
        if size > self.max_body_bytes:
            raise BodyTooLarge(f"the body has {size} bytes or more; this server accepts {self.max_body_bytes}")


async def _drain(receive: Receive) -> None:
    """Read what the client still sends, and drop it."""
    dropped, until_s = 0, monotonic() + DRAIN_S
    try:
        while dropped < DRAIN_BYTES:
            async with asyncio.timeout(until_s - monotonic()):
                message = await receive()
            dropped += len(message.get("body", b""))
            if not message.get("more_body", False):
                return
    except TimeoutError:
        return
