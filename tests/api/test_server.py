"""The server process: signals, draining, exit codes, an address that is taken."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from dragoman import heap
from dragoman.api.server import DragomanServer, listen
from dragoman.errors import ConfigError
from dragoman.pipelines.continuous import ContinuousPipeline
from dragoman.settings import ServerSettings, Settings
from tests.pipelines.crashing import CrashingEngine
from tests.serving import HeldPipeline, echoing, fake_service, service_over
from tests.waiting import HANG_S, until


@pytest.fixture(autouse=True)
def heap_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a server freezes; tests that follow make garbage."""
    monkeypatch.setattr(heap, "_is_frozen", False)
    yield
    gc.unfreeze()


@asynccontextmanager
async def held_server(
    drain_timeout_s: float = HANG_S,
) -> AsyncIterator[tuple[asyncio.Task[int], httpx.AsyncClient, HeldPipeline]]:
    """A server in this process: its exit code to come, a client, and the pipeline, in which calls run until it is released."""
    pipeline = HeldPipeline(echoing())
    service = service_over(pipeline, Settings(server=ServerSettings(drain_timeout_s=drain_timeout_s)))
    ready: list[str] = []
    server = DragomanServer(service, listen("127.0.0.1", 0), ready.append)
    running = asyncio.create_task(server.run())
    await until(lambda: bool(ready), "a listening server")
    pipeline.hold()
    try:
        async with httpx.AsyncClient(base_url=ready[0], timeout=HANG_S) as client:
            yield running, client, pipeline
    finally:
        if not running.done():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        await running


async def post(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/v1/translate", json={"text": "Hello there.", "source": "en", "target": "ja"})


async def in_flight(client: httpx.AsyncClient, calls: int) -> None:
    while (await client.get("/v1/stats")).json()["in_flight"] != calls:
        pass


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_twenty_calls_refuses_new_ones_and_leaves_with_0(stop: signal.Signals) -> None:
    async with held_server() as (running, client, pipeline):
        calls = [asyncio.create_task(post(client)) for _ in range(20)]
        await in_flight(client, 20)
        signal.raise_signal(stop)
        while (await client.get("/readyz")).status_code == 200:
            pass
        refused = await post(client)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        pipeline.release.set()
        answers = await asyncio.gather(*calls)
        assert [answer.status_code for answer in answers] == [200] * 20
        assert await running == 0


async def test_a_drain_that_times_out_leaves_with_1() -> None:
    async with held_server(drain_timeout_s=0.05) as (running, client, _):
        call = asyncio.create_task(post(client))
        await in_flight(client, 1)
        signal.raise_signal(signal.SIGTERM)
        assert await running == 1
        [answer] = await asyncio.gather(call, return_exceptions=True)
        assert isinstance(answer, httpx.HTTPError) or answer.status_code == 503


@pytest.mark.parametrize("sent", [b"GET /healthz HTT", b"POST /v1/translate HTTP/1.1\r\nContent-Length: 100\r\n\r\n{"])
async def test_a_client_that_stalls_in_its_request_does_not_delay_the_end(sent: bytes) -> None:
    async with held_server(drain_timeout_s=600) as (running, client, _):
        with socket.create_connection((client.base_url.host, client.base_url.port)) as stalled:
            stalled.sendall(sent)
            await client.get("/healthz")  # so that the server has read it
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(HANG_S):
                assert await running == 0


async def test_a_client_that_does_not_read_its_answers_delays_the_end_no_longer_than_a_drain() -> None:
    async with held_server(drain_timeout_s=0.5) as (running, client, _):
        with socket.create_connection((client.base_url.host, client.base_url.port)) as unread:
            unread.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400)
            await client.get("/openapi.json")
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(HANG_S):
                assert await running == 0


async def test_a_server_whose_engine_is_lost_answers_what_it_has_and_leaves_with_1() -> None:
    engine = CrashingEngine(lambda _: "word word")
    ready: list[str] = []
    service = service_over(ContinuousPipeline(engine, first_pause_s=0))
    server = DragomanServer(service, listen("127.0.0.1", 0), ready.append)
    running = asyncio.create_task(server.run())
    await until(lambda: bool(ready), "a listening server")
    assert heap.is_heap_frozen()
    async with httpx.AsyncClient(base_url=ready[0], timeout=HANG_S) as client:
        engine.may_start.clear()
        engine.crash()
        calls = [asyncio.create_task(post(client)) for _ in range(4)]
        await until(lambda: service.pipeline.stats().waiting == 4, "four waiting calls")
        engine.failing_starts = 1_000
        engine.may_start.set()
        answers = await asyncio.gather(*calls)
    assert {(answer.status_code, answer.json()["error"]["code"]) for answer in answers} == {(503, "engine_dead")}
    assert await running == 1
    assert server.failure is not None


def test_an_address_that_is_taken_is_one_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("failing", ["service", "operators"])
async def test_a_failure_of_either_port_is_reported_and_exits_with_1(failing: str) -> None:
    listener, operators = listen("127.0.0.1", 0), listen("127.0.0.1", 0)
    server = DragomanServer(fake_service(), listener, operators=operators)
    closed = listener if failing == "service" else operators
    closed.close()  # uvicorn can then not listen
    with listener, operators:
        async with asyncio.timeout(HANG_S):
            assert await server.run() == 1
    assert server.failure is not None
