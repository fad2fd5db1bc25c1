"""Streams over a socket: what is written, and that what a client no longer reads has ended, wherever it has left."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator

import httpx
import pytest
from starlette.types import Message

from dragoman.api.answers import EventStream
from dragoman.errors import DragomanError, EngineFailed
from dragoman.pipelines.fake import FakePipeline
from dragoman.types import Completion, Delta, EngineSequence, Event, Planned, TextDelta, TextDone
from tests.serving import HeldPipeline, fake_service, served, service_over
from tests.waiting import until

PATHS = ["/v1/translate", "/v1/chat/completions"]
TEXT = "Where is the train station?"


class TricklingPipeline(FakePipeline):
    """Sequences emit `deltas` of `characters` each, and do not end before they are closed. Warm-ups do."""

    def __init__(self, deltas: int, characters: int = 1) -> None:
        super().__init__(lambda _: "はい")
        self.emitted = 0
        self._deltas, self._characters = deltas, characters

    async def _decode(self, sequence: EngineSequence) -> AsyncGenerator[Delta | Completion]:
        if sequence.id.startswith("warm-up"):
            async for item in super()._decode(sequence):
                yield item
            return
        for _ in range(self._deltas):
            await asyncio.sleep(0)
            self.emitted += 1
            yield Delta("x" * self._characters)
        await asyncio.Event().wait()


async def ask(client: httpx.AsyncClient, path: str, receive_bytes: int = 0) -> socket.socket:
    """A connection on which a stream was asked for, of which nothing has been read. `receive_bytes`: of its buffer."""
    body = {
        "/v1/translate": {"text": TEXT, "source": "en", "target": "ja", "stream": True},
        "/v1/chat/completions": {
            "model": "dragoman/ja",
            "messages": [{"role": "user", "content": TEXT}],
            "stream": True,
        },
    }[path]
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.setblocking(False)
    loop, content = asyncio.get_running_loop(), json.dumps(body)
    await loop.sock_connect(connection, (client.base_url.host, client.base_url.port))
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    await loop.sock_sendall(connection, f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
    return connection


async def read_until(connection: socket.socket, end: bytes) -> bytes:
    received, loop = b"", asyncio.get_running_loop()
    while end not in received and (piece := await loop.sock_recv(connection, 65_536)):
        received += piece
    return received


@pytest.mark.parametrize("path", PATHS)
async def test_the_last_text_and_the_end_are_one_piece(path: str) -> None:
    async with served(fake_service(lambda _: "駅は どこ です か？", step_s=0.001)) as client:
        connection = await ask(client, path)
        received = await read_until(connection, b"\r\n0\r\n\r\n")
        connection.close()
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"content-type: text/event-stream" in head
    *deltas, last, end = body.split(b"\r\n")[1::2]  # without the lengths of the chunks
    assert len(deltas) == 4
    assert all(one.endswith(b"\n\n") and b"data: " in one for one in deltas)
    assert last.endswith(b"data: [DONE]\n\n")
    assert last.count(b"data: ") == 2  # the translation or the reason, and the end
    assert end == b""


@pytest.mark.parametrize("path", PATHS)
async def test_a_failure_before_the_first_event_has_its_own_status(path: str) -> None:
    pipeline = HeldPipeline(lambda _: "はい")
    async with served(service_over(pipeline)) as client:
        pipeline.hold()
        connection = await ask(client, path)
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        pipeline.failure = EngineFailed("planted")
        pipeline.release.set()
        assert (await read_until(connection, b"}")).startswith(b"HTTP/1.1 500 ")
        connection.close()


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_leaves_before_the_first_event(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")
    await _leave(path, TricklingPipeline(0), caplog, status=499)


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_leaves_between_two_events(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman.request")
    await _leave(path, TricklingPipeline(3), caplog, status=200, read=b'"x"')


@pytest.mark.parametrize("path", PATHS)
async def test_a_client_that_leaves_what_it_was_sent_unread(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """More than the buffers hold: the server waits for the client when it leaves."""
    caplog.set_level(logging.INFO, "dragoman.request")
    await _leave(path, TricklingPipeline(2_000, 10_000), caplog, status=200, receive_bytes=4096)


async def _leave(
    path: str,
    pipeline: TricklingPipeline,
    caplog: pytest.LogCaptureFixture,
    *,
    status: int,
    read: bytes = b"",
    receive_bytes: int = 0,
) -> None:
    service = service_over(pipeline)
    async with served(service) as client:
        connection = await ask(client, path, receive_bytes)
        await until(lambda: pipeline.stats().running == 1, "a running sequence")
        if read:
            await read_until(connection, read)
        if receive_bytes:
            await until(lambda: pipeline.emitted > 500, "more than the buffers hold")
        connection.close()
        await until(lambda: (pipeline.stats().running, service.admission.calls) == (0, 0), "the end of the sequence")
        await until(lambda: bool(caplog.records), "the request's line")
    [line] = [record.fields for record in caplog.records if record.name == "dragoman.request"]  # type: ignore[attr-defined]
    assert (line["status"], line["outcome"]) == (status, "cancelled")


class _Writer:
    def write(self, event: TextDelta | TextDone) -> bytes:
        return b"data\n\n"

    def end(self, error: DragomanError | None) -> bytes:
        return b"end\n\n"


async def test_a_connection_that_breaks_closes_the_events() -> None:
    """As on servers whose `send` raises then."""
    closed = list[bool]()

    async def events() -> AsyncGenerator[Event]:
        try:
            yield Planned()
            while True:
                yield TextDelta(0, "a")
        finally:
            closed.append(True)

    async def connected() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        await EventStream(events(), _Writer(), 1)({"type": "http"}, connected, send)
    assert closed == [True]
