"""A worker process that something else ends is no fault of the file that it has, or would have had."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import HANG_S, has_ended, until
from wholetext.errors import InvalidFile, NoWorker, WholetextError
from wholetext.files import worker
from wholetext.files.content import ReadOptions
from wholetext.files.segmentfile import SegmentFile
from wholetext.files.worker import SOURCE, Workers, WorkerTask


def of_this_process() -> set[psutil.Process]:
    """The worker processes of this one that run, and those forked from them, also of other tests that have not ended yet."""
    found = set[psutil.Process]()
    for child in psutil.Process().children(recursive=True):
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
        # Just after it has been started, the system does not know its command line yet.
        await until(lambda: of_this_process() - others != set(), "an idle process")
        (idle,) = of_this_process() - others
        idle.send_signal(signal_number)
        await until(lambda idle=idle: has_ended(idle), "its end")
        given = task(tmp_path)
        await workers.run(given)
        assert SegmentFile(given.file("segments")).translations() == ["Can I see it?"]


async def test_a_process_with_thousands_of_open_files_has_its_files_read(tmp_path: Path, workers: Workers) -> None:
    (tmp_path / SOURCE).write_text("Can I see it?")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(before[1], 2_000)), before[1]))
    handles = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while handles[-1] < 1_100:
            handles.append(os.dup(handles[0]))
        given = [task(tmp_path), task(tmp_path)]  # of the idle process, and of one that is started now
        await asyncio.gather(*(workers.run(one) for one in given))
    finally:
        for handle in handles:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Pipe:
    """A named pipe as a document's source: a worker that reads it is amid its task until it is written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOURCE
        os.mkfifo(self.path)
        # For both directions, so that no worker waits for another end, and none reads this one's end before `write`.
        self._end = os.open(self.path, os.O_RDWR)

    async def reader(self, others: set[psutil.Process]) -> psutil.Process:
        """Wait until a worker reads it, and return which."""
        found: list[psutil.Process] = []

        def is_read() -> bool:
            found[:] = [one for one in of_this_process() - others if self._is_open_in(one)]
            return bool(found)

        await until(is_read, "a worker that reads its source")
        return found[0]

    def _is_open_in(self, process: psutil.Process) -> bool:
        with suppress(OSError):  # it ends
            return any(one.samefile(self.path) for one in Path(f"/proc/{process.pid}/fd").iterdir() if one.exists())
        return False

    def write(self, data: bytes) -> None:
        """Let the worker that reads it have this, and go on."""
        os.write(self._end, data)
        self.close()

    def close(self) -> None:
        os.close(self._end)


def with_program(folder: Path, program: str) -> str:
    """The value of PYTHONPATH with which each process of Python runs a program before its own."""
    (folder / "sitecustomize.py").write_text(program)
    return f"{folder}:{os.environ.get('PYTHONPATH', '')}"


async def kill_the_one_that_reads(pipe: Pipe, others: set[psutil.Process]) -> None:
    reader = await pipe.reader(others)
    reader.kill()
    await until(lambda: has_ended(reader), "its end")


async def test_tasks_have_processes_of_their_own_that_are_forked_from_one_worker(
    tmp_path: Path, workers: Workers, others: set[psutil.Process]
) -> None:
    readers = list[psutil.Process]()
    for name in ("a", "b"):
        (folder := tmp_path / name).mkdir()
        pipe = Pipe(folder)
        running = asyncio.create_task(workers.run(task(folder)))
        readers.append(await pipe.reader(others))
        parent = readers[-1].parent()
        pipe.write(b"Can I see it?")
        await running
        assert parent is not None and of_this_process() - others == {parent}, "the task's process has ended"
    assert readers[0] != readers[1]


@pytest.mark.parametrize("killed", ["reader", "parent"])
async def test_a_task_amid_which_its_process_is_killed_is_given_to_another_one(
    tmp_path: Path, workers: Workers, others: set[psutil.Process], killed: str
) -> None:
    pipe, given = Pipe(tmp_path), task(tmp_path)
    running = asyncio.create_task(workers.run(given))
    reader = await pipe.reader(others)
    parent = reader.parent()
    assert parent is not None
    (reader if killed == "reader" else parent).kill()
    await until(lambda: has_ended(reader), "its end")  # a worker's end is that of the process that it has forked
    await pipe.reader(others)
    pipe.write(b"Can I see it?")
    await running
    assert SegmentFile(given.file("segments")).translations() == ["Can I see it?"]


