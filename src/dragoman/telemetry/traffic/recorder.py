"""Records each text that ends to the files of a folder: a line per text, rotated, bounded by deleting the oldest files.

A file's name says when it began and which recorder wrote it (host, replica, process), so that the folders of several hosts can
be copied into one.

On the event loop a text costs one append to a queue. Lines are made and written by a thread, a few at a time, so that the
event loop never waits long for the interpreter. A process that is killed loses what ended within the last `FLUSH_EVERY_S`.
A folder that cannot be written costs records, never translations. Servers may share a folder: each writes files of its own.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock, Thread
from time import monotonic

from dragoman.settings import TrafficSettings
from dragoman.telemetry.requests import TextRecord
from dragoman.telemetry.traffic.entry import TrafficEntry, file_name, to_line, traffic_files
from dragoman.wire import RecorderStats

_PRIVATE = 0o600  # lengths and times are the operator's, and texts may be asked for
FILE_BYTES = 4 * 2**20  # a new file is begun beyond this
_LEAST_FILES = 4  # of the bound: deleting one file must not lose most of what there is


class TrafficFiles:
    """Appends lines to the newest file of its own. Not for two threads at the same time."""

    def __init__(self, folder: Path, *, max_bytes: int, file_bytes: int = FILE_BYTES, replica: str = "") -> None:
        self.written = 0  # lines
        self._folder = folder
        self._replica = replica
        self._file_bytes = max(1, min(file_bytes, max_bytes // _LEAST_FILES))
        self._max_bytes = max_bytes
        self._number = 0
        self._path: Path | None = None
        self._fd: int | None = None
        self._size = 0

    def write(self, lines: Sequence[bytes]) -> None:
        """Append whole lines, in a new file where the old one is full. Raises OSError; `written` says how far it came."""
        batch: list[bytes] = []
        size = self._size
        for line in lines:
            if size and size + len(line) > self._file_bytes:
                self._append(batch)
                self._rotate()
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        self._append(batch)

    def close(self) -> None:
        """A later write goes on in the same file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _rotate(self) -> None:
        self.close()
        self._path, self._size = None, 0

    def _append(self, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        left = memoryview(b"".join(lines))
        try:
            fd = self._opened()
            while left:  # a full disk takes a part, and then nothing
                taken = os.write(fd, left)
                self._size += taken
                left = left[taken:]
        except OSError:
            self._rotate()  # what may be torn stays at that file's end
            raise
        self.written += len(lines)

    def _opened(self) -> int:
        if self._fd is not None and os.fstat(self._fd).st_nlink == 0:  # somebody cleared the folder
            self._rotate()
        if self._fd is None:
            self._fd = self._open()
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._fd

    def _open(self) -> int:
        if self._path is not None:
            with suppress(FileNotFoundError):
                return os.open(self._path, os.O_WRONLY | os.O_APPEND)
        self._folder.mkdir(parents=True, exist_ok=True)
        delete_oldest(self._folder, self._max_bytes - self._file_bytes)
        self._number += 1
        path = self._folder / file_name(
            datetime.now(UTC), socket.gethostname(), self._replica, os.getpid(), self._number
        )
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, _PRIVATE)
        self._path, self._size = path, 0
        return fd


def delete_oldest(folder: Path, most_bytes: int) -> None:
    """Delete the oldest files until the folder's take `most_bytes`; those that are being written stay. Raises OSError."""
    files = [(path, size) for path in traffic_files(folder) if (size := _size(path)) is not None]
    total = sum(size for _, size in files)
    for path, size in files:
        if total <= most_bytes:
            return
        if not _in_use(path):
            path.unlink(missing_ok=True)
            total -= size


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # deleted by another server
        return None


def _in_use(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(fd)
    return False


# ---- the recorder

log = logging.getLogger("dragoman.traffic")

FLUSH_EVERY_S = 0.25
RETRY_AFTER_S = 10.0  # of a folder that could not be written
MOST_PENDING = 50_000  # texts that wait for the thread; more are lost, and counted
AT_ONCE = 64  # lines made before the event loop gets its turn: about half a millisecond


class Recorder:
    """Writes every text that ends to a folder, from `start` to `close`."""

    def __init__(self, settings: TrafficSettings, replica: str = "") -> None:
        self._lost = 0  # texts that could not be written
        self._folder = Path(settings.folder)
        self._files = TrafficFiles(self._folder, max_bytes=settings.max_bytes, replica=replica)
        self._pending: deque[TextRecord] = deque()
        self._writing = Lock()
        self._stop = Event()
        self._thread: Thread | None = None
        self._closed = False
        self._retry_s: float | None = None  # None: the folder is writable as far as is known

    def stats(self) -> RecorderStats:
        """Whether the last attempt to write failed, and how many texts were written and lost."""
        state = "on" if self._retry_s is None else "failing"
        return RecorderStats(state=state, written=self._files.written, lost=self._lost)

    def start(self) -> None:
        """Begin to write. A folder that cannot be made is reported now rather than at the first text."""
        if self._thread is not None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._failed(error, 0)
        self._thread = Thread(target=self._run, name="traffic-recorder", daemon=True)
        self._thread.start()

    def text_ended(self, text: TextRecord) -> None:
        """Have a text written soon; after `close`, at once."""
        if len(self._pending) >= MOST_PENDING:
            self._lost += 1
            return
        self._pending.append(text)
        if self._closed:  # calls that the server's end cut off
            self.flush()

    def flush(self) -> None:
        """Write what has ended, now. Never raises for a folder that cannot be written."""
        with self._writing:
            if self._retry_s is not None and monotonic() < self._retry_s and not self._closed:
                return
            before, lines = self._files.written, self._lines()
            try:
                self._files.write(lines)
            except OSError as error:
                self._failed(error, len(lines) - (self._files.written - before))
            else:
                self._succeeded(bool(lines))
            if self._closed:
                self._files.close()

    def close(self) -> None:
        """Write what is left and end the thread. What ends later is written as it comes."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._closed = True
        self.flush()

    def _run(self) -> None:
        while not self._stop.wait(FLUSH_EVERY_S):
            try:
                self.flush()
            except Exception:  # a fault in one record must not end the recording
                log.exception("traffic records were lost to a fault of the recorder")

    def _lines(self) -> list[bytes]:
        lines: list[bytes] = []
        for _ in range(len(self._pending)):
            lines.append(to_line(TrafficEntry.of(self._pending.popleft())))
            if len(lines) % AT_ONCE == 0 and not self._closed:
                time.sleep(0)  # gives up the interpreter's lock
        return lines

    def _failed(self, error: OSError, lost: int) -> None:
        self._lost += lost
        if self._retry_s is None:
            log.warning(
                "traffic is not recorded: %s cannot be written: %s; serving goes on, and recording when it can",
                self._folder,
                error.strerror or error,
            )
        self._retry_s = monotonic() + RETRY_AFTER_S

    def _succeeded(self, wrote: bool) -> None:
        if self._retry_s is not None and wrote:
            log.warning("traffic is recorded again; %d texts were not", self._lost)
            self._retry_s = None
