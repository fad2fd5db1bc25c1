"""Serves the live page (`/`), the API's reference (`/docs`) and the files that they load (`/web/*`), from the package.

Knows nothing of the service: the pages use its HTTP API, as any client does. They need no other host, and their
Content-Security-Policy allows none.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = Path(__file__).parent / "static"
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

    async def index(request: Request) -> Response:
        return await pages.get_response("index.html", request.scope)

    async def docs(request: Request) -> Response:
        return await pages.get_response("docs.html", request.scope)

    app.add_api_route("/", index, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/docs", docs, methods=["GET", "HEAD"], include_in_schema=False)
    app.mount("/web", pages, name="web")
