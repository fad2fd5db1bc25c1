"""Where the files and segments of documents lie: `DocumentFiles`, and a folder. `document_blobs` has the database.

A document has the files `source`, `terms` (its glossaries', if it has any) and `result-N` after N edits. Its segments are what
is to be translated, and translations as they are finished, so that finished work survives a server that is killed.

A folder `ID` has: `source`, `terms`, `segments.db`, `result-N`, each readable by this user alone.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import time
from typing import BinaryIO, Protocol, TypeVar

from dragoman.errors import DiskFull, DocumentLost, StorageUnavailable, Unavailable
from dragoman.threads import EDITS, RESULTS, RUNS, SEGMENTS, Threads
from wholetext.files.segmentfile import (
    Edited,
    Page,
    Result,
    SegmentEdit,
    SegmentFile,
    SegmentKind,
    SegmentTexts,
    StoredSegment,
    Units,
)

T = TypeVar("T")

log = logging.getLogger("dragoman.documents")

SOURCE = "source"
TERMS = "terms"
RESULT = "result-"
"""Before the number of edits that it has."""
_SEGMENTS = "segments.db"
UPLOADS, WORK = "uploads", "work"
"""The folders, in that of documents, with files that arrive, and with copies of files that are read and written."""
ORPHAN_S = 3_600.0
"""After which files that no document has, and uploads that nobody finished, are deleted."""


@dataclass(frozen=True, slots=True)
class FolderUse:
    """The bytes of all documents, and the ids of those that are not new: some may have no row any more."""

    size_bytes: int
    old_ids: Sequence[str]


class DocumentFiles(Protocol):
    """Files and segments of documents, by their ids.

    Methods raise `DiskFull`, `StorageUnavailable`, and `DocumentLost` where what must be there is missing or damaged.
    """

    place: str
    """Names what a server must share with others to answer for the documents in it."""

    async def put(self, id: str, name: str, path: Path) -> None:
        """Move a file from `path` to a document; `source` is the first. A result replaces those of fewer edits."""
        ...

    async def open(self, id: str, name: str) -> BinaryIO | None:
        """Return a file, which can be read to its end also if the document is deleted meanwhile; None: there is none."""
        ...

    async def delete(self, id: str) -> None:
        """Delete all files and segments of a document, as far as there are any."""
        ...

    async def use(self) -> FolderUse:
        """Return what all documents take; delete what transfers that nobody finished have left."""
        ...

    async def add_segments(self, id: str, path: Path) -> None:
        """Store the segments of a document, which has all of them or none, from a file, which may be moved."""
        ...

    async def units(self, id: str) -> Units | None:
        """Return what a run needs of all segments; None: there are none yet."""
        ...

    async def store(self, id: str, results: Sequence[Result]) -> None:
        """Store translations, as one transaction. Those of people stay: a server that others took for dead may come late."""
        ...

    async def page(self, id: str, first: int, limit: int, *, doubtful: bool = False) -> Page | None:
        """Return segments in their order, from number `first` on; `doubtful`: of doubtful ones. None: there are none yet."""
        ...

    async def copy_segments(self, id: str, path: Path) -> int:
        """Write a new file with all segments as they are now, as far as a result needs them; return their number."""
        ...

    async def rows(self, id: str, numbers: Sequence[int]) -> list[StoredSegment]:
        """Return the segments of these numbers, in their order, as far as there are any."""
        ...

    async def numbers(self, id: str, first: int, stop: int, kind: SegmentKind | None, limit: int) -> list[int]:
        """Return the numbers from `first` to `stop` of up to `limit` segments of a kind; None: of all."""
        ...

    async def texts(self, id: str, first: int, kind: SegmentKind | None, most: int) -> list[SegmentTexts]:
        """Return texts of segments of a kind from number `first` on, up to `segmentfile.MOST_ROWS`, and no more after `most`
        characters or bytes; none: there are no more of this kind."""
        ...

    async def edits(self, id: str) -> list[tuple[str, str]]:
        """Return different sources whose translations people have edited or reviewed, with these, the first `MOST_CHANGED`."""
        ...

    async def edit(self, id: str, edits: Sequence[SegmentEdit], *, all_equal: bool = False) -> Edited:
        """Set what people have changed, as one transaction; `all_equal`: also of the segments with the same sources."""
        ...


# ---- errors of files

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""The last: Linux makes a disk with errors read-only."""

