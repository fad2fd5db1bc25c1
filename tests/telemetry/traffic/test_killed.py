"""A server that is killed in the middle of its work: what its files hold, and what its next start makes of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from dragoman.telemetry.traffic.entry import TrafficReader, traffic_files
from tests.processes import ServerProcess, serving
from tests.waiting import until

CLIENTS = 8


async def post(client: httpx.AsyncClient, number: int) -> str:
    """The answer's id."""
    body = {"text": ["Where is the station?"] * (number % 3 + 1), "source": "en", "target": "ja"}
    answer = await client.post("/v1/translate", json=body)
    assert answer.status_code == 200
    return answer.headers["x-request-id"]


def recorded(folder: Path) -> set[str]:
    return {entry.request_id for entry in TrafficReader([folder])} if folder.exists() else set()


async def load_until_killed(server: ServerProcess, folder: Path) -> set[str]:
    """Several clients at once; kill -9 amid them, once what they were answered in the beginning is on disk: its ids."""
    answered: list[str] = []

    async def client_of(number: int) -> None:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            while True:
                answered.append(await post(client, number))

    clients = [asyncio.create_task(client_of(number)) for number in range(CLIENTS)]
    await until(lambda: len(answered) >= 300, "three hundred answers", deadline_s=120)
    old = set(answered)
    await until(lambda: old <= recorded(folder), "their records while others are written", deadline_s=60)
    assert not any(client.done() for client in clients), "a client failed before the kill"
    server.process.kill()
    await server.ended()
    await asyncio.gather(*clients, return_exceptions=True)
    assert len(answered) > len(old)
    return old


async def test_kill_9_loses_only_what_was_answered_last_and_corrupts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traffic"
    flags = (f"--traffic-folder={folder}", "--log-level=warning")
    async with serving(tmp_path, *flags) as server:
        old = await load_until_killed(server, folder)
    killed = TrafficReader([folder])
    entries = list(killed)
    assert killed.alien == 0
    assert killed.torn <= 1
    assert old <= {entry.request_id for entry in entries}
    assert {entry.outcome for entry in entries} == {"ok"}
    assert not any(entry.text for entry in entries)

    before = {path: path.read_bytes() for path in traffic_files(folder)}
    async with serving(tmp_path, *flags) as server, httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        name = await post(client, 0)
        assert await server.end() == 0
    assert {path: path.read_bytes() for path in before} == before  # a new start begins a new file
    assert len(traffic_files(folder)) == len(before) + 1
    assert list(TrafficReader([folder]))[-1].request_id == name  # what was left was written at the end
