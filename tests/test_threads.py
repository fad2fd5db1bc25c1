"""Work in threads: a file that nobody receives is closed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from dragoman.threads import Threads
from tests.waiting import until


class Opener:
    """Opens a file once it may, and keeps what it opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.begun, self.may_open = threading.Event(), threading.Event()
        self.opened: BinaryIO | None = None

    def __call__(self) -> BinaryIO:
        self.begun.set()
        self.may_open.wait()
        self.opened = self._path.open("rb")
        return self.opened


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return Opener(path)


async def test_a_file_is_opened(opener: Opener) -> None:
    opener.may_open.set()
    with await Threads("test", 1).open(opener) as file:
        assert file.read() == b"content"


async def test_what_opens_nothing_returns_none() -> None:
    assert await Threads("test", 1).open(lambda: None) is None


async def test_an_error_is_raised(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await Threads("test", 1).open((tmp_path / "missing").open)  # type: ignore[type-var]


async def test_a_file_that_is_opened_after_the_cancellation_is_closed(opener: Opener) -> None:
    task = asyncio.create_task(Threads("test", 1).open(opener))
    await until(opener.begun.is_set, "the thread")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    opener.may_open.set()
    await until(lambda: opener.opened is not None and opener.opened.closed, "the end of the file")


async def test_a_file_whose_receiver_is_cancelled_before_it_runs_is_closed(opener: Opener) -> None:
    opener.may_open.set()
    threads = Threads("test", 1)
    task = asyncio.create_task(threads.open(opener))
    await asyncio.sleep(0)  # it waits for the thread now
    while opener.opened is None:  # without the loop: the result has been given to it, and not yet to the task
        opener.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: opener.opened is not None and opener.opened.closed, "the end of the file")


async def test_a_file_is_not_opened_after_the_cancellation_of_what_waits_for_a_thread(opener: Opener) -> None:
    threads = Threads("test", 1)
    busy = asyncio.create_task(threads.run(opener.may_open.wait))
    second = Opener(Path("never"))
    waiting = asyncio.create_task(threads.open(second))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    opener.may_open.set()
    await busy
    assert await threads.run(second.begun.is_set) is False
