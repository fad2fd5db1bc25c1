"""How answers reach clients: JSON, server-sent events, and white space for clients that give up early.

The clients of some APIs give up after 5 to 10 s without a byte, and then try again. JSON may begin with white space. A
response that takes longer than `FIRST_AFTER_S` therefore starts with status 200 and a space, another one every `EVERY_S`,
and then the JSON. The price is that the status is sent before the result is known, so that a later failure can only break
the response off: the connection is closed without the last chunk, which every HTTP/1.1 client reports as an error.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO, Protocol
from urllib.parse import quote

import orjson
from fastapi import Request
from fastapi.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from dragoman.errors import DragomanError
from dragoman.service.service import TranslationService
from dragoman.telemetry import requests
from dragoman.telemetry.requests import CANCELLED, CLIENT_CLOSED_REQUEST, note_fault
from dragoman.types import Event, Planned, TextDelta, TextDone, Translation

# ---- JSON


def json_bytes(content: object) -> bytes:
    """A value as JSON. Lone surrogates are escaped, and integers may be of any size."""
    try:
        return orjson.dumps(content)
    except orjson.JSONEncodeError:
        return json.dumps(content, separators=(",", ":")).encode()


class JsonResponse(Response):
    """A value as JSON, which `json_bytes` serialises."""

    media_type = "application/json"
    render = staticmethod(json_bytes)  # pyright: ignore[reportAssignmentType]


async def json_items(service: TranslationService, items: Iterable[object]) -> list[orjson.Fragment]:
    """The items for a list within JSON, each serialised on its own: other calls run in between."""
    pace, fragments = service.calls.pace(), list[orjson.Fragment]()
    for item in items:
        fragments.append(orjson.Fragment(json_bytes(item)))
        await pace.pause()
    return fragments


# ---- files


def file_headers(name: str, media_type: str) -> dict[str, str]:
    """The headers of a file to save under a name (RFC 6266): never shown as a page of this server's origin."""
    plain = "".join(one if one.isascii() and one.isprintable() and one not in '"\\%' else "_" for one in name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    return {"Content-Type": media_type, "Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}


class OpenFileResponse(FileResponse):
    """An open file with its headers; it is sent to its end also if it is deleted meanwhile, and closed then."""

    def __init__(self, file: BinaryIO, headers: Mapping[str, str]) -> None:
        self._file = file
        # The path opens what the handle has, under whatever name, and so ranges are served as those of any file.
        super().__init__(f"/dev/fd/{file.fileno()}", headers=headers, stat_result=os.fstat(file.fileno()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


# ---- clients that disconnect


class ClientGone(Exception):
    """The client has disconnected: there is no connection for an answer."""


async def closed(request: Request, error: Exception) -> Response:
    """What is recorded as the response to a client that has disconnected."""
    note_fault(CANCELLED)
    return Response(status_code=CLIENT_CLOSED_REQUEST)


@asynccontextmanager
async def while_connected(receive: Receive, *, grace_s: float = 0.0) -> AsyncGenerator[None]:
    """Cancel the work in the context `grace_s` after the client has disconnected, and raise `ClientGone` then.

    A client that has given up and tries again within `grace_s` finds its segments in flight or in the cache. The body must
    have been read, and the work must not complete the response: servers report that as a disconnect.
    """
    task, is_gone = asyncio.current_task(), False
    assert task is not None

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        requests.note_abandoned()
        if grace_s:
            await asyncio.sleep(grace_s)
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not (is_gone and watcher.done() and task.uncancel() == 0):  # another has cancelled the request
            raise
        raise ClientGone from None
    except Exception:
        if is_gone:
            raise ClientGone from None
        raise
    finally:
        watcher.cancel()
    if is_gone:
        raise ClientGone


# ---- server-sent events


class EventWriter(Protocol):
    """An API's server-sent events for one call, as bytes."""

    def write(self, event: TextDelta | TextDone) -> bytes:
        """What an event adds to the stream, which may be nothing."""
        ...

    def end(self, error: DragomanError | None) -> bytes:
        """The stream's end: after all texts, or with the error that the call ended with."""
        ...


class EventStream(Response):
    """The events of a call of so many `texts`, each sent as it comes; the last text's end and the stream's in one piece.

    The status is sent with the first event, so that a refusal before it is a proper error. When the response ends, however
    it does, `events` is closed.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[Event], writer: EventWriter, texts: int, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, 200, {"Cache-Control": "no-cache", **(headers or {})})
        del self.headers["content-length"]
        self._events = events
        self._writer = writer
        self._texts = texts
        self._has_started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with while_connected(receive):
                rest = await self._send_events(send)
            await self._send(send, rest, more=False)
        except ClientGone:
            if not self._has_started:
                raise
        finally:
            await self._events.aclose()

    async def _send_events(self, send: Send) -> bytes:
        """Send all but the end, which is returned."""
        unfinished, last, failure = self._texts, b"", None
        try:
            async for event in self._events:
                if isinstance(event, Planned):
                    continue
                written = self._writer.write(event)
                unfinished -= isinstance(event, TextDone)
                if unfinished:
                    await self._send(send, written, more=True)
                else:
                    last = written
        except DragomanError as error:
            if not self._has_started:
                raise
            failure = error
        return last + self._writer.end(failure)

    async def _send(self, send: Send, body: bytes, *, more: bool) -> None:
        if not self._has_started:
            self._has_started = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if body or not more:
            await send({"type": "http.response.body", "body": body, "more_body": more})


# ---- white space for clients that give up early

FIRST_AFTER_S = 3.0
EVERY_S = 2.0

# What a proxy must not do to such a response: compress it or collect it before it is passed on.
_STREAM_HEADERS = {"Cache-Control": "no-transform", "X-Accel-Buffering": "no"}


class HeartbeatResponse(Response):
    """The JSON that `render` makes of a call's translations, with white space before it where they take long.

    Until `FIRST_AFTER_S`, and until the service has admitted the call and settled the languages and limits of all its texts, a
    failure is raised, and has its own status. Later only the engine and the call's deadline can fail: the response is broken
    off, or ends with what `late_error` makes of it. Without `heartbeat` there is no white space, and no late failure.
    A client that disconnects leaves the work running for `grace_s`, with its permit, so that its retry joins it.
    """

    media_type = "application/json"

    def __init__(
        self,
        events: AsyncGenerator[Event],
        render: Callable[[list[Translation]], Awaitable[bytes]],
        *,
        grace_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
        heartbeat: bool = True,
        late_error: Callable[[DragomanError], bytes] | None = None,
    ) -> None:
        super().__init__(None, 200, headers)
        self._events = events
        self._render = render
        self._grace_s = grace_s
        self._has_heartbeat = heartbeat
        self._late_error = late_error
        self._first_at_s = asyncio.get_running_loop().time() + FIRST_AFTER_S
        self._timer: asyncio.TimerHandle | None = None
        self._is_rendered = asyncio.Event()
        self._heartbeat: asyncio.Task[None] | None = None
        self._has_started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # An HTTP/1.0 client could not distinguish a response that was broken off from a whole one.
        beat_send = send if self._has_heartbeat and scope["http_version"] != "1.0" else None
        try:
            async with while_connected(receive, grace_s=self._grace_s):
                self.body = await self._read(beat_send)
            if self._has_started:
                await send({"type": "http.response.body", "body": self.body})
            else:
                self.headers["content-length"] = str(len(self.body))
                await super().__call__(scope, receive, send)
        except (ClientGone, DragomanError) as error:
            if not self._has_started:
                raise
            note_fault(error.code if isinstance(error, DragomanError) else CANCELLED)
            if self._late_error is not None and isinstance(error, DragomanError):
                await self._stop()
                await send({"type": "http.response.body", "body": self._late_error(error)})
            # Else, without a last chunk, the HTTP server closes the connection.
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            await self._events.aclose()

    async def _read(self, send: Send | None) -> bytes:
        translations: dict[int, Translation] = {}
        async for event in self._events:
            if isinstance(event, TextDone):
                translations[event.index] = event.translation
            elif isinstance(event, Planned) and send is not None:
                self._timer = asyncio.get_running_loop().call_at(self._first_at_s, self._start, send)
        body = await self._render([translations[index] for index in range(len(translations))])
        await self._stop()
        return body

    async def _stop(self) -> None:
        """End the heartbeat: nothing is sent by it any more."""
        self._is_rendered.set()
        if self._heartbeat is not None:
            await self._heartbeat

    def _start(self, send: Send) -> None:
        self._heartbeat = asyncio.create_task(self._beat(send))

    async def _beat(self, send: Send) -> None:
        """White space until the answer is there."""
        if self._is_rendered.is_set():
            return
        self._has_started = True
        del self.headers["content-length"]
        self.headers.update(_STREAM_HEADERS)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        while not self._is_rendered.is_set():
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._is_rendered.wait()
