"""The protocol: the official SDK's low-level server, without state, and calls of tools that end with their clients.

The SDK gets each request with a transport of its own. A tool runs in a task that is cancelled once when its client has left or
has cancelled the call; what the SDK itself runs is cancelled at every `await`, which would cut the service's clean-up short.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

import anyio
from fastapi import Request
from fastapi.responses import Response
from mcp.server import Server
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from starlette.types import Message, Receive, Scope, Send

from dragoman import __version__
from dragoman.api.answers import json_bytes
from dragoman.api.errors import Fault
from dragoman.api.mcp import tools
from dragoman.errors import DragomanError
from dragoman.service.service import TranslationService
from dragoman.telemetry.requests import note_fault

log = logging.getLogger("dragoman.api")

PROGRESS_S = 1.0
"""How often a client that asked for it is told how far its call is."""
TOOLS_TTL_MS = 300_000
"""How long clients may keep the list of tools, which changes with the server's version alone."""
REQUEST_CANCELLED = -32800  # the SDK's code, as in the Language Server Protocol
_SESSION_HEADER = "mcp-session-id"
_CallKey = tuple[str, str, str]  # account, session, JSON-RPC id
Context = ServerRequestContext[Any, Request]


class AgentServer:
    """Answers the messages of agents with the tools of one service."""

    def __init__(self, service: TranslationService) -> None:
        self._tools = {one.name: one for one in tools.of(service)}
        self._listed = ListToolsResult(tools=[_listed(one) for one in self._tools.values()])
        self._in_flight: dict[_CallKey, asyncio.Task[tools.ToolAnswer]] = {}
        self._max_bytes = service.settings.server.max_body_bytes
        self._server: Server[Any] = Server(
            "dragoman",
            version=__version__,
            title="dragoman: translation",
            instructions=tools.instructions(service),
            cache_hints={"tools/list": CacheHint(TOOLS_TTL_MS, "public")},
            get_tool_input_schema=self._input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._server.middleware.clear()  # OpenTelemetry's: dragoman traces the request itself

    def exchange(self, method: str, params: Mapping[str, Any], http: Request, body: bytes) -> Response:
        """The response to a message, whose JSON is `body`."""
        if method == "notifications/cancelled":
            self._cancel(_key(http, params.get("requestId")))
        return _Exchange(self._server, body, self._max_bytes, token_hex(16) if method == "initialize" else None)

    def _cancel(self, key: _CallKey | None) -> None:
        if key is not None and (task := self._in_flight.get(key)) is not None:
            task.cancel()

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return self._tools[name].input_schema if name in self._tools else None

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return self._listed

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """The tool's answer, or its error for the model to read. Raises `MCPError` for an unknown tool and a cancelled call."""
        tool, http = self._tools.get(params.name), context.request
        assert http is not None
        if tool is None:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:100]!r}")
        call = tools.ToolCall(http, http.app.state.service, http.state.account)
        try:
            answer = await self._run(context, call, tool, params.arguments or {})
        except DragomanError as error:
            return _failed(error)
        except MCPError:
            raise
        except Exception:
            log.exception("the tool %s failed", tool.name)
            return _failed(DragomanError("the server failed on this call; see its log"))
        text = TextContent(text=json_bytes(answer.structured).decode())
        return CallToolResult(content=[text, *answer.content], structured_content=answer.structured)

    async def _run(
        self, context: Context, call: tools.ToolCall, tool: tools.Tool, arguments: dict[str, Any]
    ) -> tools.ToolAnswer:
        """Run a tool and report its progress. A slow reader does not hold it up."""
        task = asyncio.create_task(tool.run(call, arguments))
        key, told = _key(call.http, context.request_id), 0.0
        if key is not None:
            self._in_flight[key] = task
        try:
            while not (await asyncio.wait({task}, timeout=PROGRESS_S))[0]:
                progress = call.progress
                if progress.done > told:  # it must increase
                    told = progress.done
                    await context.session.report_progress(told, progress.total, progress.message)
        finally:
            if key is not None and self._in_flight.get(key) is task:
                del self._in_flight[key]
            if not task.done():
                task.cancel()
                with anyio.CancelScope(shield=True):
                    await asyncio.gather(task, return_exceptions=True)
        if task.cancelled():
            raise MCPError(code=REQUEST_CANCELLED, message="the call was cancelled")
        return task.result()


def _key(http: Request, request_id: object) -> _CallKey | None:
    """What a cancellation names a call by; None for a client without a session id, whose ids are not its own."""
    session = http.headers.get(_SESSION_HEADER)
    if not session or not isinstance(request_id, str | int):
        return None
    return http.state.account.id, session, str(request_id)


def _listed(tool: tools.Tool) -> Tool:
    return Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            title=tool.title, read_only_hint=tool.read_only, destructive_hint=False, open_world_hint=False
        ),
    )


def _failed(error: DragomanError) -> CallToolResult:
    """An error as the native API has it, with the seconds to wait where waiting helps."""
    fault = Fault.of(error)
    note_fault(fault.code)
    shown: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.param:
        shown["param"] = fault.param
    if wait_s := fault.headers.get("Retry-After"):
        shown["retry_after_s"] = int(wait_s)
    return CallToolResult(content=[TextContent(text=json_bytes({"error": shown}).decode())], is_error=True)


class _Exchange(Response):
    """What the SDK answers to one message. `session_id`: told to the client."""

    def __init__(self, server: Server[Any], body: bytes, max_bytes: int, session_id: str | None) -> None:
        super().__init__()
        self._server = server
        self._body: bytes | None = body
        self._max_bytes = max_bytes
        self._session_id = session_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def replay() -> Message:
            if (body := self._body) is None:
                return await receive()
            self._body = None
            return {"type": "http.request", "body": body, "more_body": False}

        async def send_with_session(message: Message) -> None:
            if message["type"] == "http.response.start" and self._session_id is not None:
                named = (_SESSION_HEADER.encode(), self._session_id.encode())
                message["headers"] = [*message.get("headers", ()), named]
            await send(message)

        manager = StreamableHTTPSessionManager(self._server, stateless=True, max_request_body_size=self._max_bytes)
        async with manager.run():  # for this request: what is left of it ends here
            await manager.handle_request(scope, replay, send_with_session)
