"""Two replicas with real engines: the crash of an engine is its own server's to repair, and fails no call."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.replicated import START_S, Load, ReplicatedServer, stats_when, title
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(900)]

CLIENTS = 8


def engine_of(replica: psutil.Process) -> psutil.Process:
    """vLLM's engine process, which holds the model: the largest below a replica."""
    return max(replica.children(recursive=True), key=lambda process: process.memory_info().rss)


async def test_the_crash_of_an_engine_fails_no_call_and_that_of_a_replica_ends_its_engine(tmp_path: Path) -> None:
    server = ReplicatedServer(
        tmp_path, "--replicas=2", "--max-model-len=1024", "--enforce-eager=true", "--cache-max-bytes=0"
    )
    try:
        await server.start()
        async with httpx.AsyncClient(base_url=server.url, timeout=START_S) as http:
            replicas = set(server.replicas())
            async with Load(server.url).running(CLIENTS) as load:
                await load.more(2 * CLIENTS)
                killed = engine_of(next(iter(replicas)))
                killed.kill()
                await until(lambda: not killed.is_running() or title(killed) == "", "its end")
                await stats_when(http, deadline_s=START_S, restarts=1, serving=2)
                await load.more(2 * CLIENTS)
            assert load.failed == []
            assert set(server.replicas()) == replicas
        killed_replica = replicas.pop()
        its_engine = engine_of(killed_replica)
        killed_replica.kill()
        await until(lambda: not its_engine.is_running() or title(its_engine) == "", "the end of its engine")
        assert await server.end(signal.SIGTERM) == 0
    finally:
        await server.kill()
