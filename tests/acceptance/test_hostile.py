"""`dragoman serve` as a process, and clients that want to stop it: heads without end, requests that stall, signals."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.acceptance.replicated import BODY
from tests.processes import ServerProcess, create_key, serving
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

MIB = 2**20
DRAIN_S = 5.0
STOP_S = 30.0
"""What a busy machine may take beside the drain."""
HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@asynccontextmanager
async def connected(server: ServerProcess) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    url = httpx.URL(server.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def flags_of(folder: Path) -> tuple[str, ...]:
    """Of a server that needs keys."""
    storage = f"sqlite:///{folder}/keys.db"
    await create_key(storage)
    return ("--auth=keys", f"--storage-url={storage}", f"--drain-timeout-s={DRAIN_S}")


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    async with serving(folder, *await flags_of(folder)) as server:
        yield server


async def status(reader: asyncio.StreamReader) -> int:
    """Of the next answer; 0 where the connection is closed without one."""
    try:
        async with asyncio.timeout(120):
            line = await reader.readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


async def healthy(server: ServerProcess) -> int:
    """The status of a probe; 0 where the server closes the connection."""
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
        try:
            return (await http.get("/healthz")).status_code
        except httpx.TransportError:
            return 0


async def test_a_head_without_an_end_costs_next_to_nothing(server: ServerProcess) -> None:
    """As much CPU as some hundred requests at most, whatever is sent."""
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
        began_s = server.cpu_s
        for _ in range(300):
            await http.get("/healthz")
        requests_s, before_bytes, before_s = server.cpu_s - began_s, server.resident_bytes, server.cpu_s
        for begin in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /"):
            async with connected(server) as (reader, writer):
                writer.write(begin)
                answer = asyncio.create_task(status(reader))
                try:
                    for _ in range(100):
                        writer.write(b"a" * MIB)
                        await writer.drain()
                except ConnectionError:
                    pass
                assert await answer in (431, 0)  # 0: closed while it was still sent
        assert server.cpu_s - before_s < requests_s
        assert server.resident_bytes - before_bytes < 20 * MIB
        assert (await http.get("/healthz")).status_code == 200


async def test_half_sent_requests_hold_no_handles_and_no_memory_for_good(tmp_path: Path) -> None:
    """With 128 file handles, 140 such clients at once."""
    limits = ("--header-timeout-s=2", "--body-timeout-s=2", "--max-body-bytes=1000000")
    async with serving(tmp_path, *await flags_of(tmp_path), *limits, files=128) as server, AsyncExitStack() as stack:
        before_bytes = server.resident_bytes
        halves = [b"GET /healthz HTTP/1.1\r\nX:", HEAD % 990_000 + b"{" * 900_000]
        answers: list[asyncio.Task[int]] = []
        for number in range(140):
            reader, writer = await stack.enter_async_context(connected(server))
            writer.write(halves[number % 2])
            answers.append(asyncio.create_task(status(reader)))
        # 401: without a key, before the body is waited for; 0: beyond the handles connections are closed.
        assert {408} <= set(await asyncio.gather(*answers)) <= {401, 408, 503, 0}
        async with asyncio.timeout(60):
            while await healthy(server) != 200:  # noqa: ASYNC110 (the handles are another process's)
                await asyncio.sleep(0.1)
        assert server.resident_bytes - before_bytes < 140 * MIB


async def test_sighup_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--pipeline=fake", *await flags_of(tmp_path)) as server:
        maps = Path(f"/proc/{server.process.pid}/maps")
        await until(lambda: "httptools" in maps.read_text(), "the server's imports", deadline_s=120)
        while not server.url:
            assert not server.has_ended
            server.process.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.05)  # between two signals
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
            assert (await http.post("/v1/translate", json=BODY)).status_code == 401
