"""Large calls and large bodies: what is served, what is refused, and that a refusal can be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from dragoman.api import middleware
from dragoman.settings import ServerSettings
from tests.serving import fake_service, served
from tests.waiting import HANG_S

LIMITS = ServerSettings(max_body_bytes=100_000)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with served(fake_service(server=LIMITS)) as client:
        yield client


async def answer_to(client: httpx.AsyncClient, head: str, *body: bytes, version: str = "1.1") -> tuple[int, bytes]:
    """Status and body of a client that sends all of its request before it reads, until the connection is closed."""
    assert client.base_url.port is not None
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    try:
        writer.write(f"POST /v1/translate HTTP/{version}\r\n{head}\r\n\r\n".encode())
        for chunk in body:
            writer.write(chunk)
            await writer.drain()
        async with asyncio.timeout(HANG_S):
            answer = await reader.read()
    finally:
        writer.close()
    start, _, content = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in start.lower()
    return int(start.split()[1]), content


CHUNK = b"186a0\r\n" + b"x" * 100_000 + b"\r\n"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("Host: localhost\r\nContent-Length: 4000000", [b"x" * 100_000] * 40),
        ("Host: localhost\r\nTransfer-Encoding: chunked", [*[CHUNK] * 20, b"0\r\n\r\n"]),
        ("Host: localhost\r\nContent-Length: 4000000\r\nExpect: 100-continue", []),  # it asks before it sends
    ],
    ids=["length", "chunked", "asks"],
)
async def test_a_large_body_gets_a_readable_413(client: httpx.AsyncClient, head: str, body: list[bytes]) -> None:
    status, content = await answer_to(client, head, *body)
    assert (status, json.loads(content)["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_what_is_refused_before_its_body_has_come_gets_a_readable_answer(version: str) -> None:
    """Where the client closes the connection after it, as nginx does by default."""
    async with served(fake_service(server=ServerSettings(max_body_bytes=10_000_000))) as client:
        head = "Host: evil.example\r\nContent-Length: 8000000\r\nConnection: close"
        status, content = await answer_to(client, head, *[b"x" * 100_000] * 80, version=version)
        assert (status, json.loads(content)["error"]["code"]) == (421, "unknown_host")


async def test_a_body_that_never_comes_holds_no_answer_back(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "DRAIN_S", 10 * HANG_S)
    head = "Host: evil.example\r\nContent-Length: 10\r\nConnection: close"
    status, content = await answer_to(client, head)
    assert (status, json.loads(content)["error"]["code"]) == (421, "unknown_host")


async def test_the_time_of_a_model_does_not_change(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    first = (await client.get("/v1/models")).json()["data"][0]["created"]
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert (await client.get("/v1/models")).json()["data"][0]["created"] == first
