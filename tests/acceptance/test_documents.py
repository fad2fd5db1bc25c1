"""Documents of servers that are killed: alone, and one of two replicas."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.acceptance.replicated import ReplicatedServer, stats_when
from tests.processes import ServerProcess, serving
from wholetext.markup.spans import pseudolocalized

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

WORDS = "Where is the old train station of this city and when does the last train of it leave today"
FLAGS = ("--fake-step-ms=50", "--max-num-seqs=16", "--documents-owner-timeout-s=3", "--traffic=false")
PARAGRAPHS = 30


def text_of(number: int) -> str:
    return "\n\n".join(f"{WORDS} {number} {paragraph}" for paragraph in range(PARAGRAPHS)) + "\n"


async def upload(http: httpx.AsyncClient, number: int) -> str:
    files = {"file": (f"{number}.txt", text_of(number).encode())}
    answer = await http.post("/v1/documents", data={"target": "ja", "source": "en"}, files=files)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


async def documents(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """All of them, as soon as a server answers."""
    async with asyncio.timeout(300):
        while True:
            try:
                answer = await http.get("/v1/documents")
                if answer.status_code == 200:
                    return answer.json()["documents"]
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)


async def documents_when(
    http: httpx.AsyncClient, condition: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """All documents, once `condition` holds for them."""
    async with asyncio.timeout(300):
        while not condition(found := await documents(http)):  # noqa: ASYNC110 (the servers are other processes)
            await asyncio.sleep(0.2)
    return found


def segments_done(least: int) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda found: sum(one["segments_done"] for one in found) >= least


async def check_results(http: httpx.AsyncClient, ids: list[str]) -> None:
    """Each document is there once, whole and right."""
    found = await documents_when(http, lambda found: {one["state"] for one in found} == {"done"})
    assert sorted(one["id"] for one in found) == sorted(ids)
    for number, id_ in enumerate(ids):
        result = (await http.get(f"/v1/documents/{id_}/result")).text
        assert result == "\n\n".join(map(pseudolocalized, text_of(number).rstrip("\n").split("\n\n"))) + "\n"


async def test_a_server_killed_in_the_middle_of_five_documents_goes_on_after_its_start(tmp_path: Path) -> None:
    async with serving(tmp_path, *FLAGS) as server, httpx.AsyncClient(base_url=server.url) as http:
        ids = [await upload(http, number) for number in range(5)]
        before = await documents_when(http, segments_done(PARAGRAPHS))
        assert {"translating"} <= {one["state"] for one in before}
        below = server.below()
        server.process.send_signal(signal.SIGKILL)
        await server.ended()
        assert not psutil.wait_procs(below, 30)[1]
    async with serving(tmp_path, *FLAGS) as server, httpx.AsyncClient(base_url=server.url) as http:
        await check_results(http, ids)
        stats = (await http.get("/v1/stats")).json()
        done = sum(one["segments_done"] for one in before)
        assert stats["engine"]["finished"] <= 5 * PARAGRAPHS - done + 1  # and the warm-up's


async def test_a_server_that_stops_leaves_its_documents_to_the_next_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--pipeline=fake", *FLAGS) as server:
        async with httpx.AsyncClient(base_url=await server.listening()) as http:
            ids = [await upload(http, number) for number in range(2)]
            await documents_when(http, segments_done(10))
        assert await server.end() == 0
    async with serving(tmp_path, *FLAGS) as server, httpx.AsyncClient(base_url=server.url) as http:
        assert {one["state"] for one in await documents(http)} <= {"queued", "translating"}
        await check_results(http, ids)


async def test_the_documents_of_a_replica_that_is_killed_are_taken_over_and_any_replica_answers(tmp_path: Path) -> None:
    flags = ("--pipeline=fake", "--replicas=2", "--documents-max-running=1", *FLAGS)
    with ReplicatedServer(tmp_path, *flags) as server:
        url = await server.listening()
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            await stats_when(http, serving=2)
            ids = [await upload(http, number) for number in range(4)]
            await documents_when(http, lambda found: [one["state"] for one in found].count("translating") == 2)
            await documents_when(http, segments_done(20))
            server.replicas()[0].kill()
            await check_results(http, ids)
