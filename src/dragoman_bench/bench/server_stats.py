"""What a server reports of itself and its GPUs, sampled while a measurement runs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

from dragoman_bench.bench.client import Clock
from dragoman_bench.bench.gpu import Gpus, chosen
from dragoman_bench.bench.results import GpuSample, ServerSample, elements, members, number, whole

PATIENCE_S = 5.0  # for one sample: a busy server may be slow to tell, but not for ever
_GAUGES = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage",
    "vllm:num_preemptions_total": "preemptions",
    "vllm:inter_token_latency_seconds_sum": "itl_sum_s",
    "vllm:inter_token_latency_seconds_count": "itl_count",
}
_LINE = re.compile(rf"^({'|'.join(_GAUGES)})(?:\{{[^\n]*\}})? (\S+)", re.MULTILINE)


class ServerStats(Protocol):
    """`sample` returns None where the server did not answer properly."""

    async def sample(self, clock: Clock) -> ServerSample | None: ...

    async def settings(self) -> dict[str, Any]:
        """What the server says of its configuration; empty where it says nothing."""
        ...


class DragomanStats:
    """Flat JSON: running, waiting, kv_cache_usage, preemptions, busy_s, inter_token_latency_sum_s, ..., settings."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def sample(self, clock: Clock) -> ServerSample | None:
        stats = await _json(self._session, self._url)
        if stats is None:
            return None
        return ServerSample(
            t_s=round(clock.now(), 6),
            running=whole(stats.get("running")),
            waiting=whole(stats.get("waiting")),
            kv_cache_usage=number(stats.get("kv_cache_usage")),
            preemptions=whole(stats.get("preemptions")),
            busy_s=number(stats.get("busy_s")),
            itl_sum_s=number(stats.get("inter_token_latency_sum_s")),
            itl_count=whole(stats.get("inter_token_latency_count")),
        )

    async def settings(self) -> dict[str, Any]:
        stats = await _json(self._session, self._url) or {}
        named = ("pipeline", "model", "profile", "device", "queue_limit", "version")
        return {key: stats[key] for key in named if key in stats} | members(stats.get("settings"))


class PrometheusStats:
    """vLLM's gauges and counters, summed over its engines; KV cache usage is that of the fullest."""

    def __init__(self, session: aiohttp.ClientSession, url: str, server: str) -> None:
        self._session = session
        self._url = url
        self._server = server

    async def sample(self, clock: Clock) -> ServerSample | None:
        page = await _text(self._session, self._url)
        return None if page is None else from_prometheus(page, clock.now())

    async def settings(self) -> dict[str, Any]:
        models = await _json(self._session, f"{self._server}/v1/models") or {}
        version = await _json(self._session, f"{self._server}/version") or {}
        named = {key: value for key, value in version.items() if key == "version"}
        first = members(next(iter(elements(models.get("data"))), None))
        return named | {key: first[key] for key in ("id", "root", "max_model_len") if key in first}


async def find_stats(session: aiohttp.ClientSession, server: str, stats_url: str | None = None) -> ServerStats | None:
    """The first that answers: at `stats_url` where it is given, else at dragoman's and vLLM's own places."""
    server = server.rstrip("/")
    for url in [stats_url] if stats_url else [f"{server}/v1/stats"]:
        stats = await _json(session, url)
        if stats is not None and "running" in stats:
            return DragomanStats(session, url)
    for url in [stats_url] if stats_url else [f"{server}/metrics"]:
        page = await _text(session, url)
        if page is not None and _LINE.search(page):
            return PrometheusStats(session, url, server)
    return None


def from_prometheus(page: str, t_s: float) -> ServerSample | None:
    """A sample from an exposition page; None where it has none of vLLM's gauges."""
    values: dict[str, list[float]] = {}
    for name, value in _LINE.findall(page):
        values.setdefault(_GAUGES[name], []).append(float(value))
    if not values:
        return None

    def total(key: str) -> float | None:
        return sum(values[key]) if key in values else None

    return ServerSample(
        t_s=round(t_s, 6),
        running=whole(total("running")),
        waiting=whole(total("waiting")),
        kv_cache_usage=max(values.get("kv_cache_usage", ()), default=None),
        preemptions=whole(total("preemptions")),
        itl_sum_s=total("itl_sum_s"),
        itl_count=whole(total("itl_count")),
    )


async def _text(session: aiohttp.ClientSession, url: str) -> str | None:
    try:
        async with asyncio.timeout(PATIENCE_S), session.get(url) as response:
            return await response.text() if response.status == 200 else None
    except (aiohttp.ClientError, OSError, TimeoutError, UnicodeDecodeError):
        return None


async def _json(session: aiohttp.ClientSession, url: str) -> dict[str, Any] | None:
    page = await _text(session, url)
    try:
        return members(json.loads(page)) or None if page is not None else None
    except ValueError:
        return None


@dataclass(slots=True)
class Samples:
    server: list[ServerSample] = field(default_factory=list[ServerSample])
    gpu: list[GpuSample] = field(default_factory=list[GpuSample])


@dataclass(frozen=True, slots=True)
class Sampler:
    """What is sampled, and how often. None: there is nothing to ask."""

    stats: ServerStats | None
    gpus: Gpus | None
    wanted_gpus: frozenset[int] | None = None
    every_s: float = 0.1

    @asynccontextmanager
    async def running(self, clock: Clock) -> AsyncGenerator[Samples]:
        """Samples from now until the block ends, with one sample at either end; yields the growing `Samples`."""
        samples = Samples()
        takers = [taker for taker in (self._server_taker(clock, samples), self._gpu_taker(clock, samples)) if taker]
        stop = asyncio.Event()
        tasks = [asyncio.create_task(_pace(taker, self.every_s, stop)) for taker in takers]
        try:
            yield samples
        finally:
            stop.set()
            await asyncio.gather(*tasks)

    def _server_taker(self, clock: Clock, samples: Samples) -> Callable[[], Awaitable[None]] | None:
        stats = self.stats
        if stats is None:
            return None

        async def take() -> None:
            sample = await stats.sample(clock)
            if sample is not None:
                samples.server.append(sample)

        return take

    def _gpu_taker(self, clock: Clock, samples: Samples) -> Callable[[], Awaitable[None]] | None:
        gpus = self.gpus
        if gpus is None:
            return None
        picked: frozenset[int] = frozenset()

        async def take() -> None:
            nonlocal picked
            readings = await asyncio.to_thread(gpus.read)
            picked = picked or chosen(readings, self.wanted_gpus)
            t_s = round(clock.now(), 6)
            samples.gpu.extend(
                GpuSample(t_s, r.gpu, r.utilisation_percent, round(r.memory_mib, 1))
                for r in readings
                if r.gpu in picked
            )

        return take


async def _pace(take: Callable[[], Awaitable[None]], every_s: float, stop: asyncio.Event) -> None:
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
