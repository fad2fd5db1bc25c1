"""Server-sent events as a response that ends what feeds it, however the response ends.

Starlette leaves the iterator of a stream whose client hung up to the garbage collector; its sequences would go on decoding
until then, and its call would end after its request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class EventStream(StreamingResponse):
    """`lines` are whole `data: ...` lines. Both generators are closed before the response returns.

    `fed_by` is closed apart: closing a generator that never began, as `lines` may not have, runs nothing in it.
    """

    media_type = "text/event-stream"

    def __init__(self, lines: AsyncGenerator[bytes], fed_by: AsyncGenerator[Any]) -> None:
        super().__init__(lines, headers={"Cache-Control": "no-cache"})
        self._lines = lines
        self._fed_by = fed_by

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._lines.aclose()
            await self._fed_by.aclose()
