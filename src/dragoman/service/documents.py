"""Documents as jobs: a file is queued, translated by some server, and its result kept until it expires.

State is in the database, and files are there too, or in a folder (`service.document_places`), so that any server that shares
both can answer for a document, and take it over when the server that translated it has died. `service.document_runs` has what
happens while one is translated, and `service.document_contents` what clients read and change of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from time import monotonic

from dragoman import languages
from dragoman.errors import (
    BodyTooLarge,
    DocumentLost,
    EqualLanguages,
    InvalidFile,
    QueueFull,
    StorageUnavailable,
    UnknownDocument,
    UnsupportedFile,
    file_errors,
)
from dragoman.service.document_contents import DocumentContents
from dragoman.service.document_places import DocumentPlaces
from dragoman.service.document_runs import DocumentOptions, DocumentRuns, ServerParts, report_of
from dragoman.service.document_terms import TERMS, Dictionary, DocumentTerms, of_entries, write_terms
from dragoman.settings import Settings
from dragoman.storage.database import Database, utc_now
from dragoman.storage.document_files import full_disk_reported, make_private
from dragoman.storage.documents import IN_FLIGHT, MAX_NAME_CHARACTERS, MOVING, DocumentStore, StoredDocument
from dragoman.threads import RUNS, SEGMENTS, UPLOADS
from dragoman.types import Account, ApiName
from wholetext.files import formats
from wholetext.files.worker import SOURCE

log = logging.getLogger("dragoman.documents")

POLL_S = 2.0
"""How often a server looks for documents that wait, and sweeps what has expired 30 times as rarely."""
_BEATS = 4
"""How often a server reports that it lives, within the time after which it is taken for dead."""


class Documents:
    """The documents of one server, between `start` and `stop`. `owner` is the server's name, which no other has.

    Methods raise `StorageUnavailable`; those of a document `UnknownDocument` if it was deleted meanwhile.
    """

    def __init__(self, parts: ServerParts, database: Database, settings: Settings, replica: str) -> None:
        self._parts = parts
        self._store = DocumentStore(database)
        self._settings = settings.documents
        self.owner = f"{replica or 'server'}-{token_hex(8)}"
        self.places = DocumentPlaces(self._store, database, self._settings, self.owner)
        self._runs = DocumentRuns(parts, self._store, self.places, self._settings, self.owner)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._stored_bytes = 0  # as last counted, and what came since
        self.contents = DocumentContents(
            parts, self._store, self.places, self._runs, remembers_edits=settings.memory.edits
        )

    @property
    def max_bytes(self) -> int:
        """The largest file of any format."""
        return self._settings.max_bytes

    @property
    def folder_bytes(self) -> int:
        """Bytes of all files, as last counted, and of what came since."""
        return self._stored_bytes

    async def count_in_flight(self) -> dict[str, int]:
        """Return how many documents of all servers wait (`queued`) or are translated (`translating`)."""
        return await self._store.count_in_flight()

    # ---- start and stop

    async def open(self) -> None:
        """Find the documents' files, and report where they are. Raises `ConfigError` for a folder that others do not share."""
        formats.installed()  # now, so that a package that fails is in the log of the start
        await self.places.open()
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(min(self._settings.owner_timeout_s / _BEATS, 5.0))
            with suppress(StorageUnavailable):
                await self.places.beat()

    def start(self) -> None:
        """Translate what waits, and what servers that died have left."""
        self._loop = asyncio.create_task(self._run_all())

    async def stop(self) -> None:
        """Stop, and put what is not finished back to those that wait: another server, or this one's next start, goes on."""
        loops = [task for task in (self._loop, self._beating) if task is not None]
        if not loops:
            return
        tasks = [*loops, *self._running.values()]
        self._loop = self._beating = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(StorageUnavailable):  # they are taken over later
            await self._store.release(self.owner)
        await self.places.close()

    async def _run_all(self) -> None:
        """Begin documents while there are any and fewer than `max_running` run; sweep from time to time."""
        with suppress(OSError):  # it is started with its task then
            await RUNS.run(self._parts.memories.workers.prepare)
        sweep_at_s = monotonic()
        while True:
            try:
                if monotonic() >= sweep_at_s:
                    sweep_at_s = monotonic() + 30 * POLL_S
                    await self.places.move_all()
                    await self._sweep()
                while len(self._running) < self._settings.max_running:
                    stale = utc_now() - timedelta(seconds=self._settings.owner_timeout_s)
                    document = await self._store.claim(self.owner, stale, self.places.names)
                    if document is None:
                        break
                    task = asyncio.create_task(self._runs.run(document))
                    self._running[document.id] = task
                    task.add_done_callback(lambda _, id=document.id: self._ended(id))
            except StorageUnavailable:
                log.warning("the database fails: documents wait")
            except Exception:  # of whatever kind: the others still wait
                log.exception("the queue of documents failed")
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wake.wait()
            self._wake.clear()

    def _ended(self, id: str) -> None:
        self._running.pop(id, None)
        self._wake.set()

    async def _sweep(self) -> None:
        """Delete what has expired, and files that no document has; count the bytes of all others."""
        self._stored_bytes = await self.places.sweep()

    # ---- from upload to deletion

    @contextmanager
    def upload(self) -> Generator[Path]:
        """A path in the folder for a file that arrives; what is there after the context is deleted. Raises `QueueFull`."""
        self._parts.calls.admission.check_open()
        self._check_space()
        with full_disk_reported():
            make_private(self.places.uploads)
            path = self.places.uploads / token_hex(16)
            path.touch(mode=0o600)
        try:
            with full_disk_reported():
                yield path
        finally:
            with suppress(OSError):  # it is swept later
                path.unlink(missing_ok=True)

    def _check_space(self) -> None:
        if self._stored_bytes >= self._settings.max_folder_bytes:
            raise QueueFull(
                "the server keeps as many documents as it has space for (documents.max_folder_bytes): fetch and delete "
                "yours, or try again later",
                retry_after_s=60.0,
            )

    async def create(
        self,
        upload: Path,
        name: str,
        options: DocumentOptions,
        account: Account,
        api: ApiName = "native",
        *,
        secret: str = "",
    ) -> StoredDocument:
        """Queue a file, which is moved from `upload`. `secret`: what clients show to `get` instead of, or besides, a key.

        Raises `UnsupportedFile`, `InvalidFile`, `BodyTooLarge`, `UnsupportedLanguage`, `InvalidRequest`, `UnknownGlossary`,
        `UnknownMemory`; `Forbidden`, `QuotaExceeded`, `RateLimited`; `QueueFull`, `DiskFull`, `Starting` or `Draining`.
        """
        name, extension = clean_name(name), formats.extension_of(clean_name(name))
        with file_errors():
            file_format = formats.format_of(extension)
        size = await UPLOADS.run(lambda: upload.stat().st_size)
        self._check_file(file_format, size)
        options = self._checked(options, file_format)
        if options.source == options.target and api != "deepl":  # whose clients expect that of the job
            raise EqualLanguages
        self._parts.calls.accounts.check(account, options.target, 1)
        terms = await self._terms(options, account)
        if isinstance(options.memory, str):
            await self._parts.memories.store.get(account.id, options.memory)
        now = utc_now()
        document = StoredDocument(
            id=token_hex(16).upper(),
            account_id=account.id,
            secret_digest=_digest(secret) if secret else "",
            api=api,
            name=name,
            format=file_format.name,
            target=options.target,
            source=options.source,
            detected=options.source is None,
            created_at=now,
            expires_at=now + timedelta(hours=self._settings.keep_h),
            place=self.places.main.place,
        )
        stored_options = replace(options, has_terms=terms is not None).stored()
        added = False
        try:
            with full_disk_reported():
                await self.places.main.put(document.id, SOURCE, upload)
                if terms is not None:
                    await UPLOADS.run(write_terms, terms, upload)
                    await self.places.main.put(document.id, TERMS, upload)
            added = await self._store.add(document, stored_options, self._settings.max_jobs_per_key)
        finally:
            if not added:
                with suppress(StorageUnavailable):
                    await self.places.main.delete(document.id)
        if not added:
            raise QueueFull(
                f"{self._settings.max_jobs_per_key} documents of this key wait or are translated: wait until some are done",
                retry_after_s=30.0,
            )
        self._stored_bytes += size
        self._wake.set()
        return document

    async def _terms(self, options: DocumentOptions, account: Account) -> DocumentTerms | None:
        """The terms of a document's glossary as they are now: what happens to that later changes nothing. Raises
        `UnknownGlossary`."""
        if not options.glossary:
            entries = options.options.glossary
            return await UPLOADS.run(of_entries, entries) if entries else None
        glossary = await self._parts.glossaries.get(account.id, options.glossary)
        of_model = self._parts.calls.translator.planner.prompts.profile.languages
        sources = [options.source] if options.source else [tag for tag in of_model if tag != options.target]
        found: dict[tuple[object, ...], Dictionary] = {}
        for source in sources:
            stored = await self._parts.glossaries.dictionary(account.id, glossary.id, source, options.target)
            if stored.entries:
                before = found.get(stored.key, Dictionary((), stored.key, stored.entries))
                found[stored.key] = replace(before, sources=(*before.sources, source))
        return DocumentTerms([*found.values()])

    def _check_file(self, file_format: formats.Format, size: int) -> None:
        most = min(file_format.max_bytes, self._settings.max_bytes)
        if size > most:
            raise BodyTooLarge(
                f"the file has {size:,} bytes; this server accepts {most:,} of .{file_format.name}", param="file"
            )
        if size == 0:
            raise InvalidFile("Invalid file: it is empty", param="file")
        self._check_space()

    def _checked(self, options: DocumentOptions, file_format: formats.Format) -> DocumentOptions:
        """Options with the served tags of their languages, and the name of the output's format."""
        served = self._parts.calls.translator.planner.served
        target = languages.served(options.target, served, "target")
        source = languages.served(options.source, served, "source") if options.source else None
        outputs = file_format.outputs or (file_format.name,)
        output = formats.find(options.output.lower().lstrip(".") or outputs[0])
        if output is None or output.name not in outputs:
            raise UnsupportedFile(
                f"output_format not supported. A .{file_format.name} file is written as {' or '.join(outputs)}",
                param="output_format",
            )
        return replace(options, target=target, source=source, output=output.name)

    async def get(self, id: str, account: Account | None = None, secret: str | None = None) -> StoredDocument:
        """Return a document of an account, or one that `secret` gives access to; with both, both must be right.

        Its time until it expires begins again. Raises `UnknownDocument`.
        """
        document = await self._store.get(id) if account is not None or secret else None
        if (
            document is None
            or (account is not None and document.account_id != account.id)
            or (secret is not None and document.secret_digest != _digest(secret))
        ):
            raise UnknownDocument("there is no document of this id; it may have expired")
        await self._keep(document)
        return await SEGMENTS.run(_sound, document)

    async def _keep(self, document: StoredDocument) -> None:
        keep = timedelta(hours=self._settings.keep_h)
        expires_at = utc_now() + keep
        has_been_downloaded = document.api == "deepl" and document.charged
        if not has_been_downloaded and expires_at - document.expires_at > min(keep / 20, timedelta(minutes=1)):
            with suppress(StorageUnavailable):  # a full disk must not keep it from being deleted
                await self._store.update(document.id, expires_at=expires_at)

    async def list(self, account: Account, offset: int = 0, limit: int = 100) -> list[StoredDocument]:
        """Return some of an account's documents, the newest first."""
        found = await self._store.of_account(account.id, offset, limit)
        return await SEGMENTS.run(lambda: [*map(_sound, found)])

    async def in_flight(self, account: Account) -> int:
        """Return how many documents of an account wait or are translated."""
        return await self._store.in_flight(account.id)

    async def wait(
        self,
        document: StoredDocument,
        at_most_s: float = math.inf,
        report: Callable[[StoredDocument], None] = lambda document: None,
    ) -> StoredDocument:
        """Wait until a document is done, or an error, or until this server stops; `report` is called with each state of it."""
        pause_s, until_s = 0.05, monotonic() + at_most_s
        while document.state in IN_FLIGHT and self._loop is not None and (left_s := until_s - monotonic()) > 0:
            pause_s = min(2 * pause_s, 1.0)
            if (running := self._running.get(document.id)) is not None:
                await asyncio.wait([running], timeout=min(pause_s, left_s))
            else:  # it waits for its turn, or another server runs it
                await asyncio.sleep(min(pause_s, left_s))
            found = await self._store.get(document.id)
            if found is None:
                raise UnknownDocument("the document was deleted")
            document = _sound(found)
            report(document)
        return document

    async def delete(self, document: StoredDocument) -> None:
        """Delete a document with its files; what runs of it is cancelled."""
        try:
            await self._store.delete(document.id)
        except StorageUnavailable:  # the database's disk may be full of documents
            await self._delete_files(document)
            await self._store.delete(document.id)
        if (task := self._running.get(document.id)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with suppress(StorageUnavailable):  # they are swept later
            await self._delete_files(document)

    async def _delete_files(self, document: StoredDocument) -> None:
        for files in self.places.all:
            if document.place in (files.place, "") or document.place.startswith(MOVING):
                await files.delete(document.id)


# ---- pure functions


def clean_name(name: str) -> str:
    """A file's name as a client gave it, without a path and control characters, and cut to 100 characters."""
    base = "".join(one for one in name.replace("\\", "/").rpartition("/")[2] if one.isprintable()).strip()
    stem, dot, extension = base.rpartition(".")
    if not dot or len(extension) >= 20:
        return base[:MAX_NAME_CHARACTERS]
    return f"{stem[: MAX_NAME_CHARACTERS - 1 - len(extension)]}.{extension}"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _sound(document: StoredDocument) -> StoredDocument:
    """The document; with an error where what is stored of it is damaged."""
    try:
        report_of(document)
    except DocumentLost as lost:
        return replace(document, state="error", error_code=lost.code, error_message=lost.message, report="{}")
    return document
