"""Refuses bodies over a size with 413, by Content-Length before reading, or by counting where there is none."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.api import errors
from dragoman.errors import BodyTooLarge


class BodyLimit:
    """ASGI middleware. Reads no body itself."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._check(int(dict(scope["headers"]).get(b"content-length", b"0")))
            await self.app(scope, self._counted(receive), send)
        except BodyTooLarge as error:
            await errors.response(error)(scope, receive, send)

    def _check(self, size: int) -> None:
        if size > self.max_body_bytes:
            raise BodyTooLarge(f"the body has {size} bytes or more; this server accepts {self.max_body_bytes}")

    def _counted(self, receive: Receive) -> Receive:
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            self._check(seen)
            return message

        return counted
