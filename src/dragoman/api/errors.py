"""Errors to HTTP: the one place where a `DragomanError` gets a response, and the shape of every other error.

{"error": {"code": "...", "message": "...", "param": "..."}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dragoman.errors import DragomanError, QueueFull, Unavailable
from dragoman.telemetry.requests import CANCELLED, CLIENT_CLOSED_REQUEST, note_fault

log = logging.getLogger("dragoman.api")

# FastAPI raises 400 itself only for a body that it cannot decode at all.
_CODES = {400: "invalid_json", 404: "not_found", 405: "method_not_allowed"}
_UNAVAILABLE_RETRY_S = 5


def body(code: str, message: str, param: str | None = None) -> dict[str, dict[str, str]]:
    """The error's JSON."""
    error = {"code": code, "message": message}
    return {"error": error | {"param": param} if param else error}


def response(error: DragomanError) -> JSONResponse:
    """The response to `error`."""
    headers: dict[str, str] = {}
    if isinstance(error, QueueFull):
        headers["Retry-After"] = str(int(error.retry_after_s))
    elif isinstance(error, Unavailable):
        headers["Retry-After"] = str(_UNAVAILABLE_RETRY_S)
    return _answer(error.status, error.code, error.message, error.param, headers)


def _answer(
    status: int, code: str, message: str, param: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    note_fault(code)
    return JSONResponse(body(code, message, param), status, headers)


async def _on_dragoman_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DragomanError)
    if error.status >= 500 and not isinstance(error, Unavailable):
        log.error("%s %s: %s", request.method, request.url.path, error.message)
    return response(error)


async def _on_bad_body(request: Request, error: Exception) -> JSONResponse:
    """Bad JSON is 400, right JSON of a wrong shape 422. The caller's input is never echoed back."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    kind, where = str(first["type"]), first["loc"]
    if kind == "json_invalid":
        reason = first.get("ctx", {}).get("error", "")
        return _answer(400, "invalid_json", f"the body is not JSON: {reason}")
    param = ".".join(str(part) for part in where[1:] if part not in {"str", "int", "list[str]", "list[int]"})
    if kind == "extra_forbidden":
        return _answer(422, "invalid_request", f"unknown field {param}", param)
    message = f"{param}: {first['msg']}" if param else f"{first['msg']} (send a JSON object)"
    return _answer(422, "invalid_request", message, param or None)


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, DragomanError):  # raised while the body was read, and wrapped by FastAPI
        return response(error.__cause__)
    if isinstance(error.__cause__, ClientDisconnect):  # likewise; no client reads the answer
        return _answer(CLIENT_CLOSED_REQUEST, CANCELLED, "the client disconnected")
    code = _CODES.get(error.status_code, "invalid_request" if error.status_code < 500 else "internal_error")
    message = f"{request.method} {request.url.path}: {error.detail}"
    return _answer(error.status_code, code, message, headers=error.headers)


def unexpected(method: str, route: str | None, error: Exception) -> JSONResponse:
    """The response to a fault of the server, which is logged with its traceback. Sent by the outermost middleware."""
    log.error("%s %s failed", method, route, exc_info=error)
    return _answer(500, "internal_error", "the server failed on this request; see its log")


def install(app: FastAPI) -> None:
    """Give these errors the documented shape; `RequestLog` gives it to all others."""
    app.add_exception_handler(DragomanError, _on_dragoman_error)
    app.add_exception_handler(RequestValidationError, _on_bad_body)
    app.add_exception_handler(HTTPException, _on_http_error)
