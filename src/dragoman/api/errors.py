"""Errors to HTTP: the one place where a `DragomanError` gets a response, and the shape of every other error.

The native API's shape is {"error": {"code": "...", "message": "...", "param": "..."}}. Other APIs have their own, by the
beginning of their paths, and a parameter of the query where two APIs have the same: `install` is given a function for each that
makes a response of a `Fault`.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from dragoman.api.answers import JsonResponse
from dragoman.api.schemas import UNKNOWN_FIELD
from dragoman.errors import DeadlineExceeded, DragomanError, QueueFull, RateLimited, Unauthenticated, Unavailable
from dragoman.telemetry.requests import CANCELLED, CLIENT_CLOSED_REQUEST, note_fault

log = logging.getLogger("dragoman.api")

# FastAPI raises 400 itself only for a body that it cannot decode at all.
_CODES = {400: "invalid_json", 404: "not_found", 405: "method_not_allowed"}
_UNAVAILABLE_RETRY_S = 5
_UNION_MEMBER = re.compile(r"str|int|.*\[.*").fullmatch  # what pydantic puts into a place for a member of a union


@dataclass(frozen=True, slots=True)
class Fault:
    """What a request is answered with instead of what it asked for."""

    status: int
    code: str
    message: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, error: DragomanError) -> Fault:
        """With Retry-After where waiting helps."""
        headers: dict[str, str] = {}
        if isinstance(error, QueueFull | RateLimited):
            headers["Retry-After"] = str(math.ceil(error.retry_after_s))
        elif isinstance(error, Unauthenticated):
            headers["WWW-Authenticate"] = "Bearer"
        elif isinstance(error, Unavailable):
            headers["Retry-After"] = str(_UNAVAILABLE_RETRY_S)
        return cls(error.status, error.code, error.message, error.param, headers)


Handler = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
ErrorFormat = Callable[[Fault], Response]
"""An API's response to a fault: its own status, body and headers."""


def native_format(fault: Fault) -> Response:
    """The native API's: status and code as they are."""
    error = {"code": fault.code, "message": fault.message}
    body = {"error": error | {"param": fault.param} if fault.param else error}
    return JsonResponse(body, fault.status, fault.headers)


def foreign_format(
    statuses: Mapping[str, int],
    body: Callable[[int, Fault], object],
    headers: Callable[[], Mapping[str, str]] | None = None,
) -> ErrorFormat:
    """Another API's: `statuses` by code where they are not the native API's, but for 422, which is 400; and the body for a
    status and a fault. `headers` that each of its responses has."""

    def respond(fault: Fault) -> Response:
        status = statuses.get(fault.code, 400 if fault.status == 422 else fault.status)
        return JsonResponse(body(status, fault), status, {**fault.headers, **(headers() if headers else {})})

    return respond


def response(fault: Fault | DragomanError, scope: Scope) -> Response:
    """The response to what went wrong, in the format of the API that the request's path belongs to.

    A handler of a path that two APIs share sets the request's `state.error_format`.
    """
    fault = Fault.of(fault) if isinstance(fault, DragomanError) else fault
    fault = replace(fault, message=_shortened(fault.message, 1000), param=_shortened(fault.param or "", 200) or None)
    note_fault(fault.code)
    formats: Mapping[str, ErrorFormat] = scope["app"].state.error_formats
    path: str = scope["path"]
    query = scope.get("query_string", b"")
    of_request = next((formats[form] for form in formats if _begins_with(path, query, form)), native_format)
    chosen: ErrorFormat = scope.get("state", {}).get("error_format", of_request)
    return chosen(fault)


def _begins_with(path: str, query: bytes, form: str) -> bool:
    """Whether a request has this beginning of a path and, where a `?` is in it, the parameter that follows."""
    prefix, _, name = form.partition("?")
    return path.startswith(prefix) and (not name or name in QueryParams(query))


async def _on_dragoman_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, DragomanError)
    if error.status >= 500 and not isinstance(error, Unavailable | DeadlineExceeded):
        log.error("%s %s: %s", request.method, request.url.path, error.message)
    return response(error, request.scope)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


async def _on_bad_body(request: Request, error: Exception) -> Response:
    """JSON of a wrong shape. The caller's input is never echoed back, but for the name of an unknown field."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return response(fault_of_field(first["type"], first["loc"][1:], first["msg"]), request.scope)


def fault_of_field(kind: str, place: Sequence[int | str], message: str) -> Fault:
    """What pydantic says of a field: the type of its error, where it is, and the message."""
    if kind == UNKNOWN_FIELD:
        *within, name = map(str, place)
        param = ".".join((*(one for one in within if not _UNION_MEMBER(one)), name[:200]))
        return Fault(422, "invalid_request", f"unknown field {param}", param)
    param = ".".join(one for one in map(str, place) if not _UNION_MEMBER(one))
    message = f"{param}: {message}" if param else f"{message} (send a JSON object)"
    return Fault(422, "invalid_request", message, param or None)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, DragomanError):  # raised while the body was read, and wrapped by FastAPI
        return response(error.__cause__, request.scope)
    if isinstance(error.__cause__, RequestValidationError):  # likewise
        return await _on_bad_body(request, error.__cause__)
    if isinstance(error.__cause__, ClientDisconnect):  # likewise; no client reads the answer
        return response(Fault(CLIENT_CLOSED_REQUEST, CANCELLED, "the client disconnected"), request.scope)
    code = _CODES.get(error.status_code, "invalid_request" if error.status_code < 500 else "internal_error")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return response(Fault(error.status_code, code, message, headers=error.headers or {}), request.scope)


def unexpected(scope: Scope, route: str | None, error: Exception) -> Response:
    """The response to a fault of the server, which is logged with its traceback. Sent by the outermost middleware."""
    log.error("%s %s failed", scope["method"], route, exc_info=error)
    return response(Fault(500, "internal_error", "the server failed on this request; see its log"), scope)


def _releasing(handler: Handler) -> Handler:
    """The handler, after which the error has no traceback. FastAPI's frames hold the error as well as the request's body:
    such a cycle would keep megabytes until the garbage collector comes."""

    async def handle(request: Request, error: Exception) -> Response:
        try:
            return await handler(request, error)
        finally:
            link: BaseException | None = error
            while link is not None:
                link.__traceback__ = None
                link = link.__cause__ or link.__context__

    return handle


def install(app: FastAPI, formats: Mapping[str, ErrorFormat]) -> None:
    """Give errors the native API's format, or another's by the beginning of the path: `/detect`, or `/detect?NAME` where the
    query has this parameter. The first that fits is taken.

    `RequestMiddleware` does so for all others.
    """
    app.state.error_formats = formats
    app.add_exception_handler(DragomanError, _releasing(_on_dragoman_error))
    app.add_exception_handler(RequestValidationError, _releasing(_on_bad_body))
    app.add_exception_handler(HTTPException, _releasing(_on_http_error))
