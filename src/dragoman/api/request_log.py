"""Every request gets an id, exactly one answer, a count, one line in the log and, where it is traced, a span.

ASGI middleware, to be the outermost: what failed inside is answered here, so that a 500 carries the id as well. A stream's
line comes at its end. The path is logged as the route's template, because a path that no route knows may hold anything.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api import errors
from dragoman.telemetry import requests
from dragoman.telemetry.requests import CANCELLED
from dragoman.telemetry.traffic.window import FAILURES
from dragoman.telemetry.requests import RequestLine
from dragoman.telemetry.requests import RequestTrace

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from dragoman.telemetry.tracing import Tracing

log = logging.getLogger("dragoman.request")  # the lines, and nothing else
api_logger = logging.getLogger("dragoman.api")

HEADER = b"x-request-id"
_SANE = re.compile(rb"[A-Za-z0-9._-]{1,64}").fullmatch
# Asked for again and again by machines, or by browsers beside what was wanted: logged at level debug, never traced.
_QUIET = frozenset(
    {"/", "/healthz", "/readyz", "/metrics", "/v1/stats", "/v1/traffic", "/favicon.ico"}
    | {"/docs", "/docs/oauth2-redirect", "/openapi.json", "/redoc"}
)
_QUIET_FOLDER = "/web/"


def current_id() -> str:
    """The id of the request that this runs for; a new one outside of any."""
    exchange = requests.current()
    return exchange.request_id if exchange is not None else _made_id()


def _made_id() -> str:
    return token_hex(8)


def _id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The client's id where it is short and plain, so that it can stand in logs and headers; else one of ours."""
    for name, value in headers:
        if name == HEADER:
            return value.decode("ascii") if _SANE(value) else _made_id()
    return _made_id()


class RequestLog:
    """Needs no settings: whether a line is written is the logger's level."""

    def __init__(self, app: ASGIApp, count: Callable[[RequestTrace], None], tracing: Tracing | None = None) -> None:
        self.app = app
        self.count = count
        self.tracing = tracing
        self._paths: frozenset[str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        exchange = RequestTrace(_id_of(scope["headers"]), scope["method"])
        quiet = scope["path"] in _QUIET or scope["path"].startswith(_QUIET_FOLDER)
        span = self.tracing.begin(exchange, scope["headers"]) if self.tracing and not quiet else None
        with requests.entered(exchange):
            try:
                await self._answered(scope, receive, send, exchange)
            finally:
                exchange.route = self._route(scope)
                exchange.end()
                self._close(exchange, span)
                _tell(exchange, logging.DEBUG if quiet else logging.INFO)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, exchange: RequestTrace) -> None:
        request_id = (HEADER, exchange.request_id.encode("ascii"))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = [*message.get("headers", ()), request_id]
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except ClientDisconnect:
            exchange.fault = CANCELLED
        except Exception as error:
            failed = errors.unexpected(scope["method"], self._route(scope), error)
            if exchange.status:  # too late for another status: the connection breaks off, and the client can tell
                raise
            await failed(scope, receive, answer)

    def _close(self, exchange: RequestTrace, span: Span | None) -> None:
        """A fault in the bookkeeping is logged, and does not cost a client its answer."""
        try:
            self.count(exchange)
            if self.tracing and span is not None:
                self.tracing.end(span, exchange)
        except Exception:
            api_logger.exception("the bookkeeping of a request failed")

    def _route(self, scope: Scope) -> str | None:
        """The route's template; for what was refused before it was routed, the path if it is one that we have."""
        template: str | None = getattr(scope.get("route"), "path", None)
        if template is not None:
            return template
        if self._paths is None:
            routes: list[Any] = scope["app"].routes
            self._paths = frozenset(getattr(route, "path", "") for route in routes)
        return scope["path"] if scope["path"] in self._paths else None


def _tell(exchange: RequestTrace, level: int) -> None:
    if level > logging.DEBUG and exchange.outcome in FAILURES:
        level = logging.ERROR
    if log.isEnabledFor(level):
        line = RequestLine(exchange)
        log.log(level, "%s", line, extra={"event": "request", "fields": line.fields})
