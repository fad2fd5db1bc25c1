"""Small servers for the bench's tests: one handler a path, started on a free port for the length of a block."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(routes: dict[str, Handler]) -> AsyncIterator[str]:
    """The URL of a server that answers `routes` by path, whatever the method."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    async with listening(app) as url:
        yield url


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[str]:
    """The URL of an app that listens on a free port."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def translation(text: str = "hallo", tokens: int | None = 5) -> dict[str, Any]:
    """dragoman's own answer."""
    usage = {"characters": 3, "prompt_tokens": 9, "completion_tokens": tokens}
    one = {"text": text, "source": "en", "detected": False, "finish_reason": "stop", "warnings": []}
    return {"translations": [one], "model": "small", "usage": usage}


async def translate(request: web.Request) -> web.StreamResponse:
    """`POST /v1/translate`, answered immediately."""
    body = await request.json()
    if body.get("stream"):
        return await streamed(request, [*deltas("ha", "llo"), "[DONE]"])
    return web.json_response(translation(body["text"].upper()))


def stats(**other: Any) -> dict[str, Any]:
    """`GET /v1/stats` with what every server reports."""
    reported: dict[str, Any] = {"state": "serving", "model": "small", "profile": "plain", "pipeline": "continuous"}
    return reported | {"device": "cpu"} | other


def deltas(*pieces: str) -> list[str]:
    return [json.dumps({"index": 0, "delta": piece}) for piece in pieces]


async def streamed(
    request: web.Request, events: Sequence[str], between: Callable[[int], Awaitable[None]] | None = None
) -> web.StreamResponse:
    """Sends each event's data, after `between(its number)` where that is given."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for number, event in enumerate(events):
        if between is not None:
            await between(number)
        await response.write(f"data: {event}\n\n".encode())
    return response


async def hang(request: web.Request) -> web.StreamResponse:
    """Never answers; ends when the client leaves."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")
