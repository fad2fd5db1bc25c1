"""Serves the page for people who translate (`/`), the engine's live view (`/engine`), the API's reference (`/docs`) and the
files that they load (`/web/*`), from the package.

Knows nothing of the service: the pages use its HTTP API, as any client does. They need no other host, and their
Content-Security-Policy allows none.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/engine": "engine.html", "/docs": "docs.html"}
HEADERS = {
    "Cache-Control": "no-cache",  # keep a copy, and revalidate it each time: the ETag makes that cheap
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class PageFiles(StaticFiles):
    """Starlette's, with the page's headers on every answer."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


def install(app: FastAPI) -> None:
    """Add the pages to the app."""
    mimetypes.add_type("text/javascript", ".js")  # else as this machine has it
    pages = PageFiles(directory=STATIC)

    def page(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await pages.get_response(name, request.scope)

        return answer

    for path, name in PAGES.items():
        app.add_api_route(path, page(name), methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/web", pages, name="web")
