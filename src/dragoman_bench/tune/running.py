"""A server that is up, checked and ready to be measured: started as a `Setup` says, with what it tells of itself.

Knows how servers are started and asked; not what is measured, nor what follows from it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import Bench, prepared
from dragoman_bench.bench.results import members
from dragoman_bench.bench.servers import RunningServer, ServerCommand, ServerFault, serving
from dragoman_bench.journey.steps import Step, Subject, command_of, target_of
from dragoman_bench.tune.meter import Meter
from dragoman_bench.tune.points import KvCache, Level, Setup
from dragoman_bench.tune.vitals import read_server

PATIENCE_S = 10.0  # for a server to say how it is

Starter = Callable[[str, Setup, Path], ServerCommand]
"""How a server is started: its name, its setup, and a file for its engine's log."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a running server says of itself; what it does not say is None or empty."""

    start_s: float
    kv_cache: KvCache | None = None
    gpu_memory_utilization: float | None = None
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Running:
    """Up until the block that started it ends."""

    server: RunningServer
    bench: Bench
    facts: Facts

    async def check(self) -> None:
        """Raises ServerFault where it has died, or no longer says that it is ready: an engine can die behind a server."""
        self.server.check_alive()
        status = await _status(self.server.url + self.server.command.ready_path)
        self.server.check_alive()
        if status != 200:
            answered = f"answers {status}" if status else "does not answer"
            raise ServerFault(f"{self.server.command.name} {answered} when asked whether it is ready")


class Unfit(Exception):
    """A server that started and cannot answer one text. The message is for people."""


def starter_for(subject: Subject) -> Starter:
    """Starts servers of the subject's model."""

    def start(name: str, setup: Setup, engine_log: Path) -> ServerCommand:
        return command_of(_step(name, setup), subject, engine_log)

    return start


@asynccontextmanager
async def running(
    name: str, setup: Setup, meter: Meter, subject: Subject, starter: Starter, logs: Path
) -> AsyncGenerator[Running]:
    """Within: it runs and has answered a text of each language pair. Raises ServerFault where it does not start, Unfit
    where it starts and does not translate, Interrupted."""
    command = starter(name, setup, engine_log(logs, name))
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(command, server_log(logs, name), meter.interrupted))
        facts = replace(await _facts(server.url), start_s=server.start_s)
        plan = meter.plan(server.url, target_of(_step(name, setup), subject), Level(1))
        try:
            bench = await stack.enter_async_context(prepared(plan))
        except ConfigError as error:
            raise Unfit(error.message) from error
        yield Running(server, bench, facts)


def server_log(logs: Path, name: str) -> Path:
    return logs / f"{name}.log"


def engine_log(logs: Path, name: str) -> Path:
    return logs / f"{name}.engine.log"


def _step(name: str, setup: Setup) -> Step:
    return Step(name, name, setup.kind, setup.flags, ())


async def _facts(url: str) -> Facts:
    """From dragoman's `/v1/stats`; nothing from another server."""
    try:
        async with _session() as session, session.get(f"{url}/v1/stats") as response:
            document = members(await response.json()) if response.status == 200 else {}
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        document = {}
    told = read_server(document)
    cache = KvCache(told.kv_tokens, told.kv_bytes_per_token) if told.kv_tokens else None
    engine = members(members(document.get("settings")).get("engine"))
    return Facts(0.0, cache, told.gpu_memory_utilization, engine)


async def _status(url: str) -> int | None:
    try:
        async with _session() as session, session.get(url) as response:
            return response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE_S))
