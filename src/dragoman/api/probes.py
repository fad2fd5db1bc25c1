"""For those who run the server: `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dragoman.api.native import Service

router = APIRouter()


@router.get("/healthz", summary="The process is alive")
async def healthz() -> dict[str, str]:
    """Answers as long as the event loop does."""
    return {"status": "ok"}


@router.get("/readyz", summary="A request sent now would be served at once")
async def readyz(service: Service) -> dict[str, str]:
    """503 until the engine has answered a warm-up, while draining, and while the engine is dead or comes back from that."""
    await service.check_ready()
    return {"status": "ready"}


@router.get("/metrics", summary="Prometheus metrics, ours and vLLM's", response_class=Response)
async def metrics(service: Service) -> Response:
    """Text exposition format."""
    return Response(await service.exposition(), media_type=CONTENT_TYPE_PLAIN_0_0_4)
