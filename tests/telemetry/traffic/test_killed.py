"""A server that is killed in the middle of its work: what its files hold, and what its next start makes of them."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from time import monotonic

import httpx

from dragoman.telemetry.traffic.entry import TrafficReader, traffic_files
from tests.processes import ServerProcess, serving

LOST_S = 1.0
"""A server that is killed loses no text that it had answered longer ago."""


async def post(client: httpx.AsyncClient, number: int) -> str:
    """The answer's id."""
    body = {"text": ["Where is the station?"] * (number % 3 + 1), "source": "en", "target": "ja"}
    answer = await client.post("/v1/translate", json=body)
    assert answer.status_code == 200
    return answer.headers["x-request-id"]


async def load_until_killed(process: asyncio.subprocess.Process, url: str) -> dict[str, float]:
    """Eight clients at once; kill -9 amid them. The ids answered, and how long before the kill."""
    answered: dict[str, float] = {}

    async def client_of(number: int) -> None:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            while True:
                answered[await post(client, number)] = monotonic()

    began_s = monotonic()
    clients = [asyncio.create_task(client_of(number)) for number in range(8)]
    while len(answered) < 300 or monotonic() - began_s < 3 * LOST_S:
        await asyncio.wait(clients, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        assert not any(client.done() for client in clients), "a client failed before the kill"
    killed_s = monotonic()
    process.send_signal(signal.SIGKILL)
    await process.wait()
    await asyncio.gather(*clients, return_exceptions=True)
    return {name: killed_s - at_s for name, at_s in answered.items()}


async def test_kill_9_loses_at_most_the_last_second_and_corrupts_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "traffic"
    async with serving(folder) as (process, url):
        answered = await load_until_killed(process, url)
    killed = TrafficReader([folder])
    entries = list(killed)
    assert killed.alien == 0
    assert killed.torn <= 1
    recorded = {entry.request_id for entry in entries}
    old = {name for name, before_kill_s in answered.items() if before_kill_s > LOST_S}
    assert len(old) >= 50
    assert old <= recorded
    assert {entry.outcome for entry in entries} == {"ok"}
    assert not any(entry.text for entry in entries)

    before = {path: path.read_bytes() for path in traffic_files(folder)}
    async with serving(folder) as (process, url), httpx.AsyncClient(base_url=url, timeout=30) as client:
        name = await post(client, 0)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert {path: path.read_bytes() for path in before} == before  # a new start begins a new file
    assert len(traffic_files(folder)) == len(before) + 1
    assert list(TrafficReader([folder]))[-1].request_id == name  # what was left was written at the end
