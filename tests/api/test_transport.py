"""What clients send over a raw socket: offers of an upgrade, heads without end, requests that stall, answers left unread."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from dragoman.api.app import create_app
from dragoman.api.transport import MAX_HEADERS, BoundedProtocol, JoinedProtocol
from dragoman.settings import ServerSettings
from tests.serving import fake_service, served, wordy
from tests.waiting import HANG_S, scaled, until

BODY = json.dumps({"text": "Hello there.", "source": "en", "target": "ja"}).encode()
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAA\r\n"
ANSWERS = 150
"""More than the buffers of the kernel hold."""
SMALL_HEADS = ServerSettings(max_header_bytes=8_000)


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    async with served(fake_service(server=SMALL_HEADS)) as client:
        assert client.base_url.port is not None
        yield client.base_url.host, client.base_url.port


@pytest.fixture
async def impatient() -> AsyncIterator[tuple[str, int]]:
    """A server that waits half a second."""
    server = replace(SMALL_HEADS, header_timeout_s=0.5, body_timeout_s=0.5)
    async with served(fake_service(server=server)) as client:
        assert client.base_url.port is not None
        yield client.base_url.host, client.base_url.port


class Connection:
    """A connection that sends bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        """Each part by itself."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        async with asyncio.timeout(HANG_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            return int(head.split()[1]), await self.reader.readexactly(int(length))

    async def refusal(self) -> tuple[int, str]:
        """Status and code of the next answer, which is the last: the server closes the connection after it."""
        status, body = await self.answer()
        async with asyncio.timeout(HANG_S):
            assert await self.reader.read() == b""
        return status, json.loads(body)["error"]["code"]


@asynccontextmanager
async def connected(address: tuple[str, int]) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


def post(*headers: bytes, length: int = len(BODY)) -> bytes:
    lines = (b"POST /v1/translate HTTP/1.1", b"Host: localhost", b"Content-Type: application/json")
    return b"\r\n".join((*lines, b"Content-Length: %d" % length, *headers, b"\r\n"))


# ---- upgrades


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("headers", [H2C.rstrip(), b"Upgrade: websocket\r\nConnection: keep-alive, Upgrade"])
async def test_a_request_that_offers_an_upgrade_is_served_with_its_body(
    address: tuple[str, int], headers: bytes, is_split: bool
) -> None:
    async with connected(address) as connection:
        for _ in range(2):  # the connection goes on
            head = post(headers)
            await connection.send(*((head, BODY[:9], BODY[9:]) if is_split else (head + BODY,)))
            status, body = await connection.answer()
            assert (status, json.loads(body)["translations"][0]["text"]) == (200, "~Hello there.")


async def test_offers_of_an_upgrade_are_ignored_in_chunked_bodies_and_in_requests_sent_at_once(
    address: tuple[str, int],
) -> None:
    chunked = post(b"Transfer-Encoding: chunked", H2C.rstrip()).replace(b"Content-Length: %d\r\n" % len(BODY), b"")
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + H2C + b"\r\n"
    async with connected(address) as connection:
        await connection.send((chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY) + get) * 3)
        assert [(await connection.answer())[0] for _ in range(6)] == [200] * 6


async def test_connect_is_refused(address: tuple[str, int]) -> None:
    async with connected(address) as connection:
        await connection.send(b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n")
        assert (await connection.refusal())[0] == 400


# ---- what is written


class Sent(asyncio.Transport):
    """Keeps what each system call would send."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.calls.append(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.calls.append(b"")

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.mark.parametrize("protocol", [JoinedProtocol, partial(BoundedProtocol, ServerSettings())])
async def test_a_head_is_sent_with_its_body_or_alone_before_a_body_that_comes_later(
    protocol: Callable[..., JoinedProtocol],
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        if scope["path"] == "/later":
            await asyncio.sleep(0.01)
        for part in (b"ab", b"cd", b"ef"):
            await send({"type": "http.response.body", "body": part, "more_body": part != b"ef"})

    config = Config(app, log_config=None, lifespan="off")
    config.load()
    connection, transport = protocol(config=config, server_state=ServerState(), app_state={}), Sent()
    connection.connection_made(transport)
    for path, expected in ((b"/now", [b"\r\n\r\nab", b"cdef"]), (b"/later", [b"\r\n\r\n", b"abcd", b"ef"])):
        transport.calls.clear()
        connection.data_received(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        await until(lambda: b"ef" in b"".join(transport.calls), "the body", deadline_s=HANG_S)
        assert len(transport.calls) == len(expected)
        assert all(call.endswith(end) for call, end in zip(transport.calls, expected, strict=True))
    transport.calls.clear()
    connection.data_received(b"GET /now HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    await until(lambda: b"" in transport.calls, "the end", deadline_s=HANG_S)
    assert transport.calls[-2].endswith(b"ef")


# ---- bounds

ENDLESS = [
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"a"),
    (b"GET /", b"a"),
    (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"a: b\r\n"),
    (b"", b"\r\n"),
    (b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;x=", b"a"),
    (b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\nX: ", b"a"),
]


@pytest.mark.parametrize(("begin", "unit"), ENDLESS)
async def test_heads_and_trailers_without_an_end_are_refused(
    address: tuple[str, int], begin: bytes, unit: bytes
) -> None:
    """Not by their first read, whose size is the event loop's, but soon after."""
    async with connected(address) as connection:
        sent = 0

        async def send() -> None:
            nonlocal sent
            await connection.send(begin)
            while sent < 2**24:
                await connection.send(unit * (4_000 // len(unit)))
                sent += 4_000

        sending = asyncio.create_task(send())
        try:
            assert await connection.refusal() == (431, "headers_too_large")
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        assert sent < 2**24


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"X: %s" % (b"a" * 7_000), 200),
        (b"X: %s" % (b"a" * 8_000), 431),
        (b"\r\n".join([b"X: a"] * (MAX_HEADERS - 3)), 200),
        (b"\r\n".join([b"X: a"] * (MAX_HEADERS + 1)), 431),
    ],
)
async def test_whole_heads_have_the_same_bounds(address: tuple[str, int], headers: bytes, status: int) -> None:
    async with connected(address) as connection:
        await connection.send(post(headers) + BODY)
        assert (await connection.answer())[0] == status


async def test_pipelined_requests_of_more_bytes_than_a_head_may_have_are_answered(address: tuple[str, int]) -> None:
    async with connected(address) as connection:
        calls = 400
        await connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n" % (b"a" * 100) * calls)
        assert [(await connection.answer())[0] for _ in range(calls)] == [200] * calls


async def test_two_hosts_are_refused(address: tuple[str, int]) -> None:
    async with connected(address) as connection:
        await connection.send(post(b"Host: localhost") + BODY)
        status, body = await connection.answer()
        assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_request")


async def test_head_requests_of_the_probes_have_no_body() -> None:
    service = fake_service()
    async with served(service) as client:
        for path in ("/healthz", "/readyz"):
            answer = await client.head(path)
            assert (answer.status_code, answer.content) == (200, b"")
        service.admission.drain()
        assert (await client.head("/readyz")).status_code == 503


# ---- time


@pytest.mark.parametrize(
    "sent", [b"GET /healthz HTT", post()[:-2], post() + BODY[:5], b"%s%s" % (post(length=7_000_000), b"{" * 6_000_000)]
)
async def test_a_request_that_stalls_is_ended(impatient: tuple[str, int], sent: bytes) -> None:
    async with connected(impatient) as connection:
        await connection.send(sent)
        assert await connection.refusal() == (408, "request_timeout")


async def test_a_connection_without_a_request_is_closed(impatient: tuple[str, int]) -> None:
    async with connected(impatient) as connection, asyncio.timeout(HANG_S):
        assert await connection.reader.read() == b""


async def test_a_slow_upload_and_a_slow_answer_are_not_cut_off() -> None:
    """Each takes several times as long as a client may send nothing."""
    pause_s = scaled(0.02)
    server = ServerSettings(header_timeout_s=10 * pause_s, body_timeout_s=10 * pause_s)
    service = fake_service(wordy(40), server=server, step_s=pause_s)
    async with served(service) as client:
        assert client.base_url.port is not None
        async with connected((client.base_url.host, client.base_url.port)) as connection:
            padding = b" " * 6_000
            await connection.send(post(length=len(BODY) + 40 * len(padding)))
            for _ in range(40):
                await connection.send(padding)
                await asyncio.sleep(pause_s)  # the speed of the upload
            await connection.send(BODY)
            assert (await connection.answer())[0] == 200


async def read_slowly(address: tuple[str, int], bytes_at_once: int, most_s: float) -> int:
    """The bytes of answers that a client gets that reads so many ten times a second, and after `most_s` what there is."""
    received, loop = 0, asyncio.get_running_loop()
    request, until_s = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n", loop.time() + most_s
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)
        client.connect(address)
        client.setblocking(False)
        await loop.sock_sendall(client, (request + b"\r\n") * (ANSWERS - 1) + request + b"Connection: close\r\n\r\n")
        due = bytes_at_once
        with suppress(ConnectionResetError):
            async with asyncio.timeout(HANG_S):
                while part := await loop.sock_recv(client, 2**16 if loop.time() > until_s else bytes_at_once):
                    received += len(part)
                    while received >= due and loop.time() <= until_s:
                        due += bytes_at_once
                        await asyncio.sleep(0.1)
    return received


async def test_a_client_that_reads_too_slowly_is_cut_off_and_one_that_is_only_slow_is_not() -> None:
    limits = ServerSettings(body_timeout_s=0.5)  # looked at each second
    async with served(fake_service(server=limits)) as client:
        assert client.base_url.port is not None
        address = client.base_url.host, client.base_url.port
        whole = ANSWERS * len((await client.get("/openapi.json")).content)
        slow, too_slow = await asyncio.gather(read_slowly(address, whole // 40, 4.0), read_slowly(address, 10, 4.0))
        assert slow > whole
        assert too_slow < whole


@pytest.mark.parametrize("bytes_per_s", [1_500, 5_000])
async def test_a_client_of_a_long_answer_is_cut_off_when_it_reads_too_slowly_and_not_before(bytes_per_s: int) -> None:
    """What is unread goes up and down between 16 and 64 KB while an answer is written as it is read."""
    ours, client = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    client.setblocking(False)
    limits = ServerSettings(body_timeout_s=60, header_timeout_s=3_600)  # no request comes
    config = Config(create_app(fake_service()), log_config=None)

    def protocol() -> BoundedProtocol:
        return BoundedProtocol(limits, config=config, server_state=ServerState(), app_state={})

    with client:
        transport, connection = await asyncio.get_running_loop().create_connection(protocol, sock=ours)

        async def seconds(number: int, most_bytes: int, first_s: int) -> None:
            for now_s in range(first_s, first_s + number):
                with suppress(BlockingIOError):
                    client.recv(most_bytes)
                for _ in range(5):
                    await asyncio.sleep(0)
                while connection.flow.write_paused is False and not transport.is_closing():
                    transport.write(b" " * 4_096)
                connection.check(now_s)

        await seconds(400, bytes_per_s, 0)
        assert not transport.is_closing()
        await seconds(122, 100, 400)
        assert transport.is_closing()


async def test_half_sent_bodies_hold_a_bounded_memory() -> None:
    limits = ServerSettings(max_body_bytes=100_000)
    async with served(fake_service(server=limits)) as client:
        assert client.base_url.port is not None
        address = client.base_url.host, client.base_url.port
        async with AsyncExitStack() as stack:
            held = [await stack.enter_async_context(connected(address)) for _ in range(40)]
            for connection in held:
                await connection.send(post(length=99_000) + b" " * 90_000)
            answers = [asyncio.create_task(connection.refusal()) for connection in held]
            done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            assert {one.result() for one in done} == {(503, "unavailable")}
            assert (await client.post("/v1/translate", json=json.loads(BODY))).status_code == 200
        await asyncio.gather(*waiting, return_exceptions=True)
        large = {"text": "a" * 80_000, "source": "en", "target": "ja"}
        assert (await client.post("/v1/translate", json=large)).status_code == 200  # what they held is free again
