"""Reads and writes one file in a process of its own, with bounds on its memory and time: files are hostile until read.

Both sides are here. The server's side starts `python -m wholetext.files.worker`, gives it tasks as lines of JSON on its
standard input, and gets a line back for each, its report or an error; what is large goes through files in the document's
folder. This process is spawned, imports neither vllm nor torch, whose mappings do not fit into its address space, inherits
no secrets from the server's environment, and never reads a file itself: it forks a process for each task, which has imported
what it needs by then, has one thread, and ends with its task. Both end when the standard input is closed, which happens
however the server ends.

A read of `source` writes `NAME.segments` (of a TMX file, which is no document, `NAME.entries`, one a line); a write reads
translations from `NAME.segments`, and writes `NAME`, which is the task's own.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import resource
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, Literal, NoReturn, cast

from wholetext.errors import DiskFull, InvalidFile, NoWorker, UnsupportedFile, WholetextError
from wholetext.files import formats, returned, tmx
from wholetext.files.content import Content, ReadOptions
from wholetext.files.segmentfile import SegmentFile, SourceUnit
from wholetext.files.xmlpart import DEEPEST
from wholetext.markup.looks import looks

log = logging.getLogger("wholetext.files")

SOURCE = "source"
TMX = "tmx"
RETURNED = "returned"
"""Instead of the extension of a format: an export of segments that comes back, as `returned` reads it."""
ENDED = "ended"
"""Of a worker's answer: the exit code of a process that has not answered, negative for a signal."""
MAX_RESULT_BYTES = 2**29
MAX_TEXT_BYTES = 2**28
"""Of a file's texts with their places and contexts, which are stored together."""
MOST_UNITS = 500_000
MOST_WARNINGS = 100
LONGEST_PLACE, LONGEST_CONTEXT, LONGEST_MESSAGE = 200, 500, 500
"""Characters that the server gets of what names parts of a file, and may be as long as the file, once for each text."""
_INHERITED = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LANG", "LC_ALL")
_KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)
"""How a process ends that something outside of it ended."""
_LACKING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
"""Open files, memory or processes, of which others give some back."""
_ERRORS: dict[str, type[WholetextError]] = {one.code: one for one in (InvalidFile, UnsupportedFile, DiskFull, NoWorker)}


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What a worker does in a document's folder."""

    op: Literal["read", "write"]
    folder: str
    options: ReadOptions
    name: str = field(default_factory=lambda: f"task-{token_hex(8)}")

    def file(self, kind: Literal["", "segments", "entries"] = "") -> Path:
        """The path of one of its files; empty: what a write makes."""
        return Path(self.folder, f"{self.name}.{kind}" if kind else self.name)


# ---- the server's side


