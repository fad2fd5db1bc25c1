"""Serves the live page: `/` and the files that it loads, `/web/*`, as they lie in the package.

Knows nothing of the service: the page speaks to it over HTTP, as any client does. The page needs no other host, and its
Content-Security-Policy lets it use none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

router = APIRouter(include_in_schema=False)

_MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
"""Written out, because Python's `mimetypes` takes the machine's word for it."""

_HEADERS = {
    "Cache-Control": "no-cache",  # keep a copy, and ask each time whether it is still right: the ETag makes that cheap
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file of the page. `etag` is quoted, as HTTP has it."""

    content: bytes
    media_type: str
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """Every file of the page by its name, read once."""
    folder = files("dragoman.api.web") / "static"
    return {entry.name: _asset(entry.name, entry.read_bytes()) for entry in folder.iterdir() if entry.is_file()}


def _asset(name: str, content: bytes) -> Asset:
    media_type = _MEDIA_TYPES[PurePosixPath(name).suffix]
    return Asset(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The page itself."""
    return _answer(request, assets()["index.html"])


@router.api_route("/web/{name}", methods=["GET", "HEAD"])
async def asset(name: str, request: Request) -> Response:
    """A file that the page loads."""
    found = assets().get(name)
    if found is None:
        raise HTTPException(404, "no such file")
    return _answer(request, found)


def _answer(request: Request, one: Asset) -> Response:
    headers = {**_HEADERS, "ETag": one.etag}
    if _has(request.headers.get("If-None-Match", ""), one.etag):
        return Response(status_code=304, headers=headers)
    return Response(one.content, media_type=one.media_type, headers=headers)


def _has(if_none_match: str, etag: str) -> bool:
    """RFC 9110, 13.1.2: a list of tags, compared weakly (a proxy that compresses marks ours as weak), or `*`."""
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return etag in tags or "*" in tags
