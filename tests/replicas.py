"""Several replicas in one process: each is asked by its operator's app, as in a deployment by its operator's port."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from dragoman.api.app import create_operator_app
from dragoman.api.replicas import Replicas, unreachable_stats
from dragoman.errors import Unavailable
from dragoman.service.service import TranslationService
from dragoman.wire import MetricsTarget, Stats


class ReplicasHere(Replicas):
    """`missing`: names of replicas that do not answer. `addresses`: where each one's metrics are."""

    def __init__(self, services: Sequence[TranslationService], missing: Sequence[str] = ()) -> None:
        self.services = services
        self.missing = missing
        self.addresses = [f"10.0.0.{place}:9000" for place in range(len(services))]

    async def stats(self) -> list[Stats]:
        found = [Stats.model_validate_json(await self._ask(one, "GET", "/v1/stats")) for one in self.services]
        return [*map(unreachable_stats, self.missing), *found]

    async def targets(self) -> list[MetricsTarget]:
        return [
            MetricsTarget(targets=[address], labels={"replica": one.replica})
            for one, address in zip(self.services, self.addresses, strict=True)
        ]

    async def reload(self) -> None:
        for one in self.services:
            await self._ask(one, "POST", "/v1/reload")
        if self.missing:
            raise Unavailable(f"not reached: {', '.join(self.missing)}")

    async def _ask(self, service: TranslationService, method: str, path: str) -> bytes:
        transport = httpx.ASGITransport(create_operator_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            response = await client.request(method, path)
            response.raise_for_status()
            return response.content
