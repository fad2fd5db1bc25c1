"""The route: key, bounds of the body and errors as everywhere, before anything of the protocol is imported.

A request is answered by itself, so any replica may answer any: there are no sessions. A client of the protocol of 2025 gets a
session id nevertheless, which this server does not keep: with it `notifications/cancelled` finds the call that it means.

Web pages of other origins are refused by the middleware, as the protocol asks, and Host headers that are not the server's.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from pydantic import Field

from dragoman.api import schemas
from dragoman.api.answers import JsonResponse
from dragoman.api.errors import ErrorFormat, Fault
from dragoman.api.input import KeyFirstRoute, Service
from dragoman.extras import missing_packages
from dragoman.service.service import TranslationService

if TYPE_CHECKING:
    from dragoman.api.mcp.server import AgentServer

log = logging.getLogger("dragoman.api")

PATH = "/mcp"
router = APIRouter(route_class=KeyFirstRoute)
MAX_NAME_CHARACTERS = 200

_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603  # of JSON-RPC


def is_served(service: TranslationService) -> bool:
    """Whether there are agents: unless a setting or a missing package, which is logged, says otherwise."""
    if not service.settings.server.mcp:
        return False
    if missing := missing_packages("mcp"):
        log.info(
            "no agents at %s: the extra 'mcp' is missing (%s): pip install 'dragoman[mcp]', or set server.mcp = false",
            PATH,
            ", ".join(missing),
        )
        return False
    return True


def _jsonrpc_format(fault: Fault) -> Response:
    """An error before there was a message to answer: clients show its text."""
    at_fault = _INTERNAL_ERROR if fault.status >= 500 else _INVALID_REQUEST
    error = {
        "code": _PARSE_ERROR if fault.code == "invalid_json" else at_fault,
        "message": fault.message,
        "data": {"code": fault.code},
    }
    return JsonResponse({"jsonrpc": "2.0", "id": None, "error": error}, fault.status, fault.headers)


ERROR_FORMATS: Mapping[str, ErrorFormat] = {PATH: _jsonrpc_format}


async def _agents(app: FastAPI, service: TranslationService) -> AgentServer:
    """The app's server of agents, which the first request makes."""
    if not hasattr(app.state, "mcp"):
        module: Any = await asyncio.to_thread(importlib.import_module, "dragoman.api.mcp.server")
        if not hasattr(app.state, "mcp"):  # no other request has made it meanwhile
            app.state.mcp = module.AgentServer(service)
    return cast("AgentServer", app.state.mcp)


class Message(schemas.RequestBody):
    """A request or a notification of JSON-RPC. There are no answers: this server asks its clients nothing."""

    jsonrpc: Literal["2.0"]
    method: Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]
    id: Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)] | int | None = None
    params: dict[str, Any] | None = None


@router.post(PATH, include_in_schema=False)
async def mcp(message: Message, http: Request, service: Service) -> Response:
    """One message of the protocol. GET and DELETE get 405: there is no stream of the server's own, and no session to end."""
    agents = await _agents(http.app, service)
    return agents.exchange(message.method, message.params or {}, http, await http.body())