async def test_a_task_whose_process_is_killed_while_it_stores_segments_is_given_to_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process is killed when all are written and none is committed, so that SQLite has a journal of them."""
    once = tmp_path / "once"
    once.touch()
    program = (
        "import os\nfrom wholetext.files.segmentfile import SegmentFile\nreal = SegmentFile.add\n"
        "def units_of(units):\n    yield from units\n"
        f"    if os.path.exists({str(once)!r}):\n        os.unlink({str(once)!r}); os.kill(os.getpid(), {signal.SIGKILL:d})\n"
        "SegmentFile.add = lambda file, units: real(file, units_of(units))"
    )
    monkeypatch.setenv("PYTHONPATH", with_program(tmp_path, program))
    texts = [f"{number} " + 100_000 * "word " for number in range(8)]  # more than SQLite keeps in memory
    (tmp_path / SOURCE).write_text("\n\n".join(texts))
    workers, given = Workers(memory_bytes=2**30, timeout_s=HANG_S, at_once=1), task(tmp_path)
    try:
        assert "warnings" in await workers.run(given)
    finally:
        workers.close()
    assert not once.exists()
    assert " ".join(SegmentFile(given.file("segments")).translations()).split() == " ".join(texts).split()


async def test_a_task_ends_with_the_server(tmp_path: Path, workers: Workers, others: set[psutil.Process]) -> None:
    pipe = Pipe(tmp_path)
    program = (
        "import asyncio, sys; from wholetext.files.worker import ReadOptions, Workers, WorkerTask\n"
        "asyncio.run(Workers(2**30, 999, 1).run(WorkerTask('read', sys.argv[1], ReadOptions('txt', 'ja'))))"
    )
    server = psutil.Popen([sys.executable, "-c", program, str(tmp_path)])
    reader = await pipe.reader(others)
    server.kill()
    server.wait()
    await until(lambda: has_ended(reader), "its end")
    pipe.close()


async def test_a_file_amid_which_processes_are_killed_twice_is_blamed(
    tmp_path: Path, workers: Workers, others: set[psutil.Process]
) -> None:
    pipe = Pipe(tmp_path)
    running = asyncio.create_task(workers.run(task(tmp_path)))
    for _ in range(2):
        await kill_the_one_that_reads(pipe, others)
    with pytest.raises(InvalidFile, match="memory"):
        await running
    pipe.close()


@pytest.mark.parametrize(
    ("fork", "reason"),
    [
        ("raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))", os.strerror(errno.EAGAIN)),
        ("raise MemoryError", "its worker ended with 1"),
    ],
)
async def test_a_worker_that_can_start_no_process_is_no_fault_of_the_file(
    fork: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In workers `os.fork` fails while there is a file. They are answered as soon as it can."""
    fails = tmp_path / "fails"
    fails.touch()
    program = f"import errno, os\nreal = os.fork\ndef fork():\n    if os.path.exists({str(fails)!r}): {fork}\n    return real()"
    monkeypatch.setenv("PYTHONPATH", with_program(tmp_path, f"{program}\nos.fork = fork\n"))
    (tmp_path / SOURCE).write_text("Can I see it?")
    workers = Workers(memory_bytes=2**30, timeout_s=HANG_S, at_once=1)
    try:
        with pytest.raises(NoWorker, match=reason):
            await workers.run(task(tmp_path))
        fails.unlink()
        assert "warnings" in await workers.run(task(tmp_path))
    finally:
        workers.close()


@contextmanager
def no_open_files_to_spare() -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_server_without_an_open_file_to_spare_says_so(tmp_path: Path) -> None:
    workers = Workers(memory_bytes=2**30, timeout_s=HANG_S, at_once=1)
    with no_open_files_to_spare(), pytest.raises(NoWorker, match=os.strerror(errno.EMFILE)):
        await workers.run(task(tmp_path))
    workers.close()


def test_a_worker_without_an_open_file_to_spare_says_so(tmp_path: Path) -> None:
    (tmp_path / SOURCE).write_text("Can I see it?")
    line = json.dumps(asdict(task(tmp_path))).encode()
    assert "warnings" in worker.answer(line)
    with no_open_files_to_spare():
        assert worker.answer(line)["code"] == "unavailable"


async def test_a_worker_that_lacks_open_files_says_so_whatever_it_lacks_them_for(
    tmp_path: Path, workers: Workers, others: set[psutil.Process]
) -> None:
    (tmp_path / SOURCE).write_text("Can I see it?")
    await workers.run(task(tmp_path))
    (idle,) = of_this_process() - others
    has, hard = idle.num_fds(), idle.rlimit(psutil.RLIMIT_NOFILE)[1]
    codes = list[str]()
    for to_spare in range(8):
        idle.rlimit(psutil.RLIMIT_NOFILE, (has + to_spare, hard))
        try:
            await workers.run(task(tmp_path))
            codes.append("")
        except WholetextError as error:
            codes.append(error.code)
    assert (codes[0], codes[-1]) == (NoWorker.code, "")
    assert set(codes) == {NoWorker.code, ""}
    assert of_this_process() - others == {idle}


def answered(folder: Path, source: bytes, extension: str) -> dict[str, Any]:
    """What a worker answers to the task of reading a file."""
    (folder / SOURCE).write_bytes(source)
    given = WorkerTask("read", str(folder), ReadOptions(extension, "ja"), "task")
    return worker.answer(json.dumps(asdict(given)).encode())


def test_a_file_whose_texts_are_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_TEXT_BYTES", 3_000)
    lines = [f"This is line {n} of them.\n\n".encode() for n in range(100)]
    refused = answered(tmp_path, b"".join(lines), "txt")
    assert (refused["code"], refused["message"]) == ("invalid_file", "the file's texts have more than 3,000 bytes")
    assert answered(tmp_path, b"".join(lines[:80]), "txt") == {"warnings": [], "left": [], "left_count": 0}


def test_texts_with_half_characters_are_stored(tmp_path: Path) -> None:
    half = '{"a": "Can I see \\ud800 it?", "\\udc00": "yes", "b": "yes"}'
    assert answered(tmp_path, half.encode(), "json")["warnings"] == []
    units = [*SegmentFile(tmp_path / "task.segments").source_units()]
    assert [(one.source, one.equal) for one in units] == [("Can I see <x1/> it?", 0), ("yes", 1), ("yes", 1)]
