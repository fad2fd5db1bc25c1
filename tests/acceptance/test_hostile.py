"""`dragoman serve` as a process, and clients that want to stop it: heads without end, requests that stall, signals."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic

import httpx
import psutil
import pytest

from tests.acceptance.replicated import BODY, ROOT
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

MIB = 2**20
DRAIN_S = 5.0
STOP_S = 30.0
"""What a busy machine may take beside the drain."""
HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


class Server:
    """The process, its log, and where it listens."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def url(self) -> str:
        found = re.search(r"listens on (http://\S+) after", self._log.read_text())
        return found[1] if found else ""

    @property
    def resident_bytes(self) -> int:
        return psutil.Process(self.process.pid).memory_info().rss

    @property
    def cpu_s(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        url = httpx.URL(self.url)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


@asynccontextmanager
async def starting(folder: Path, *flags: str, files: int | None = None) -> AsyncIterator[Server]:
    """A server that starts, and needs keys. `files`: how many it may have open."""
    log = folder / "server.log"
    dragoman = [sys.executable, "-m", "dragoman.cli.main"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    creating = await asyncio.create_subprocess_exec(*dragoman, "keys", "create", "one", cwd=folder, env=environment)
    assert await creating.wait() == 0
    command = [*dragoman, "serve", "--port=0", "--pipeline=fake", "--auth=keys", *flags]

    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    with log.open("w") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            preexec_fn=limit,
        )
    try:
        yield Server(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def serving(folder: Path, *flags: str, files: int | None = None) -> AsyncIterator[Server]:
    """A server that serves."""
    async with starting(folder, f"--drain-timeout-s={DRAIN_S}", *flags, files=files) as server:
        ended = lambda: server.process.returncode is not None  # noqa: E731
        await until(lambda: server.url != "" or ended(), "a server", deadline_s=120)
        assert not ended()
        yield server


async def status(reader: asyncio.StreamReader) -> int:
    """Of the next answer; 0 where the connection is closed without one."""
    try:
        async with asyncio.timeout(120):
            line = await reader.readline()
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


async def healthy(server: Server) -> int:
    """The status of a probe; 0 where the server closes the connection."""
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
        try:
            return (await http.get("/healthz")).status_code
        except httpx.TransportError:
            return 0


async def test_a_head_without_an_end_costs_next_to_nothing(tmp_path: Path) -> None:
    """As much CPU as some hundred requests at most, whatever is sent."""
    async with serving(tmp_path) as server, httpx.AsyncClient(base_url=server.url, timeout=120) as http:
        began_s = server.cpu_s
        for _ in range(300):
            await http.get("/healthz")
        requests_s, before_bytes, before_s = server.cpu_s - began_s, server.resident_bytes, server.cpu_s
        for begin in (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /"):
            async with server.connected() as (reader, writer):
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
    async with serving(tmp_path, *limits, files=128) as server, AsyncExitStack() as stack:
        before_bytes = server.resident_bytes
        halves = [b"GET /healthz HTTP/1.1\r\nX:", HEAD % 990_000 + b"{" * 900_000]
        answers: list[asyncio.Task[int]] = []
        for number in range(140):
            reader, writer = await stack.enter_async_context(server.connected())
            writer.write(halves[number % 2])
            answers.append(asyncio.create_task(status(reader)))
        # 0: beyond the handles connections are closed.
        assert {408} <= set(await asyncio.gather(*answers)) <= {408, 503, 0}
        async with asyncio.timeout(60):
            while await healthy(server) != 200:  # noqa: ASYNC110 (the handles are another process's)
                await asyncio.sleep(0.1)
        assert server.resident_bytes - before_bytes < 140 * MIB


@pytest.mark.parametrize(
    "sent", [b"GET /healthz HTT", HEAD % 100 + b"{", b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500]
)
async def test_a_stalled_client_delays_the_end_no_longer_than_a_drain(tmp_path: Path, sent: bytes) -> None:
    """It stops within its headers, within its body, or reads no answer; without a key."""
    async with serving(tmp_path) as server, server.connected() as (_, writer):
        writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        writer.write(sent)
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
            await http.get("/healthz")
        began_s = monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(server.process.wait(), DRAIN_S + STOP_S) == 0
        assert monotonic() - began_s < DRAIN_S + STOP_S


async def test_sighup_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    async with starting(tmp_path) as server:
        maps = Path(f"/proc/{server.process.pid}/maps")
        await until(lambda: "httptools" in maps.read_text(), "the server's imports", deadline_s=120)
        while not server.url:
            assert server.process.returncode is None
            server.process.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.05)  # between two signals
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
            assert (await http.post("/v1/translate", json=BODY)).status_code == 401
