"""Where this server has documents: in the database, in a folder, or in both while it moves them from there to the database.

A document's row names the place of its files. Every server answers for what is in the database; for what is in a folder, those
that have this folder, which a file in it identifies. Servers report their place, so that none starts with a folder of its own
beside others, and documents whose folder nobody has end as lost instead of waiting for ever. They are found again when a server
that has their folder starts.
"""

from __future__ import annotations

import fcntl
import logging
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from time import monotonic

from dragoman.errors import ConfigError, DiskFull, DocumentLost, StorageUnavailable, Unavailable
from dragoman.settings import DocumentSettings
from dragoman.storage.database import Database, utc_now
from dragoman.storage.document_blobs import DATABASE, DatabaseFiles
from dragoman.storage.document_files import UPLOADS, WORK, DocumentFiles, FolderFiles, full_disk_reported, make_private
from dragoman.storage.documents import MOVING, DocumentStore, StoredDocument
from dragoman.threads import RUNS

log = logging.getLogger("dragoman.documents")

LOST_S = 60.0
"""How long documents wait for a server that has their folder, before they end as lost."""
UNNAMED_LOST_S = 600.0
"""The same for those of servers of older versions, which do not report."""
_LOST = "no server has the folder with the document's files: delete it, and send it again"


class DocumentPlaces:
    """The places of one server, `owner`. `main` is that of new documents. Methods raise `StorageUnavailable`."""

    def __init__(self, store: DocumentStore, database: Database, settings: DocumentSettings, owner: str) -> None:
        self.folder = Path(settings.folder).absolute()
        self.uploads, self.work = self.folder / UPLOADS, self.folder / WORK
        self._store = store
        self._owner = owner
        self._owner_timeout_s = settings.owner_timeout_s
        self._in_folder = FolderFiles(self.folder)
        self._in_database = DatabaseFiles(database, self.work)
        is_postgres = database.name.startswith("postgresql")
        uses_database = settings.store == "database" or (settings.store == "auto" and is_postgres)
        self.main: DocumentFiles = self._in_database if uses_database else self._in_folder
        self.all: list[DocumentFiles] = [self._in_database]
        """All places of this server: the folder is one once it is identified."""
        self._opened_s = monotonic()

    async def open(self) -> None:
        """Find out which folder this server has, and report it. Raises `ConfigError` if others have another one."""
        await self._identify_folder()
        self._opened_s = monotonic()
        await self.beat()
        if self.main is self._in_folder:
            others = await self._store.places(self._stale_before())
            if any(place.startswith("folder-") for place in others - {self.main.place}):
                await self.close()
                raise ConfigError(
                    f"another server of this database keeps documents in another folder than {self.folder}: set "
                    "documents.store to database, or let documents.folder be one folder that all servers share",
                    param="documents.folder",
                )
            await self._adopt()

    async def _identify_folder(self) -> None:
        if self.main is self._in_database and not self.folder.is_dir():
            return
        try:
            await self._in_folder.identify()
            self.all = [self._in_database, self._in_folder]
        except OSError as fault:
            if self.main is self._in_folder:
                raise ConfigError(
                    f"documents.folder {self.folder} cannot be used: {fault.strerror}; an empty one turns documents off",
                    param="documents.folder",
                ) from None
            log.warning("documents in the folder %s cannot be moved into the database: %s", self.folder, fault.strerror)

    async def close(self) -> None:
        """Report that this server has stopped."""
        with suppress(StorageUnavailable):
            await self._store.date_server(self._owner, self._stale_before() - timedelta(seconds=1))

    async def beat(self) -> None:
        """Report that this server lives."""
        await self._store.report_server(self._owner, self.main.place)

    def _stale_before(self) -> datetime:
        return utc_now() - timedelta(seconds=self._owner_timeout_s)

    @property
    def names(self) -> list[str]:
        """The names of all places of this server."""
        return [files.place for files in self.all]

    def of(self, document: StoredDocument) -> DocumentFiles:
        """Return where a document's files are. Raises `Unavailable` where this server has not that place."""
        for files in self.all:
            if files.place == document.place:
                return files
        if document.place.startswith(MOVING):
            raise Unavailable("the document's files are being moved; try again")
        raise Unavailable("the document's files are at another server; try again")

    # ---- from time to time

    async def sweep(self) -> int:
        """Delete what has expired, and files that no document has; end lost documents. Return the bytes of all others."""
        await self._adopt()
        await self._lose()
        total = 0
        expired = await self._store.delete_expired()
        for files in self.all:
            for id in expired:
                await files.delete(id)
            used = await files.use()
            total += used.size_bytes
            known = await self._store.existing(used.old_ids) if used.old_ids else set[str]()
            for id in set(used.old_ids) - known:
                await files.delete(id)
        return total

    async def _lose(self) -> None:
        lost_before = utc_now() - timedelta(seconds=max(LOST_S, 3 * self._owner_timeout_s))
        places = await self._store.places(lost_before)
        known = {DATABASE, *places, *self.names}
        known |= {MOVING + place for place in known}
        if monotonic() < self._opened_s + UNNAMED_LOST_S:
            known.add("")
        if number := await self._store.lose(known, self._stale_before(), _LOST):
            log.warning("%d documents were lost: no server has the folder with their files", number)
        await self._store.forget_servers(lost_before)

    async def _adopt(self) -> None:
        """Note which documents of no server that lives are in the folder: of an older version, or copied from elsewhere."""
        if self.main is self._in_folder:
            for id, was in (await self._found_here(self.main.place)).items():
                await self._store.move(id, self.main.place, self._stale_before(), was=was)

    async def _found_here(self, *excepted: str) -> dict[str, str]:
        """The ids and places of documents in the folder that no other server that lives answers for."""
        others = await self._store.places(self._stale_before()) - {self._in_folder.place}
        found = await self._store.outside({DATABASE, *others, *excepted})
        return await RUNS.run(lambda: {id: place for id, place in found.items() if self._in_folder.has(id)})

    # ---- from the folder to the database

    async def move_all(self) -> None:
        """Move all documents of the folder into the database, if that keeps documents; but those that run now."""
        place = self._in_folder.place
        if self.main is self._in_folder or not place:
            return
        with _locked(self.folder / ".moving") as is_ours:
            if not is_ours:  # another server of this host moves them
                return
            for id, was in (await self._found_here()).items():
                if was == MOVING + place or await self._store.move(id, MOVING + place, self._stale_before(), was=was):
                    await self._move(id)

    async def _move(self, id: str) -> None:
        try:
            await self._in_database.delete(id)  # what an earlier try has left
            for name in await RUNS.run(self._in_folder.other_files, id):
                copy = self.work / token_hex(16)
                with full_disk_reported():
                    await RUNS.run(_copy, self.folder / id / name, copy)
                await self._in_database.put(id, name, copy)
            if (segments := self._in_folder.segments(id)).exists:
                await self._in_database.add_segments(id, segments.path)
        except (DiskFull, StorageUnavailable):
            raise
        except (OSError, DocumentLost) as fault:
            log.warning("the files of document %s are damaged: %s", id, fault)
            message = "the document's files are damaged: delete it, and send it again"
            await self._store.update(id, state="error", error_code=DocumentLost.code, error_message=message)
            return
        await self._store.move(id, DATABASE, self._stale_before(), was=MOVING + self._in_folder.place)
        await self._in_folder.delete(id)


def _copy(source: Path, target: Path) -> None:
    make_private(target.parent)
    target.touch(mode=0o600)
    shutil.copyfile(source, target)


@contextmanager
def _locked(path: Path) -> Generator[bool]:
    """Within: whether this process alone has the lock of a file."""
    path.touch(mode=0o600)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