_LACKING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}
"""Open files, memory or processes, of which others give some back."""


def shortage(error: Exception) -> Unavailable | None:
    """Return the error for a caller, where the machine lacks for now what the work needs: it may succeed later."""
    is_full = isinstance(error, OSError) and error.errno in _NO_SPACE
    if is_full or (isinstance(error, sqlite3.OperationalError) and re.search("full|I/O", str(error))):
        return DiskFull("the server's disk is full or read-only; try again later")
    if isinstance(error, OSError) and error.errno in _LACKING:
        return Unavailable(f"the server lacks resources ({os.strerror(error.errno)}); try again later")
    return None


@contextmanager
def full_disk_reported() -> Generator[None]:
    """Within: a full disk raises `DiskFull`, and another lack `Unavailable`."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise shortage(error) or error from None


@contextmanager
def faults_of(path: Path) -> Generator[None]:
    """Within: faults of a file or folder are errors as `DocumentFiles` raises them."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        is_gone = not path.exists()  # while it was open SQLite calls that an I/O error
        if (lack := shortage(error)) and not (is_gone and "I/O" in str(error)):
            raise lack from None
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            raise StorageUnavailable("the document is being changed by others; try again") from None
        is_damaged = isinstance(error, sqlite3.DatabaseError) and not re.search("unable to open|readonly", str(error))
        if is_damaged or is_gone:
            raise DocumentLost("the document's files are missing or damaged: delete it, and send it again") from None
        log.error("a document's file cannot be used: %s", error.strerror if isinstance(error, OSError) else error)
        raise StorageUnavailable("the document's files cannot be used now; see the server's log") from None


# ---- a folder


