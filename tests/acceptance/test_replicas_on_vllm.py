"""Two replicas with real engines: each server restarts its own engine; Serve replaces a replica whose engine does not start."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import httpx
import psutil
import pytest

from dragoman import phrasebook
from tests.acceptance.replicated import Load, ReplicatedServer, stats_when
from tests.processes import START_S, title
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.engine, pytest.mark.timeout(900)]

CLIENTS = 8


def engine_of(replica: psutil.Process) -> psutil.Process:
    below = replica.children(recursive=True)
    (engine,) = [process for process in below if title(process).startswith("VLLM::EngineCore")]
    return engine


async def test_engines_that_crash_are_restarted_or_their_replicas_replaced(tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(phrasebook.model_dir(), model)
    flags = ("--replicas=2", "--max-model-len=1024", "--enforce-eager=true", "--cache-max-bytes=0")
    with ReplicatedServer(tmp_path, *flags, f"--model={model}") as server:
        await server.listening()
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

            async with Load(server.url).running(CLIENTS) as load:
                await load.more(2 * CLIENTS)
                model.rename(tmp_path / "away")
                lost = next(iter(replicas))
                engine_of(lost).kill()
                await until(lambda: lost not in server.replicas(), "its end", deadline_s=START_S)
                (tmp_path / "away").rename(model)
                await stats_when(http, deadline_s=START_S, restarts=0, serving=2)
                await load.more(2 * CLIENTS)
            # Of the replica whose engine could not be restarted, until Serve had noticed.
            assert all(re.match(r"503, Retry-After \d+:", failure) for failure in load.failed), load.failed
            replicas = set(server.replicas())
            assert lost not in replicas
        killed_replica = replicas.pop()
        its_engine = engine_of(killed_replica)
        killed_replica.kill()
        await until(lambda: not its_engine.is_running() or title(its_engine) == "", "the end of its engine")
        assert await server.end() == 0