class Workers:
    """Runs tasks in worker processes, at most `at_once`, and keeps one that is idle for the next task.

    A task has a process of its own, forked from a worker's. It has `timeout_s` of CPU time, twice as long in all,
    `memory_bytes` of address space, and of the environment, besides what Python needs, the variables whose names begin with
    one of `inherited`.
    """

    def __init__(self, memory_bytes: int, timeout_s: float, at_once: int, inherited: tuple[str, ...] = ()) -> None:
        self._inherited = inherited
        self._memory_bytes = memory_bytes
        self._timeout_s = timeout_s
        self._turns = asyncio.Semaphore(at_once)
        self._threads = ThreadPoolExecutor(at_once, "wholetext-workers")  # each waits for its process
        self._starting = threading.Lock()
        self._idle: subprocess.Popen[bytes] | None = None
        self._keeps_idle = True

    async def run(self, task: WorkerTask) -> dict[str, Any]:
        """Run a task; return its report, what `_read`, `_read_memory` or `_write` returns.

        Raises `InvalidFile`, `UnsupportedFile`, `DiskFull` or `NoWorker`. Cancelling it kills the process.
        """
        async with self._turns:
            cancelled = threading.Event()
            context = copy_context()  # of log records
            running = asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: context.run(self._run, task, cancelled)
            )
            try:
                answered = await asyncio.shield(running)
            except asyncio.CancelledError:
                cancelled.set()
                await asyncio.gather(running, return_exceptions=True)
                raise
        _check(answered)
        return answered

    def prepare(self) -> None:
        """Start a process for the first task, which would wait for its start."""
        with self._starting:
            if self._keeps_idle and self._idle is None:
                self._idle = self._start()

    def close(self) -> None:
        """Kill the idle process, and keep none any more."""
        with self._starting:
            self._keeps_idle = False
            if self._idle is not None:
                end(self._idle)
                self._idle = None

    def _environment(self) -> dict[str, str]:
        return {
            name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(self._inherited)
        }

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "wholetext.files.worker", str(self._memory_bytes), str(self._timeout_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,  # a group of its own, which is killed as a whole
        )

    def _run(self, task: WorkerTask, cancelled: threading.Event) -> dict[str, Any]:
        """Give a process a task, and return what it answers.

        How the process of a task ends without an answer is an error of the file; how the worker ends from which it is forked,
        and which reads no file, is not. A process that something else killed, as the system does where memory is short, says
        nothing of the file: the task is given to another one, once.
        """
        for attempts_left in (1, 0):
            try:
                process = self._take()
            except OSError as error:
                return _no_worker(error.strerror or "error")
            until_s = monotonic() + 2 * self._timeout_s
            answered = self._answer_of(process, task, cancelled, until_s)
            late = monotonic() >= until_s
            if answered is None:
                end(process)
                ended = process.returncode
            else:
                self._give_back(process)
                if ENDED not in answered:
                    return answered
                ended = answered[ENDED]
            if late or cancelled.is_set() or ended not in _KILLED or not attempts_left:
                if answered is None and ended > 0 and not late:
                    log.error("a worker of documents ended with %d", ended)
                    return _no_worker(f"its worker ended with {ended}")
                return {"code": InvalidFile.code, "message": self._reason(task, ended, late=late)}
            log.warning("a document's worker was killed by signal %d; its task is tried once more", -ended)
        raise AssertionError("the last attempt returns")

    def _take(self) -> subprocess.Popen[bytes]:
        """Return the idle process, or a new one if there is none or it has ended."""
        with self._starting:
            process, self._idle = self._idle, None
        if process is not None and process.poll() is not None:
            log.warning("an idle worker of documents ended with %d", process.returncode)
            with process:  # closes its pipes
                process = None
        return process or self._start()

    def _give_back(self, process: subprocess.Popen[bytes]) -> None:
        """Keep a process for the next task, or end it if one is idle already."""
        with self._starting:
            if self._keeps_idle and self._idle is None:
                self._idle = process
                return
        end(process)

    def _answer_of(
        self, process: subprocess.Popen[bytes], task: WorkerTask, cancelled: threading.Event, until_s: float
    ) -> dict[str, Any] | None:
        """Return what a process answers to a task; None if it ends, is late or is cancelled before."""
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            process.stdin.flush()
        answered = select.poll()  # `select` refuses the numbers of handles from 1,024 on
        answered.register(process.stdout, select.POLLIN | select.POLLHUP)
        while not answered.poll(50):
            if cancelled.is_set() or monotonic() >= until_s:
                return None
        line = process.stdout.readline()
        return cast(dict[str, Any], json.loads(line)) if line.endswith(b"\n") else None

    def _reason(self, task: WorkerTask, ended: int, *, late: bool) -> str:
        """Why a process ended without an answer."""
        if late or ended == -signal.SIGXCPU:
            return f"the file takes longer than {self._timeout_s:g} s to {task.op}"
        if ended in (-signal.SIGKILL, -signal.SIGABRT):  # by the system, or a library that finds no memory
            return f"the file takes more memory to {task.op} than this server gives to one"
        log.error("a document's worker ended with %d", ended)
        return f"the file cannot be {'read' if task.op == 'read' else 'written'}: its reader failed"


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker with its group, and reap it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(BrokenPipeError):
        process.communicate()


