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

from tests.waiting import HANG_S, until
from wholetext.files.content import ReadOptions
from wholetext.files.worker import SOURCE, Workers, WorkerTask


def of_this_process() -> set[psutil.Process]:
    """The worker processes of this one that run, also those of other tests that have not ended yet."""
    found = set[psutil.Process]()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE and "wholetext.files.worker" in child.cmdline():
                found.add(child)
    return found


@pytest.fixture
def others() -> set[psutil.Process]:
    return of_this_process()


@pytest.fixture
def workers(others: set[psutil.Process]) -> Iterator[Workers]:
    workers = Workers(memory_bytes=2**30, timeout_s=HANG_S, at_once=2)
    workers.prepare()
    yield workers
    workers.close()


def task(folder: Path) -> WorkerTask:
    return WorkerTask("read", str(folder), ReadOptions("txt", "ja"))


async def test_an_idle_process_that_has_ended_takes_no_task(
    tmp_path: Path, workers: Workers, others: set[psutil.Process]
) -> None:
    (tmp_path / SOURCE).write_text("Can I see it?")
    for signal_number in (signal.SIGKILL, signal.SIGTERM):
        (idle,) = of_this_process() - others
        idle.send_signal(signal_number)
        await until(lambda idle=idle: not idle.is_running() or idle.status() == psutil.STATUS_ZOMBIE, "its end")
        given = task(tmp_path)
        await workers.run(given)
        assert "Can I see it?" in given.file("units").read_text()


class Pipe:
    """A named pipe as a document's source: a worker that reads it is amid its task until the pipe is closed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOURCE
        os.mkfifo(self.path)
        self._ends: list[int] = []  # all stay open, else the next worker could read an end instead of waiting

    async def opened(self) -> None:
        """Wait until a worker reads it."""

        def is_read() -> bool:
            with suppress(OSError):
                self._ends.append(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
                return True
            return False

        await until(is_read, "a worker that reads its source")

    def write(self, data: bytes) -> None:
        os.write(self._ends[-1], data)
        self.close()

    def close(self) -> None:
        while self._ends:
            os.close(self._ends.pop())


async def kill_the_one_that_reads(pipe: Pipe, others: set[psutil.Process]) -> None:
    """Kill the oldest process, which has the task; the younger one waits for the next."""
    await pipe.opened()
    oldest = min(of_this_process() - others, key=lambda one: one.create_time())
    oldest.kill()
    await until(lambda: not oldest.is_running() or oldest.status() == psutil.STATUS_ZOMBIE, "its end")


async def test_a_task_amid_which_its_process_is_killed_is_given_to_another_one(
    tmp_path: Path, workers: Workers, others: set[psutil.Process]
) -> None:
    pipe, given = Pipe(tmp_path), task(tmp_path)
    running = asyncio.create_task(workers.run(given))
    await kill_the_one_that_reads(pipe, others)
    await pipe.opened()
    pipe.write(b"Can I see it?")
    await running
    assert "Can I see it?" in given.file("units").read_text()
