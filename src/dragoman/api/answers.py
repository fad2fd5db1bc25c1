"""How answers reach clients: JSON, server-sent events, and white space for clients that give up early.

The clients of some APIs give up after 5 to 10 s without a byte, and then try again. JSON may begin with white space. A
response that takes longer than `FIRST_AFTER_S` therefore starts with status 200 and a space, another one every `EVERY_S`,
and then the JSON. The price is that the status is sent before the result is known, so that a later failure can only break
the response off: the connection is closed without the last chunk, which every HTTP/1.1 client reports as an error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dragoman.errors import DragomanError
from dragoman.service.service import TranslationService
from dragoman.telemetry import requests
from dragoman.telemetry.requests import CANCELLED, CLIENT_CLOSED_REQUEST, note_fault
from dragoman.types import TextDelta, TextDone, Translation, TranslationRequest

T = TypeVar("T")

# ---- JSON


def json_bytes(value: object) -> bytes:
    """A value as JSON. Lone surrogates are escaped, and integers may be of any size."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class JsonResponse(Response):
    """A value as JSON, which `json_bytes` serialises."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return json_bytes(content)


async def json_items(service: TranslationService, items: Iterable[object]) -> list[orjson.Fragment]:
    """The items for a list within JSON, each serialised on its own: other calls run in between."""
    pace, fragments = service.pace(), list[orjson.Fragment]()
    for item in items:
        fragments.append(orjson.Fragment(json_bytes(item)))
        await pace.pause()
    return fragments


# ---- clients that disconnect


class ClientGone(Exception):
    """The client has disconnected: there is no connection for an answer."""


async def closed(request: Request, error: Exception) -> Response:
    """What is recorded as the response to a client that has disconnected."""
    note_fault(CANCELLED)
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def while_connected(request: Request, work: Coroutine[Any, Any, T], *, grace_s: float = 0.0) -> T:
    """The result of `work`. When the client disconnects first, it is cancelled after `grace_s`, and `ClientGone` raised.

    A client that has given up and tries again within `grace_s` finds its segments in flight or in the cache. The body must
    have been read.
    """

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task = asyncio.create_task(work)
    watcher = asyncio.create_task(disconnected())
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        requests.note_abandoned()
        if grace_s:
            await asyncio.wait({task}, timeout=grace_s)
        raise ClientGone
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


# ---- server-sent events

Events = AsyncGenerator[TextDelta | TextDone]


class EventStream(StreamingResponse):
    """`lines` are whole `data: ...` lines. Both generators are closed before the response returns.

    Starlette leaves the iterator of a stream whose client disconnected to the garbage collector; its sequences would go on
    decoding until then. `source` is closed on its own: closing a generator that never started runs nothing in it.
    """

    media_type = "text/event-stream"

    def __init__(self, lines: AsyncGenerator[bytes], source: AsyncGenerator[Any]) -> None:
        super().__init__(lines, headers={"Cache-Control": "no-cache"})
        self._lines = lines
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._lines.aclose()
            await self._source.aclose()


async def stream(
    http: Request,
    events: Events,
    objects: Callable[[Events], AsyncGenerator[object]],
    failure: Callable[[DragomanError], object],
) -> Response:
    """The objects that an API makes of a translation's events, and at the end `[DONE]` or the API's error object.

    It waits for the first event before the status is sent, so that a refusal is still a proper error.
    """

    async def next_event() -> TextDelta | TextDone:
        return await anext(events)

    first = await while_connected(http, next_event())

    async def all_events() -> Events:
        yield first
        async for event in events:
            yield event

    async def lines() -> AsyncGenerator[bytes]:
        try:
            async for value in objects(all_events()):
                yield _line(value)
            yield b"data: [DONE]\n\n"
        except DragomanError as error:  # the status is already sent: the stream carries the error
            yield _line(failure(error))

    return EventStream(lines(), source=events)


def _line(value: object) -> bytes:
    return b"data: " + json_bytes(value) + b"\n\n"


# ---- white space for clients that give up early

FIRST_AFTER_S = 3.0
EVERY_S = 2.0

# What a proxy must not do to such a response: compress it or collect it before it is passed on.
_STREAM_HEADERS = {"Cache-Control": "no-transform", "X-Accel-Buffering": "no"}


async def translate_with_heartbeat(
    http: Request,
    service: TranslationService,
    request: TranslationRequest,
    render: Callable[[list[Translation]], Awaitable[bytes]],
    *,
    grace_s: float = 0.0,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The JSON that `render` makes of the translations, with white space before it where they take long.

    Until `FIRST_AFTER_S`, and until the service has admitted the call and settled the languages and limits of all its texts, a
    failure is raised, and has its own status. Later only the engine and the call's deadline can fail.
    A client that disconnects leaves the work running for `grace_s`, with its permit, so that its retry joins it.
    """
    planned = asyncio.Event()

    async def work() -> bytes:
        return await render(await service.translate(request, on_planned=planned.set))

    task = asyncio.create_task(while_connected(http, work(), grace_s=grace_s))
    # An HTTP/1.0 client could not distinguish a response that was broken off from a whole one.
    wait_s = None if http.scope["http_version"] == "1.0" else FIRST_AFTER_S
    try:
        await asyncio.wait({task}, timeout=wait_s)
        while not (task.done() or planned.is_set()):
            await asyncio.wait({task}, timeout=EVERY_S)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        return Response(task.result(), 200, headers, "application/json")
    return _Heartbeat(task, headers or {})


class _Heartbeat(Response):
    """White space while `body` is awaited, and then the body."""

    def __init__(self, body: asyncio.Task[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(None, 200, _STREAM_HEADERS | dict(headers), "application/json")
        del self.headers["content-length"]
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while not self._body.done():
                await send({"type": "http.response.body", "body": b" ", "more_body": True})
                await asyncio.wait({self._body}, timeout=EVERY_S)
            await send({"type": "http.response.body", "body": self._body.result()})
        except ClientGone:
            note_fault(CANCELLED)
        except DragomanError as error:
            note_fault(error.code)  # and no last chunk: the HTTP server closes the connection
        finally:
            self._body.cancel()
            await asyncio.gather(self._body, return_exceptions=True)