def _no_worker(reason: str) -> dict[str, Any]:
    """The answer to a task for which no process can be started, or that lacks what others hold."""
    return {
        "code": NoWorker.code,
        "message": f"the server lacks resources to read the file ({reason}); try again later",
    }


def _check(answered: dict[str, Any]) -> None:
    """Raises the error that a worker answered with. Only its frames go into the log: a message may have the file's text."""
    if frames := answered.get("frames"):
        log.error("a document's reader failed:\n%s", frames)
    if code := answered.get("code"):
        raise _ERRORS.get(code, InvalidFile)(answered["message"], param=answered.get("param"))


# ---- the process's side


def _read(task: WorkerTask) -> dict[str, object]:
    """Return `warnings`, texts that are `left` on purpose, and their number `left_count`."""
    content = formats.read(Path(task.folder, SOURCE).read_bytes(), task.options)
    if len(content.units) > MOST_UNITS:
        raise InvalidFile(f"the file has {len(content.units):,} texts; this server accepts {MOST_UNITS:,}")
    SegmentFile(task.file("segments")).create(_source_units(content))
    left = [{**asdict(one), "place": one.place[:LONGEST_PLACE]} for one in content.left]
    return {"warnings": _shortened(content.warnings), "left": left, "left_count": content.left_counts.total()}


def _source_units(content: Content) -> Iterator[SourceUnit]:
    """Yield the units as they are stored. Raises `InvalidFile` if they have more than `MAX_TEXT_BYTES`."""
    times, size = Counter(unit.block.text for unit in content.units), 0
    for unit in content.units:
        texts = unit.block.text, unit.place[:LONGEST_PLACE], unit.context[:LONGEST_CONTEXT]
        encoded = [text.encode("utf-8", "replace") for text in texts]  # which lone surrogates cannot be
        size += sum(map(len, encoded))
        if size > MAX_TEXT_BYTES:
            raise InvalidFile(f"the file's texts have more than {MAX_TEXT_BYTES:,} bytes")
        source, place, context = (one.decode() for one in encoded)
        looks_of_marks = json.dumps(looks(unit.block.marks))
        size += len(looks_of_marks)
        yield SourceUnit(source, place, context, unit.follows, times[unit.block.text] - 1, looks=looks_of_marks)


def _read_memory(task: WorkerTask) -> dict[str, object]:
    """Return the number of `entries`, and how many were `skipped`, by reason."""
    skipped, entries = Counter[str](), 0
    with task.file("entries").open("w", encoding="utf-8", errors="replace") as out:
        for entry in tmx.read(Path(task.folder, SOURCE).read_bytes(), skipped):
            out.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
            entries += 1
    return {"entries": entries, "skipped": skipped}


def _read_returned(task: WorkerTask) -> dict[str, object]:
    """Return the number of `segments`, which are in the file `entries`."""
    number = 0
    with task.file("entries").open("w", encoding="utf-8", errors="replace") as out:
        for segment in returned.read(Path(task.folder, SOURCE).read_bytes()):
            out.write(json.dumps(asdict(segment), ensure_ascii=False) + "\n")
            number += 1
    return {"segments": number}


def _write(task: WorkerTask) -> dict[str, object]:
    """Return `warnings`."""
    source, translations = Path(task.folder, SOURCE).read_bytes(), SegmentFile(task.file("segments")).translations()
    data, warnings = formats.write(source, task.options, translations)
    task.file().write_bytes(data)
    return {"warnings": _shortened(warnings)}


def _shortened(warnings: Sequence[str]) -> list[str]:
    return [one[:LONGEST_MESSAGE] for one in warnings[:MOST_WARNINGS]]


