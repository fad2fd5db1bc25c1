"""What operators ask a server: `/metrics`, `/v1/stats`, `/v1/traffic`, and `/v1/reload`. On the server's own port these need
an operator's key where keys are needed; the operator's port serves them without.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dragoman.api import schemas
from dragoman.api.access import Service
from dragoman.wire import Stats, Traffic

ANSWERS: dict[int | str, dict[str, Any]] = {
    401: {
        "description": "The server needs a key, and the request has none or a wrong one",
        "model": schemas.ErrorAnswer,
    },
    403: {"description": "The key is not an operator's", "model": schemas.ErrorAnswer},
    503: {"description": "The key is not known, and the database fails", "model": schemas.ErrorAnswer},
}

router = APIRouter()


@router.get("/v1/stats", summary="The engine and the queue now; rates over the last minute")
async def stats(service: Service) -> Stats:
    """Running and waiting sequences, KV cache usage, admission, latencies: for people, for the page and for load tests."""
    return service.stats()


@router.get("/v1/traffic", summary="The texts of the last hour")
async def traffic(service: Service) -> Traffic:
    """How many texts in flight, how long, how fast, with which outcome: for people and for `dragoman tune --watch`."""
    return await service.traffic()


@router.get("/metrics", summary="Prometheus metrics: dragoman's and vLLM's", response_class=Response)
async def metrics(service: Service) -> Response:
    """Text exposition format."""
    return Response(await service.exposition(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.post("/v1/reload", summary="Read keys, their limits and their usage now", status_code=204)
async def reload(service: Service) -> None:
    """A server does so by itself every `auth.refresh_s`; this makes a new or revoked key count immediately."""
    await service.accounts.reload()
