"""What ops/ holds, on a real Prometheus that scrapes a dragoman under load: every panel has something to show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.ops.dashboard import Query, queries
from tests.ops.server import DEADLINE_S, Prometheus, prometheus
from tests.ops.tools import needs_prometheus
from tests.replicas import ReplicasHere
from tests.serving import fake_service, served
from tests.telemetry.metered import metered_service, some_of_everything

GONE = "127.0.0.1:9"
VARIABLES = {"__rate_interval": "60s", "job": "dragoman", "instance": ".*"}
# The fake has no KV cache and runs no vLLM, and its server has no cache and needs no keys.
NOT_OF_THE_FAKE = ("vllm:", "dragoman_engine_kv_cache_tokens", "invalid_key", 'result!="miss"')


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus that has a dragoman under load to look at, and one that is not there."""
    service = metered_service()
    async with served(service) as client, prometheus(tmp_path, client.base_url.netloc.decode(), GONE) as watching:

        async def load() -> None:
            while True:
                await some_of_everything(client, service)

        async with _running(load()):
            yield watching


@asynccontextmanager
async def _running(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _without_numbers(watching: Prometheus, wanted: list[Query]) -> list[Query]:
    """Those that still have none when the deadline comes."""
    end = monotonic() + DEADLINE_S
    while wanted and monotonic() < end:
        had = [await watching.has_numbers(query.filled(VARIABLES)) for query in wanted]
        wanted = [query for query, has in zip(wanted, had, strict=True) if not has]
        await asyncio.sleep(0.25)
    return wanted


@needs_prometheus
async def test_every_panel_has_numbers_every_rule_is_evaluated_and_what_is_not_there_is_down(
    watched: Prometheus,
) -> None:
    wanted = [query for query in queries() if not any(name in query.expr for name in NOT_OF_THE_FAKE)]
    assert not await _without_numbers(watched, wanted)
    for rule in await watched.rules():
        assert (rule["health"], rule.get("lastError", "")) == ("ok", ""), rule["name"]
    down = await _samples(watched, 'ALERTS{alertname="DragomanDown"}', 1)
    assert [one["metric"]["instance"] for one in down] == [GONE]


@needs_prometheus
async def test_each_replica_is_found_and_scraped_by_itself(tmp_path: Path) -> None:
    services = [fake_service(replica=name) for name in "ab"]
    everyone = ReplicasHere(services)
    async with served(services[0], replicas=everyone) as a, served(services[1], replicas=everyone) as b:
        everyone.addresses = [client.base_url.netloc.decode() for client in (a, b)]
        discovery = {"url": str(a.base_url.join("/v1/replicas")), "refresh_interval": "1s"}
        async with prometheus(tmp_path, honor_labels=True, http_sd_configs=[discovery]) as watching:
            for metric in ("up", "dragoman_ready", "process_cpu_seconds_total"):
                samples = await _samples(watching, metric, 2)
                found = {(one["metric"]["replica"], one["metric"]["instance"]) for one in samples}
                assert found == set(zip("ab", everyone.addresses, strict=True))
                assert not any("exported_replica" in one["metric"] for one in samples)


async def _samples(watching: Prometheus, expr: str, count: int) -> list[dict[str, Any]]:
    """Once there are so many."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            samples = await watching.query(expr)
            if len(samples) >= count:
                return samples
            await asyncio.sleep(0.1)