def answer(line: bytes) -> dict[str, object]:
    """Do the task of a line, and return what the server is told: its report, or an error, which has a `code`."""
    given: dict[str, Any] = json.loads(line)
    options: dict[str, Any] = {**given["options"], "columns": tuple(given["options"]["columns"])}
    task = WorkerTask(given["op"], given["folder"], ReadOptions(**options), given["name"])
    try:
        if task.op == "write":
            return _write(task)
        return {TMX: _read_memory, RETURNED: _read_returned}.get(task.options.extension, _read)(task)
    except WholetextError as error:
        return {"code": error.code, "message": error.message[:LONGEST_MESSAGE], "param": error.param}
    except (MemoryError, SystemError):  # CPython's error of a library in C that ends without one: it found no memory
        return {"code": InvalidFile.code, "message": "the file needs more memory than this server gives to one"}
    except RecursionError:
        return {"code": InvalidFile.code, "message": "the file is nested too deeply"}
    except (OSError, sqlite3.OperationalError) as error:
        return _not_stored(error)
    except Exception as error:  # noqa: BLE001 - the server logs its frames
        frames = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
        return {"code": InvalidFile.code, "message": "the file cannot be read: its reader failed", "frames": frames}


def _not_stored(error: OSError | sqlite3.OperationalError) -> dict[str, Any]:
    """The answer to a task that has failed at a file of its own. SQLite does not say why it cannot open one: the file is
    there, and what is missing is an open file for it or its journal."""
    if isinstance(error, OSError):
        reason = error.strerror or "error"
        if error.errno == errno.EFBIG:
            return {"code": InvalidFile.code, "message": f"the result has more than {MAX_RESULT_BYTES:,} bytes"}
        is_lack = error.errno in _LACKING
    else:
        reason = str(error)  # of Python itself, an error has no code
        is_lack = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN
    if is_lack:
        return _no_worker(reason)
    return {"code": DiskFull.code, "message": f"the server cannot store the document: {reason}"}


def limit_process(memory_bytes: int) -> None:
    """Prepare this process for tasks: bounds on its memory and its files, and no collections of garbage.

    Readers make many objects and hardly any cycles, and a process ends with its task.
    """
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_RESULT_BYTES, MAX_RESULT_BYTES))
    gc.disable()
    sys.setrecursionlimit(10 * DEEPEST)  # what is in text boxes of text boxes is written within these


def _answer_in_child(line: bytes, timeout_s: float, null: int) -> bytes:
    """Do the task of a line in a child process, and return its answer; if it ends without one, how, as `ENDED`. `null`: the
    open null device. Raises `OSError` where the system starts none."""
    with suppress(ImportError):  # which the child raises again, as an error of its task
        formats.import_reader(json.loads(line)["options"]["extension"])  # children after this one have it too
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if not child:
        _run_child(line, timeout_s, null, writing)
    os.close(writing)
    answered = bytearray()
    watched = select.poll()
    watched.register(reading, select.POLLIN)
    watched.register(0, 0)  # no event but the end of standard input: the server sends nothing while a task runs
    while 0 not in (events := dict(watched.poll())) and (data := os.read(reading, 2**16)):
        answered += data
    if 0 in events:
        os.killpg(0, signal.SIGKILL)  # the child, and this process
    os.close(reading)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return bytes(answered) if ended == 0 else json.dumps({ENDED: ended}).encode()


def _run_child(line: bytes, timeout_s: float, null: int, writing: int) -> NoReturn:
    """Do the task of a line, write its answer to a pipe, and end. Before the task it opens no file, for which it may lack
    handles: it would end without an answer."""
    code = 1
    try:
        for stream in (0, 1):  # by its end of these the server would not see that its worker has ended
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (int(timeout_s) + 1, int(timeout_s) + 2))
        with os.fdopen(writing, "wb") as answered:
            answered.write(json.dumps(answer(line)).encode())
        code = 0
    finally:
        os._exit(code)  # nothing of the process that was forked is to be done here too


def main(memory_bytes: int, timeout_s: float) -> None:
    """Answer tasks until standard input is closed."""
    limit_process(memory_bytes)
    formats.import_reader("txt")  # which imports what most readers do, while there is no task
    null = os.open(os.devnull, os.O_RDWR)
    for line in sys.stdin.buffer:
        try:
            answered = _answer_in_child(line, timeout_s, null)
        except OSError as error:
            answered = json.dumps(_no_worker(error.strerror or "error")).encode()
        sys.stdout.buffer.write(answered + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
