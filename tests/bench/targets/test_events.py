from __future__ import annotations

from collections.abc import AsyncIterator

from dragoman_bench.bench.targets import event_data


async def _read(*lines: bytes) -> list[str]:
    async def stream() -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    return [data async for data in event_data(stream())]


async def test_an_event_is_its_data_up_to_a_blank_line() -> None:
    assert await _read(b"data: one\n", b"\n", b"data:two\r\n", b"\r\n") == ["one", "two"]


async def test_lines_of_one_event_are_joined() -> None:
    assert await _read(b"data: one\n", b"data: two\n", b"\n") == ["one\ntwo"]


async def test_comments_and_other_fields_are_passed_over() -> None:
    assert await _read(b": ping\n", b"\n", b"event: x\n", b"id: 1\n", b"data: one\n", b"\n") == ["one"]


async def test_an_event_that_was_cut_off_is_none() -> None:
    assert await _read(b"data: one\n", b"\n", b"data: tw") == ["one"]


async def test_only_one_space_is_taken_off() -> None:
    assert await _read("data:  駅\n".encode(), b"\n") == [" 駅"]