class FolderFiles:
    """Documents in a folder, which other servers may share if it has POSIX locks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = ""

    async def identify(self) -> None:
        """Settle `place`, which servers that have the same folder agree on. Raises `OSError`."""
        self.place = await RUNS.run(_place_of, self.folder)

    def segments(self, id: str) -> SegmentFile:
        """Return the file of a document's segments, which is there when it has all of them."""
        return SegmentFile(self.folder / id / _SEGMENTS)

    async def _on_segments(self, threads: Threads, id: str, work: Callable[[SegmentFile], T]) -> T:
        """Return what `work` makes of a document's segments in one of the threads."""
        file = self.segments(id)

        def run() -> T:
            with faults_of(file.path):
                return work(file)

        return await threads.run(run)

    async def put(self, id: str, name: str, path: Path) -> None:
        """See `DocumentFiles`."""
        folder = self.folder / id

        def put() -> None:
            with faults_of(folder):
                if name == SOURCE:
                    folder.mkdir(mode=0o700)
                path.replace(folder / name)
                for other in folder.glob(f"{RESULT}*"):
                    if is_replaced(other.name, name):
                        other.unlink(missing_ok=True)

        await RUNS.run(put)

    async def open(self, id: str, name: str) -> BinaryIO | None:
        """See `DocumentFiles`."""
        path = self.folder / id / name

        def opened() -> BinaryIO | None:
            with faults_of(path), suppress(FileNotFoundError):
                return path.open("rb")

        return await RESULTS.open(opened)

    async def delete(self, id: str) -> None:
        """See `DocumentFiles`."""
        await RESULTS.run(shutil.rmtree, self.folder / id, ignore_errors=True)

    async def use(self) -> FolderUse:
        """See `DocumentFiles`."""
        return await RUNS.run(_examine, self.folder) if self.folder.is_dir() else FolderUse(0, ())

    async def add_segments(self, id: str, path: Path) -> None:
        """See `DocumentFiles`."""
        await self.put(id, _SEGMENTS, path)

    async def units(self, id: str) -> Units | None:
        """See `DocumentFiles`."""
        return await self._on_segments(RUNS, id, lambda file: file.units() if file.exists else None)

    async def store(self, id: str, results: Sequence[Result]) -> None:
        """See `DocumentFiles`."""
        await self._on_segments(RUNS, id, lambda file: file.store(results))

    async def page(self, id: str, first: int, limit: int, *, doubtful: bool = False) -> Page | None:
        """See `DocumentFiles`."""

        def page(file: SegmentFile) -> Page | None:
            return file.page(first, limit, doubtful=doubtful) if file.exists else None

        return await self._on_segments(SEGMENTS, id, page)

    async def copy_segments(self, id: str, path: Path) -> int:
        """See `DocumentFiles`."""
        return await self._on_segments(RUNS, id, lambda file: file.copy(path))

    async def rows(self, id: str, numbers: Sequence[int]) -> list[StoredSegment]:
        """See `DocumentFiles`."""
        return await self._on_segments(SEGMENTS, id, lambda file: file.rows(numbers))

    async def numbers(self, id: str, first: int, stop: int, kind: SegmentKind | None, limit: int) -> list[int]:
        """See `DocumentFiles`."""
        return await self._on_segments(SEGMENTS, id, lambda file: file.numbers(first, stop, kind, limit))

    async def texts(self, id: str, first: int, kind: SegmentKind | None, most: int) -> list[SegmentTexts]:
        """See `DocumentFiles`."""
        return await self._on_segments(SEGMENTS, id, lambda file: file.texts(first, kind, most))

    async def edits(self, id: str) -> list[tuple[str, str]]:
        """See `DocumentFiles`."""
        return await self._on_segments(SEGMENTS, id, lambda file: file.edits())

    async def edit(self, id: str, edits: Sequence[SegmentEdit], *, all_equal: bool = False) -> Edited:
        """See `DocumentFiles`."""
        return await self._on_segments(EDITS, id, lambda file: file.edit(edits, all_equal=all_equal))

    # ---- a document that leaves the folder

    def has(self, id: str) -> bool:
        """Whether the folder has a document's files."""
        return (self.folder / id / SOURCE).is_file()

    def other_files(self, id: str) -> list[str]:
        """Return the names of a document's files besides its segments."""
        names = (path.name for path in (self.folder / id).iterdir())
        return [name for name in names if name in (SOURCE, TERMS) or name.startswith(RESULT)]


def make_private(folder: Path) -> None:
    """Make a folder, and the one that it is in, for this user alone. Raises `OSError`."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)


def is_replaced(name: str, by: str) -> bool:
    """Whether a file is a result with fewer edits than another."""
    edits, of_other = name.removeprefix(RESULT), by.removeprefix(RESULT)
    return RESULT + edits == name and RESULT + of_other == by and int(edits) < int(of_other)


def _place_of(folder: Path) -> str:
    """What a file in the folder says, which is made once: a path may be another folder on another host."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file, new = folder / ".place", folder / f".place-{token_hex(8)}"
    if not file.is_file():
        new.touch(mode=0o600)
        new.write_text(f"folder-{token_hex(16)}", encoding="ascii")
        with suppress(FileExistsError):  # another server has made it
            os.link(new, file)
        new.unlink()
    return file.read_text(encoding="ascii").strip()[:60]


_ID = re.compile("[0-9A-F]{32}")
"""Of a document. The folder holds others too: uploads, the workers', imports of translation memories."""


def _examine(folder: Path) -> FolderUse:
    """The ids of folders that are not new, and the bytes of all files; old uploads that nobody finished are deleted."""
    old, total, before = list[str](), 0, time() - ORPHAN_S
    for entry in os.scandir(folder):
        if not entry.is_dir(follow_symlinks=False):
            continue
        with suppress(FileNotFoundError):  # of a document that is deleted now, or a file of it
            for file in os.scandir(entry.path):
                with suppress(FileNotFoundError):
                    status = file.stat(follow_symlinks=False)
                    total += status.st_size
                    if entry.name in (UPLOADS, WORK) and status.st_mtime < before:
                        _delete(Path(file.path))
            if _ID.fullmatch(entry.name) and entry.stat().st_mtime < before:
                old.append(entry.name)
    return FolderUse(total, old)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()
