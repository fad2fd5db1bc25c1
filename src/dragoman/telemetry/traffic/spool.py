"""The files of a traffic folder: appended to, rotated, bounded by deleting the oldest.

Each server writes files of its own, named `<start, UTC>-<pid>-<number>.jsonl`, so that servers which share a folder never mix
lines. An open file is locked (flock), which its process's death ends: nobody deletes a file that is being written. What is
appended goes out in one write of whole lines; a process killed between two writes leaves nothing torn.
Knows nothing of what the lines say.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-\d+-\d+\.jsonl")
_PRIVATE = 0o600  # lengths and times are the operator's, and texts may be asked for
_LEAST_FILES = 4  # of the bound: deleting one file must not lose most of what there is


def traffic_files(folder: Path) -> list[Path]:
    """The folder's files, oldest first. Empty where there is no folder. Raises OSError."""
    try:
        return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except FileNotFoundError:
        return []


class Spool:
    """Appends lines to the newest file of its own. Not for two threads at once."""

    def __init__(self, folder: Path, *, file_bytes: int, max_bytes: int) -> None:
        self.written = 0  # lines
        self._folder = folder
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
        make_room(self._folder, self._max_bytes - self._file_bytes)
        self._number += 1
        started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        path = self._folder / f"{started}-{os.getpid()}-{self._number}.jsonl"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, _PRIVATE)
        self._path, self._size = path, 0
        return fd


def make_room(folder: Path, most_bytes: int) -> None:
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
