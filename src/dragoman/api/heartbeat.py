"""Responses that keep clients waiting: for APIs whose clients give up after 5 to 10 s without a byte, and then try again.

JSON may begin with white space. A response that takes longer than `FIRST_AFTER_S` therefore starts with status 200 and a
space, another one every `EVERY_S`, and then the JSON. The price is that the status is sent before the result is known, so
that a later failure can only break the response off: the connection is closed without the last chunk, which every HTTP/1.1
client reports as an error.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing

from fastapi import Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from dragoman.api.middleware import ClientGone, while_connected
from dragoman.errors import DragomanError
from dragoman.service.service import TranslationService
from dragoman.telemetry.requests import CANCELLED, CLIENT_CLOSED_REQUEST, note_fault
from dragoman.types import Translation, TranslationRequest

FIRST_AFTER_S = 3.0
EVERY_S = 2.0

Render = Callable[[list[Translation]], Awaitable[bytes]]
"""Translations as an API's JSON. Awaited, so that a long list can be serialised in time slices."""

# What a proxy must not do to such a response: compress it or collect it before it is passed on.
_STREAM_HEADERS = {"Cache-Control": "no-transform", "X-Accel-Buffering": "no"}


class HeartbeatResponse(Response):
    """Translates `request` while the response is awaited, and is the JSON that `render` makes of the translations.

    Until `FIRST_AFTER_S`, and until the service has admitted the call and settled the languages and limits of all its texts, a
    failure is an ordinary response with its own status. Later only the engine and the call's deadline can fail.
    A client that disconnects leaves the work running for `grace_s`, with its permit, so that its retry joins it.
    """

    media_type = "application/json"

    def __init__(
        self,
        service: TranslationService,
        request: TranslationRequest,
        render: Render,
        *,
        grace_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._service = service
        self._request = request
        self._render = render
        self._grace_s = grace_s
        self._sent_headers = dict(headers or {})
        self._planned = False
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # An HTTP/1.0 client could not distinguish a response that was broken off from a whole one.
        can_break_off = scope["http_version"] != "1.0"
        try:
            async with aclosing(self._heartbeat(send)) as heartbeat:
                body = await while_connected(
                    Request(scope, receive),
                    self._translated(),
                    grace_s=self._grace_s,
                    heartbeat=heartbeat if can_break_off else None,
                )
        except ClientGone:
            note_fault(CANCELLED)
            if not self._started:
                await Response(status_code=CLIENT_CLOSED_REQUEST)(scope, receive, send)
        except DragomanError as error:
            if not self._started:
                raise
            note_fault(error.code)  # and no last chunk: the HTTP server closes the connection
        else:
            if self._started:
                await send({"type": "http.response.body", "body": body})
            else:
                await Response(body, 200, self._sent_headers, self.media_type)(scope, receive, send)

    async def _translated(self) -> bytes:
        def planned() -> None:
            self._planned = True

        return await self._render(await self._service.translate(self._request, on_planned=planned))

    async def _heartbeat(self, send: Send) -> AsyncGenerator[float]:
        yield FIRST_AFTER_S
        while not self._planned:
            yield EVERY_S
        headers = Response(None, 200, _STREAM_HEADERS | self._sent_headers, self.media_type).headers
        del headers["content-length"]
        self._started = True
        await send({"type": "http.response.start", "status": 200, "headers": headers.raw})
        while True:
            await send({"type": "http.response.body", "body": b" ", "more_body": True})
            yield EVERY_S
