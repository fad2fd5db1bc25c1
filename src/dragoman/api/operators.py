"""What operators ask a server: `/metrics`, `/v1/stats`, `/v1/replicas` and `/v1/reload`. On the server's own
port these need an operator's key where keys are needed; the operator's port serves them without.

Where several replicas serve one address, that address answers for all of them, except for `/metrics`: those are of whichever
replica was reached, and `/v1/replicas` says where each one's are. A replica's own operator's port answers for it alone.
"""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from dragoman.api import openapi, schemas
from dragoman.api.input import Service
from dragoman.api.replicas import Replicas, sum_stats
from dragoman.wire import MetricsTarget, Stats

router = APIRouter(responses=openapi.failures(schemas.ErrorAnswer, 401, 403))


async def _replicas_of(request: Request) -> Replicas | None:
    return cast("Replicas | None", request.app.state.replicas)


AllReplicas = Annotated[Replicas | None, Depends(_replicas_of)]
"""None: the service is the only one that the app answers for."""


@router.get("/v1/stats", summary="The engine and the queue now; rates over the last minute")
async def stats(service: Service, replicas: AllReplicas) -> Stats:
    """Running and waiting sequences, KV cache usage, admission, latencies: for people, for the page and for load tests."""
    return service.stats() if replicas is None else sum_stats(await replicas.stats())


@router.get("/metrics", summary="Prometheus metrics: dragoman's and vLLM's", response_class=Response)
async def metrics(service: Service) -> Response:
    """Text exposition format. Of one of several replicas, whichever was reached: every sample has its name as `replica`."""
    return Response(await service.exposition(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


@router.get("/v1/replicas", summary="Where each replica's metrics are")
async def replica_targets(request: Request, service: Service, replicas: AllReplicas) -> list[MetricsTarget]:
    """For Prometheus' HTTP service discovery. A server that is the only one names the address that was asked."""
    if replicas is not None:
        return await replicas.targets()
    labels = {"replica": service.replica} if service.replica else {}
    return [MetricsTarget(targets=[request.url.netloc], labels=labels)]


@router.post("/v1/reload", summary="Read keys, their limits and their usage now", status_code=204)
async def reload(service: Service, replicas: AllReplicas) -> None:
    """A server does so by itself every `auth.refresh_s`; this makes a new or revoked key count immediately, in all replicas.

    503: a replica could not be reached; the others have read them."""
    await (service.accounts.reload() if replicas is None else replicas.reload())
