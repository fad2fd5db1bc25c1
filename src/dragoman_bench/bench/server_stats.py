"""Samples statistics of a server and of its GPUs during a measurement.

dragoman has `GET /v1/stats`, vLLM has Prometheus metrics at `GET /metrics`; other servers are only measured from outside. A
sample's time is that of its answer; a slow server is sampled less often, without a queue of requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from dragoman.gpu import NvmlGpus, Reading
from dragoman.wire import Stats
from dragoman_bench.bench.client import Clock
from dragoman_bench.bench.measurement import elements, members
from dragoman_bench.bench.results import GpuSample, ServerSample

TIMEOUT_S = 5.0  # of one sample
_IN_USE_MIB = 1024
_METRICS = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:inter_token_latency_seconds_sum": "itl_sum_s",
    "vllm:inter_token_latency_seconds_count": "itl_count",
}


class StatsSource(Protocol):
    """A source of samples. `sample` returns None if the server did not answer correctly."""

    async def sample(self, clock: Clock) -> ServerSample | None: ...

    async def settings(self) -> dict[str, Any]:
        """Return the configuration that the server reports; empty if it reports none."""
        ...


@dataclass(frozen=True, slots=True)
class DragomanStats:
    """Reads `GET /v1/stats`."""

    session: aiohttp.ClientSession
    url: str

    async def read(self) -> Stats | None:
        """Read the statistics; None if the server does not answer with statistics."""
        try:
            return Stats.model_validate_json(await _get(self.session, self.url))
        except ValidationError:
            return None

    async def sample(self, clock: Clock) -> ServerSample | None:
        stats = await self.read()
        if stats is None:
            return None
        engine = stats.engine
        return ServerSample(
            t_s=round(clock.now(), 6),
            running=engine.running,
            waiting=engine.waiting,
            kv_cache_usage=engine.kv_cache_usage,
            preemptions=engine.preemptions,
            busy_s=engine.busy_s,
            itl_sum_s=engine.inter_token_latency_sum_s,
            itl_count=engine.inter_token_latency_count,
        )

    async def settings(self) -> dict[str, Any]:
        stats = await self.read()
        if stats is None:
            return {}
        named = {"pipeline", "model", "profile", "device", "cpu_instruction_sets", "version"}
        found = stats.model_dump(mode="json", include=named, exclude_unset=True) | stats.settings
        if stats.engine.dtype is not None:
            found["dtype"] = stats.engine.dtype
        return found | ({"replicas": len(stats.replicas)} if stats.replicas else {})


@dataclass(frozen=True, slots=True)
class PrometheusStats:
    """Reads vLLM's gauges and counters, summed over its engines; KV cache usage is the highest of any."""

    session: aiohttp.ClientSession
    url: str
    server: str

    async def sample(self, clock: Clock) -> ServerSample | None:
        return parse_prometheus(await _get(self.session, self.url), clock.now())

    async def settings(self) -> dict[str, Any]:
        models, version = await self._members("/v1/models"), await self._members("/version")
        first = members(next(iter(elements(models.get("data"))), None))
        named = {key: first[key] for key in ("id", "root", "max_model_len") if key in first}
        return named | ({"version": version["version"]} if "version" in version else {})

    async def _members(self, path: str) -> dict[str, Any]:
        try:
            return members(json.loads(await _get(self.session, self.server + path)))
        except ValueError:
            return {}


async def _get(session: aiohttp.ClientSession, url: str) -> str:
    """The page; empty where there is none."""
    try:
        async with asyncio.timeout(TIMEOUT_S), session.get(url) as response:
            return await response.text() if response.status == 200 else ""
    except (aiohttp.ClientError, OSError, TimeoutError, UnicodeDecodeError):
        return ""


async def find_stats(session: aiohttp.ClientSession, server: str) -> StatsSource | None:
    """Return the first source that answers, of dragoman's and vLLM's paths."""
    server = server.rstrip("/")
    dragoman = DragomanStats(session, f"{server}/v1/stats")
    if await dragoman.read() is not None:
        return dragoman
    prometheus = PrometheusStats(session, f"{server}/metrics", server)
    return prometheus if await prometheus.sample(Clock(0.0)) is not None else None


def parse_prometheus(page: str, t_s: float) -> ServerSample | None:
    """Parse a sample from Prometheus' text format; None if it has none of vLLM's metrics."""
    values: dict[str, list[float]] = {}
    # Only the lines that are needed: the parser takes 10 ms for a whole page of vLLM's, on the client's core.
    lines = [line for line in page.splitlines() if line.startswith(tuple(_METRICS))]
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            for sample in family.samples:
                if sample.name in _METRICS:
                    values.setdefault(_METRICS[sample.name], []).append(sample.value)
    except ValueError:
        return None
    if not values:
        return None
    usage = max(values.pop("kv_cache_usage", ()), default=None)
    found: dict[str, Any] = {name: sum(one) for name, one in values.items()}
    found |= {name: int(found[name]) for name in ("running", "waiting", "preemptions", "itl_count") if name in found}
    return ServerSample(t_s=round(t_s, 6), kv_cache_usage=usage, **found)


@dataclass(slots=True)
class Samples:
    """The samples of a measurement, in order of time."""

    server: list[ServerSample] = field(default_factory=list[ServerSample])
    gpu: list[GpuSample] = field(default_factory=list[GpuSample])


@dataclass(frozen=True, slots=True)
class Sampler:
    """Samples a source, and the GPUs in use, at an interval. None: no source, or no GPUs."""

    stats: StatsSource | None = None
    gpus: NvmlGpus | None = None
    every_s: float = 0.1

    @asynccontextmanager
    async def running(self, clock: Clock) -> AsyncGenerator[Samples]:
        """Sample until the block ends, with a sample at its start and its end; yields the growing `Samples`."""
        samples, stop = Samples(), asyncio.Event()
        in_use: frozenset[int] = frozenset()

        async def sample_server() -> None:
            if self.stats is not None and (sample := await self.stats.sample(clock)) is not None:
                samples.server.append(sample)

        async def sample_gpus() -> None:
            nonlocal in_use
            if self.gpus is None:
                return
            readings = await asyncio.to_thread(self.gpus.read)
            in_use = in_use or gpus_in_use(readings)
            t_s = round(clock.now(), 6)
            for r in readings:
                if r.gpu in in_use:
                    samples.gpu.append(GpuSample(t_s, r.gpu, r.utilisation_percent, round(r.memory_mib, 1)))

        wanted = [take for take, of in ((sample_server, self.stats), (sample_gpus, self.gpus)) if of is not None]
        tasks = [asyncio.create_task(_repeat(take, self.every_s, stop)) for take in wanted]
        try:
            yield samples
        finally:
            stop.set()
            await asyncio.gather(*tasks)


def gpus_in_use(readings: Sequence[Reading]) -> frozenset[int]:
    """Return the GPUs with at least 1 GiB in use, else all."""
    return frozenset(r.gpu for r in readings if r.memory_mib >= _IN_USE_MIB) or frozenset(r.gpu for r in readings)


async def _repeat(take: Callable[[], Awaitable[None]], every_s: float, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    while not stop.is_set():
        await take()
        due = max(due + every_s, loop.time())
        try:
            async with asyncio.timeout_at(due):
                await stop.wait()
        except TimeoutError:
            continue
    await take()
