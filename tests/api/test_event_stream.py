"""What feeds a stream has ended when the response has, wherever the client hung up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message, Scope

from dragoman.api.answers import EventStream

SCOPE: Scope = {"type": "http", "asgi": {"spec_version": "2.3"}}


class Feed:
    """Two generators, as a stream has them, that record whether they were closed."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.events = self._events()

    async def _events(self) -> AsyncGenerator[int]:
        try:
            for number in range(3):
                yield number
        finally:
            self.ended.append("events")

    async def lines(self) -> AsyncGenerator[bytes]:
        try:
            async for number in self.events:
                yield str(number).encode()
        finally:
            self.ended.append("lines")


async def connected() -> Message:
    await asyncio.Event().wait()
    raise AssertionError


async def hung_up() -> Message:
    return {"type": "http.disconnect"}


async def test_a_whole_stream() -> None:
    feed, sent = Feed(), list[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    await anext(feed.events)
    await EventStream(feed.lines(), source=feed.events)(SCOPE, connected, send)
    assert b"".join(message.get("body", b"") for message in sent) == b"12"
    assert (b"content-type", b"text/event-stream; charset=utf-8") in sent[0]["headers"]
    assert sorted(feed.ended) == ["events", "lines"]


async def test_a_client_that_is_gone_before_the_first_line() -> None:
    feed = Feed()

    async def send(_: Message) -> None: ...

    await anext(feed.events)
    await EventStream(feed.lines(), source=feed.events)(SCOPE, hung_up, send)
    assert "events" in feed.ended  # the lines may not even have begun


async def test_a_client_that_hangs_up_while_a_line_is_being_sent() -> None:
    feed, sending = Feed(), asyncio.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sending.set()
            await asyncio.Event().wait()

    async def hangs_up() -> Message:
        await sending.wait()
        return {"type": "http.disconnect"}

    await EventStream(feed.lines(), source=feed.events)(SCOPE, hangs_up, send)
    assert feed.ended == ["lines", "events"]


async def test_a_connection_that_breaks() -> None:
    feed = Feed()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await EventStream(feed.lines(), source=feed.events)({**SCOPE, "asgi": {"spec_version": "2.4"}}, connected, send)
    assert feed.ended == ["lines", "events"]
