"""Frames survive the way they are cut up by a socket, and a cut stream is an end, not an error."""

from __future__ import annotations

import asyncio
import io

import pytest

from dragoman.pipelines.messages import (
    Answered,
    Began,
    Ended,
    FromWorker,
    NotReady,
    Ready,
    Refused,
    Run,
    Stop,
    ToWorker,
    Withdraw,
    Withdrawn,
    frame,
    receive,
    receive_blocking,
)
from dragoman.types import Completion
from tests.pipelines.scripted import sequence

ALL: list[ToWorker | FromWorker] = [
    Run(1, sequence(*range(50_000)), alone=True),
    Withdraw(2),
    Stop(),
    Ready(1024),
    NotReady("why"),
    Began((1, 2)),
    Withdrawn(3),
    Ended((Answered(1, Completion("text", "stop", 7, 2)), Refused(2, "engine_rejected", "why"))),
]


async def test_frames_read_in_pieces_are_the_messages_sent() -> None:
    reader = asyncio.StreamReader()
    stream = b"".join(map(frame, ALL))
    for start in range(0, len(stream), 1000):
        reader.feed_data(stream[start : start + 1000])
    reader.feed_eof()
    assert [await receive(reader) for _ in ALL] == ALL
    assert await receive(reader) is None


def test_the_worker_s_side_reads_the_same_frames() -> None:
    stream = io.BytesIO(b"".join(map(frame, ALL)))
    assert [receive_blocking(stream) for _ in ALL] == ALL
    assert receive_blocking(stream) is None


@pytest.mark.parametrize("kept", [1, 4, 5, 20])
async def test_a_frame_that_breaks_off_is_an_end(kept: int) -> None:
    broken = frame(ALL[0])[:kept]
    reader = asyncio.StreamReader()
    reader.feed_data(broken)
    reader.feed_eof()
    assert await receive(reader) is None
    assert receive_blocking(io.BytesIO(broken)) is None
