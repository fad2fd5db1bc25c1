"""Files that arrive and are read at once, such as a TMX file for a translation memory: each is in a folder of its own.

While a file is used, its server holds a lock on the folder, which the system releases however that server ends. So what a
server left that was killed is found by the next sweep, of its next start or of another server that has this folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from threading import Lock
from time import time

from dragoman.errors import QueueFull
from dragoman.storage.document_files import full_disk_reported

MOST_OF_ACCOUNT, MOST = 4, 16
"""Uploads of one server at the same time, which bounds the folder: each has up to `documents.max_bytes`."""
_NEW_S = 60.0  # what is hidden, or has no lock, may be made or deleted now
_LOCK = "lock"


class Upload:
    """A folder, until `discard`."""

    def __init__(self, uploads: Uploads, account_id: str, path: Path) -> None:
        self.path = path
        self._uploads = uploads
        self._account_id = account_id
        unlocked = path.with_name(f".{path.name}")
        unlocked.mkdir(mode=0o700)
        self._lock = os.open(unlocked / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(path)

    def discard(self) -> None:
        """Delete the folder with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._uploads.ended(self._account_id)


class Uploads:
    """The folders of one server's uploads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: Counter[str] = Counter()  # by account
        self._counting = Lock()

    def begin(self, account_id: str) -> Upload:
        """Make a folder for a file of an account. Raises `QueueFull` and `DiskFull`."""
        with self._counting:
            if self._running[account_id] >= MOST_OF_ACCOUNT or self._running.total() >= MOST:
                message = "other files of translation memories arrive: wait until they are read"
                raise QueueFull(message, retry_after_s=10.0)
            self._running[account_id] += 1
        try:
            with full_disk_reported():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                return Upload(self, account_id, self.folder / token_hex(16))
        except BaseException:
            self.ended(account_id)
            raise

    def ended(self, account_id: str) -> None:
        """An account has an upload less."""
        with self._counting:
            self._running[account_id] -= 1
            self._running += Counter()  # drops accounts without any

    def sweep(self) -> None:
        """Delete the folders whose servers have ended."""
        if not self.folder.is_dir():
            return
        for entry in os.scandir(self.folder):
            with suppress(OSError):  # another server deletes it now, or uses it
                _delete_unused(Path(entry.path))


def _delete_unused(folder: Path) -> None:
    """Raises `OSError` for a folder that is used."""
    if not (folder / _LOCK).exists() or folder.name.startswith("."):
        if folder.stat().st_mtime < time() - _NEW_S:
            shutil.rmtree(folder)
        return
    lock = os.open(folder / _LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
