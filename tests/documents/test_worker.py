"""A worker process that something else ends is no fault of the file that it has, or would have had."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from dragoman.documents.content import ReadOptions
from dragoman.documents.worker import SOURCE, Workers, WorkerTask
from dragoman.errors import InvalidFile
from tests.waiting import until


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(memory_bytes=2**30, timeout_s=60.0, at_once=2)
    workers.prepare()
    yield workers
    workers.close()


def processes() -> list[psutil.Process]:
    """The worker processes of this one that run, the oldest first."""
    return [
        one
        for one in psutil.Process().children()
        if one.status() != psutil.STATUS_ZOMBIE and "dragoman.documents.worker" in one.cmdline()
    ]


def task(folder: Path) -> WorkerTask:
    return WorkerTask("read", str(folder), ReadOptions("txt", "ja"))


async def test_an_idle_process_that_has_ended_takes_no_task(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / SOURCE).write_text("Can I see it?")
    for signal_number in (signal.SIGKILL, signal.SIGTERM):
        (idle,) = processes()
        idle.send_signal(signal_number)
        await until(lambda idle=idle: not idle.is_running() or idle.status() == psutil.STATUS_ZOMBIE, "its end")
        given = task(tmp_path)
        await workers.run(given)
        assert "Can I see it?" in given.file("units").read_text()


class Pipe:
    """A named pipe as a document's source: a worker that reads it is amid its task until the pipe's end is written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOURCE
        os.mkfifo(self.path)
        self._end = -1

    async def opened(self) -> None:
        """Wait until a worker reads it."""

        def is_read() -> bool:
            with suppress(OSError):
                self._end = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            return self._end >= 0

        await until(is_read, "a worker that reads its source")

    def write(self, data: bytes) -> None:
        os.write(self._end, data)
        self.close()

    def close(self) -> None:
        os.close(self._end)
        self._end = -1


async def kill_the_one_that_reads(pipe: Pipe) -> None:
    """Kill the oldest process, which has the task; the younger one waits for the next."""
    await pipe.opened()
    oldest = min(processes(), key=lambda one: one.create_time())
    oldest.kill()
    await until(lambda: not oldest.is_running() or oldest.status() == psutil.STATUS_ZOMBIE, "its end")
    pipe.close()


async def test_a_task_amid_which_its_process_is_killed_is_given_to_another_one(
    tmp_path: Path, workers: Workers
) -> None:
    pipe, given = Pipe(tmp_path), task(tmp_path)
    running = asyncio.create_task(workers.run(given))
    await kill_the_one_that_reads(pipe)
    await pipe.opened()
    pipe.write(b"Can I see it?")
    await running
    assert "Can I see it?" in given.file("units").read_text()


async def test_a_file_amid_which_processes_are_killed_twice_is_blamed(tmp_path: Path, workers: Workers) -> None:
    pipe = Pipe(tmp_path)
    running = asyncio.create_task(workers.run(task(tmp_path)))
    for _ in range(2):
        await kill_the_one_that_reads(pipe)
    with pytest.raises(InvalidFile, match="memory"):
        await running
