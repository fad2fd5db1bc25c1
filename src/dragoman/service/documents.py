"""Documents as jobs: a file is queued, read, translated and written, and the result kept until it expires.

State is in the database, and files are in a folder, so that any server that shares both can answer for a document, and take
it over when the server that translated it has died. A document is one bulk request whose texts are all offered to the
dispatcher at once; finished segments are stored as they come. Files are read and written by `documents.worker`, never in
this process.

A folder `ID` has: `source` and `segments.db`, and `result-N` after N edits, each readable by this user alone.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from dragoman.documents import formats
from dragoman.documents.content import ReadOptions
from dragoman.documents.worker import SOURCE, Task, Workers
from dragoman.errors import (
    BodyTooLarge,
    DiskFull,
    DocumentNotReady,
    DragomanError,
    EngineFailed,
    Forbidden,
    InvalidFile,
    InvalidRequest,
    QueueFull,
    StorageUnavailable,
    Unavailable,
    UnknownDocument,
    UnsupportedFile,
)
from dragoman.settings import DocumentSettings
from dragoman.storage.documents import IN_FLIGHT, MAX_NAME_CHARACTERS, DocumentStore, StoredDocument, utc_now
from dragoman.storage.segments import Page, Result, SegmentFile, SourceUnit, StoredSegment
from dragoman.text import checks, marks
from dragoman.types import Account, ApiName, Formality, TextDone, Translation, TranslationRequest

if TYPE_CHECKING:
    from dragoman.service.service import TranslationService

log = logging.getLogger("dragoman.documents")

MAX_ATTEMPTS = 5
"""How often a document is begun that servers do not end, before it is an error: it may be what they die of."""
RETRY_S = 15.0
"""How long a document waits after an engine or a disk has failed."""
DOWNLOADED_S = 600.0
"""How long a document of DeepL's API stays after a download, which may break and be repeated."""
POLL_S = 2.0
"""How often a server looks for documents that wait, and sweeps what has expired 30 times as rarely."""
BEAT_S = 1.0
"""How often progress is stored."""
BATCH = 500
"""Segments that are stored at once, or earlier, after `BEAT_S`."""
SAMPLE_CHARACTERS = 4_000
"""Of a document's longest texts, in which its language is detected."""
MAX_ALTERNATIVES = 5
EQUAL_LANGUAGES = "Source and target language are equal."
"""As DeepL's clients have it."""
_ORPHAN_S = 3_600.0
_UPLOADS = "uploads"
_NOTES = {checks.FORMALITY_IGNORED, checks.CONTEXT_IGNORED, checks.INSTRUCTIONS_IGNORED}
"""Warnings about the request, which a document has once, and not with each segment."""


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """What a caller wants of a document. Languages are tags; `glossary` is entries, or the reference of a stored one."""

    target: str
    source: str | None = None
    output: str = ""  # the result's extension; empty: the file's own
    glossary: str | Mapping[str, str] = ""
    formality: Formality = "default"
    instructions: tuple[str, ...] = ()
    context: str = ""
    keep: tuple[str, ...] = ()
    comments: bool = False
    columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: StoredDocument) -> DocumentOptions:
        """Those of a stored document."""
        values: dict[str, Any] = json.loads(document.options)
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})  # pyright: ignore[reportUnknownArgumentType]


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file to send: where it is, its name for the client, and its media type."""

    path: Path
    name: str
    media_type: str


@dataclass(slots=True)
class _Progress:
    """What is stored of a running document from time to time."""

    characters: int = 0
    characters_done: int = 0
    segments_done: int = 0
    doubtful: int = 0
    began_s: float = field(default_factory=monotonic)
    characters_before: int = 0  # done by an earlier attempt
    notes: dict[str, str] = field(default_factory=dict[str, str])

    def values(self) -> dict[str, object]:
        done = self.characters_done - self.characters_before
        elapsed_s = monotonic() - self.began_s
        left = self.characters - self.characters_done
        return {
            "characters_done": self.characters_done,
            "segments_done": self.segments_done,
            "doubtful": self.doubtful,
            "seconds_remaining": left * elapsed_s / done if done else None,
        }


class Documents:
    """The documents of one server, between `start` and `stop`. `owner` is the server's name, which no other has.

    Methods raise `StorageUnavailable`; those of a document `UnknownDocument` if it was deleted meanwhile.
    """

    def __init__(self, service: TranslationService, store: DocumentStore, settings: DocumentSettings) -> None:
        self._service = service
        self._store = store
        self._settings = settings
        self.folder = Path(settings.folder)
        self.owner = f"{service.replica or 'server'}-{token_hex(8)}"
        self._workers = Workers(
            settings.worker_memory_bytes, settings.worker_timeout_s, max(min(os.cpu_count() or 1, 4), 1)
        )
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._folder_bytes = 0  # as last counted, and what came since
        self._building: dict[str, asyncio.Lock] = {}  # results

    @property
    def max_bytes(self) -> int:
        """The largest file of any format."""
        return self._settings.max_bytes

    # ---- start and stop

    def start(self) -> None:
        """Translate what waits, and what servers that died have left."""
        self._loop = asyncio.create_task(self._run_all())

    async def stop(self) -> None:
        """Stop, and put what is not finished back to those that wait: another server, or this one's next start, goes on."""
        loop, self._loop = self._loop, None
        tasks = [*([loop] if loop else ()), *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.close()

    async def _run_all(self) -> None:
        """Begin documents while there are any and fewer than `max_running` run; sweep from time to time."""
        sweep_at_s = monotonic()
        while True:
            try:
                if monotonic() >= sweep_at_s:
                    sweep_at_s = monotonic() + 30 * POLL_S
                    await self._sweep()
                while len(self._running) < self._settings.max_running:
                    stale = utc_now() - timedelta(seconds=self._settings.owner_timeout_s)
                    document = await self._store.claim(self.owner, stale)
                    if document is None:
                        break
                    task = asyncio.create_task(self._run(document))
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
        """Delete what has expired, and files that no document has; count the folder's bytes."""
        for id in await self._store.delete_expired():
            await asyncio.to_thread(shutil.rmtree, self.folder / id, ignore_errors=True)
        if not self.folder.is_dir():
            return
        old, self._folder_bytes = await asyncio.to_thread(_examine, self.folder)
        known = await self._store.existing(old)
        for id in set(old) - known:
            await asyncio.to_thread(shutil.rmtree, self.folder / id, ignore_errors=True)

    # ---- from upload to deletion

    @contextmanager
    def upload(self) -> Iterator[Path]:
        """A path in the folder for a file that arrives; what is there after the context is deleted. Raises `QueueFull`."""
        self._service.admission.check_open()
        self._check_space()
        with _disk():
            uploads = self.folder / _UPLOADS
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            uploads.mkdir(mode=0o700, exist_ok=True)
            path = uploads / token_hex(16)
            path.touch(mode=0o600)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _check_space(self) -> None:
        if self._folder_bytes >= self._settings.max_folder_bytes:
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

        Raises `UnsupportedFile`, `InvalidFile`, `BodyTooLarge`, `UnsupportedLanguage`, `InvalidRequest`, `UnknownGlossary`;
        `Forbidden`, `QuotaExceeded`, `RateLimited`; `QueueFull`, `DiskFull`, `Starting` or `Draining`.
        """
        name, extension = clean_name(name), formats.extension_of(clean_name(name))
        file_format = formats.format_of(extension)
        size = await asyncio.to_thread(lambda: upload.stat().st_size)
        self._check_file(file_format, size)
        options = self._checked(options, file_format)
        if options.source == options.target and api != "deepl":  # whose clients expect that of the job
            raise InvalidRequest(EQUAL_LANGUAGES, param="target")
        self._service.accounts.check(TranslationRequest(("?",), options.target, options.source, account=account))
        if isinstance(options.glossary, str) and options.glossary:
            await self._service.glossaries.get(options.glossary)
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
            options=json.dumps(asdict(options)),
            created_at=now,
            expires_at=now + timedelta(hours=self._settings.keep_h),
        )
        folder = self._folder_of(document)

        def move() -> None:
            folder.mkdir(mode=0o700)
            upload.replace(folder / SOURCE)

        with _disk():
            await asyncio.to_thread(move)
        try:
            added = await self._store.add(document, self._settings.max_jobs_per_key)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        if not added:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise QueueFull(
                f"{self._settings.max_jobs_per_key} documents of this key wait or are translated: wait until some are done",
                retry_after_s=30.0,
            )
        self._folder_bytes += size
        self._wake.set()
        return document

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
        planner = self._service.translator.planner
        target = planner.served_tag(options.target, "target")
        source = planner.served_tag(options.source, "source") if options.source else None
        output = formats.BY_EXTENSION.get(
            options.output.lower().lstrip("."), file_format if not options.output else None
        )
        if output is None or (output is not file_format and output.name not in file_format.outputs):
            known = ", ".join((file_format.name, *file_format.outputs))
            raise UnsupportedFile(
                f"output_format not supported. A .{file_format.name} file is written as {known}", param="output_format"
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
        return document

    async def _keep(self, document: StoredDocument) -> None:
        keep = timedelta(hours=self._settings.keep_h)
        expires_at = utc_now() + keep
        has_been_downloaded = document.api == "deepl" and document.charged
        if not has_been_downloaded and expires_at - document.expires_at > min(keep / 20, timedelta(minutes=1)):
            await self._store.update(document.id, expires_at=expires_at)

    async def list(self, account: Account) -> list[StoredDocument]:
        """Return an account's documents, the newest first."""
        return await self._store.of_account(account.id)

    async def in_flight(self, account: Account) -> int:
        """Return how many documents of an account wait or are translated."""
        return sum(one.state in IN_FLIGHT for one in await self._store.of_account(account.id))

    async def wait(self, document: StoredDocument) -> StoredDocument:
        """Wait until a document is done, or an error."""
        pause_s = 0.1
        while document.state not in ("done", "error"):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)
            found = await self._store.get(document.id)
            if found is None:
                raise UnknownDocument("the document was deleted")
            document = found
        return document

    async def delete(self, document: StoredDocument) -> None:
        """Delete a document with its files; what runs of it is cancelled."""
        await self._store.delete(document.id)
        if (task := self._running.get(document.id)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, self._folder_of(document), ignore_errors=True)

    # ---- what is delivered

    async def result(self, document: StoredDocument) -> ResultFile:
        """Return the translated file, which is built anew where segments were edited; the account is charged once.

        Raises `DocumentNotReady`, or the error that the document ended with.
        """
        _check_done(document)
        path = self._folder_of(document) / f"result-{document.edits}"
        if not path.is_file():
            async with self._building.setdefault(document.id, asyncio.Lock()):
                if not path.is_file():
                    with _disk():
                        await self._write(document, path.name)
                        await asyncio.to_thread(_delete_older_results, path, document.edits)
            self._building.pop(document.id, None)
        await self._delivered(document)
        options = DocumentOptions.of(document)
        output = formats.format_of(options.output)
        name = Path(document.name)
        same = formats.BY_EXTENSION.get(formats.extension_of(document.name)) is output
        return ResultFile(path, document.name if same else f"{name.stem}.{output.name}", output.media_type)

    async def segments(
        self, document: StoredDocument, offset: int = 0, limit: int = 100, *, doubtful: bool = False
    ) -> Page:
        """Return a page of segments, as far as they are translated; none before the file was read."""
        file = self._segments_of(document)
        if not file.exists:
            return Page()
        await self._delivered(document)
        return await asyncio.to_thread(file.page, offset, limit, doubtful=doubtful)

    async def all_segments(self, document: StoredDocument) -> list[StoredSegment]:
        """Return all segments of a document that is done. Raises `DocumentNotReady`, or the document's error."""
        _check_done(document)
        await self._delivered(document)
        return await asyncio.to_thread(lambda: list(self._segments_of(document).all()))

    async def _delivered(self, document: StoredDocument) -> None:
        """Charge the account at the first delivery. What DeepL's clients have downloaded stays for some minutes."""
        if document.charged:
            return
        if await self._store.charge(document.id):
            self._service.accounts.charge(document.account_id, document.characters)
            if document.api == "deepl":
                await self._store.update(document.id, expires_at=utc_now() + timedelta(seconds=DOWNLOADED_S))

    async def edit(
        self, document: StoredDocument, n: int, translation: str, *, all_equal: bool = False
    ) -> list[StoredSegment]:
        """Set the translation of a segment, and of `all_equal` ones; return these. The result has it at its next download.

        Raises `InvalidRequest` where marks of the source are lost, repeated or invented, and for an unknown segment.
        """
        segment = await self._segment(document, n)
        _check_marks(segment.source, translation)
        with _disk():
            changed, doubtful = await asyncio.to_thread(
                self._segments_of(document).edit, n, translation, all_equal=all_equal
            )
        if not await self._store.add_edit(document.id, doubtful):
            raise UnknownDocument("the document was deleted")
        return changed

    async def alternatives(self, document: StoredDocument, n: int, count: int, account: Account) -> list[Translation]:
        """Return up to `count` other translations of a segment, which differ from each other and from its own.

        They are an interactive call of the account, with its limits. Raises what `TranslationService.translate` does.
        """
        segment = await self._segment(document, n)
        tries = min(count, MAX_ALTERNATIVES) + 2
        options = DocumentOptions.of(document)
        request = await self._request(document, options, (segment.source,) * tries, account)
        sampled = replace(request, sampled=True, priority=account.priority, api=request.api)
        found = {segment.translation: None} if segment.translation else dict[str | None, None]()
        different: list[Translation] = []
        for translation in await self._service.translate(sampled):
            if translation.text not in found:
                found[translation.text] = None
                different.append(translation)
        return different[:count]

    async def _segment(self, document: StoredDocument, n: int) -> StoredSegment:
        _check_done(document)
        segment = await asyncio.to_thread(self._segments_of(document).get, n)
        if segment is None:
            raise InvalidRequest(f"there is no segment {n}; the document has {document.segments}", param="n")
        return segment

    # ---- one document's run

    async def _run(self, document: StoredDocument) -> None:
        """Translate a document that this server has claimed, and store how it ended."""
        progress = _Progress()
        work = asyncio.create_task(self._translate(document, progress))
        beating = asyncio.create_task(self._beat(document.id, progress))
        ended: dict[str, object] = {}
        try:
            await asyncio.wait({work, beating}, return_when=asyncio.FIRST_COMPLETED)
            if beating.done():  # deleted, or another's
                return
            ended = work.result()
        except asyncio.CancelledError:
            ended = {"state": "queued", "attempts": document.attempts - 1}
            raise
        except DragomanError as error:
            ended = _end_of(document, error)
        except Exception as error:  # noqa: BLE001 - logged there
            ended = _end_of(document, _disk_error(error) or _unexpected(document, error))
        finally:
            for task in (work, beating):
                task.cancel()
            await asyncio.gather(work, beating, return_exceptions=True)
            if ended:
                await self._end(document, progress, ended)

    async def _end(self, document: StoredDocument, progress: _Progress, ended: Mapping[str, object]) -> None:
        """Store the end of a run; a document that cannot be stored is taken over later, as of a server that died."""
        values = {**progress.values(), "seconds_remaining": None, "owner": None, "heartbeat_at": None, **ended}
        try:
            await self._store.update(document.id, self.owner, **values)
        except StorageUnavailable:
            log.warning("the database fails: the end of a document is not stored")

    async def _beat(self, id: str, progress: _Progress) -> None:
        """Report that this server works on a document, and how far it is; return when it is no longer this server's."""
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(StorageUnavailable):  # which the work then meets too, or which is over
                if not await self._store.update(id, self.owner, heartbeat_at=utc_now(), **progress.values()):
                    return

    async def _translate(self, document: StoredDocument, progress: _Progress) -> dict[str, object]:
        """Read, translate and write a document; return the columns of its row that say how it ended."""
        if document.attempts > MAX_ATTEMPTS:
            raise EngineFailed(f"the server failed {MAX_ATTEMPTS} times on this document")
        account = self._service.accounts.account(document.account_id)
        if account is None:
            raise Forbidden("the key of this document is not valid any more")
        file = self._segments_of(document)
        if not file.exists:
            document = await self._read(document, file)
        units = await asyncio.to_thread(file.units)
        document = await self._planned(document, units, account)
        progress.characters = document.characters
        progress.doubtful = await asyncio.to_thread(file.count_doubtful)
        done = [unit for unit in units if unit.is_done]
        progress.segments_done = len(done)
        progress.characters_done = progress.characters_before = sum(map(_characters, done))
        progress.began_s = monotonic()
        await self._translate_units(document, units, account, progress)
        warnings = await self._write(document, "result-0")
        report: dict[str, Any] = json.loads(document.report)
        report["warnings"] += [{"code": code, "message": message} for code, message in progress.notes.items()]
        report["warnings"] += [{"message": message} for message in warnings]
        keep = timedelta(hours=self._settings.keep_h)
        return {"state": "done", "report": json.dumps(report), "expires_at": utc_now() + keep, "edits": 0}

    async def _read(self, document: StoredDocument, file: SegmentFile) -> StoredDocument:
        """Have the file read; store its report, and then its units: what has units was read."""
        folder = self._folder_of(document)
        if not (folder / SOURCE).is_file():
            raise InvalidFile("its files are not here: servers that share a database share documents.folder too")
        task = Task("read", str(folder.resolve()), _read_options(document))
        try:
            await self._workers.run(task)
            found: dict[str, Any] = json.loads(await asyncio.to_thread(task.file("report").read_text, "utf-8"))
            report = json.dumps({**found, "warnings": [{"message": one} for one in found["warnings"]]})
            await self._store.update(document.id, self.owner, report=report)

            def store() -> None:
                with task.file("units").open(encoding="utf-8") as lines:
                    file.create(SourceUnit(**json.loads(line)) for line in lines)

            await asyncio.to_thread(store)
        finally:
            task.delete_files()
        return replace(document, report=report)

    async def _planned(self, document: StoredDocument, units: Sequence[SourceUnit], account: Account) -> StoredDocument:
        """Settle what a document has and its language, and store that. Its source stays None if it has no letters.

        Raises `InvalidFile` for too many characters, `InvalidRequest` for its language, `QuotaExceeded`.
        """
        characters, sample = await asyncio.to_thread(_counted, units)
        if characters > self._settings.max_characters:
            raise InvalidFile(
                f"the document has {characters:,} characters to translate; this server accepts "
                f"{self._settings.max_characters:,}"
            )
        source = document.source
        if source is None:
            detection = self._service.translator.planner.detector.detect(sample)
            source = detection.language
            if source is None and detection.has_letters:
                raise InvalidRequest("the document's language could not be detected: give it", param="source")
        if source is not None and source == document.target:
            raise InvalidRequest(EQUAL_LANGUAGES, param="target")
        planned = replace(document, source=source, characters=characters, segments=len(units))
        await self._store.update(document.id, self.owner, source=source, characters=characters, segments=len(units))
        if not document.charged:
            pending = await self._store.uncharged_characters(account.id)  # this document's included
            self._service.accounts.check_quota(account, characters, pending - characters)
        return planned

    async def _translate_units(
        self, document: StoredDocument, units: Sequence[SourceUnit], account: Account, progress: _Progress
    ) -> None:
        """Translate all units that are not done as one request, equal ones once, and store them as they come."""
        groups = await asyncio.to_thread(_equal, units)
        if not groups:
            return
        if document.source is None:  # there are no letters
            results = [Result(numbers, text, None, ()) for text, numbers in groups.items()]
            await self._store_batch(self._segments_of(document), results, units, progress)
            return
        numbers = [*groups.values()]
        request = await self._request(document, DocumentOptions.of(document), tuple(groups), account)
        file, batch, stored_s = self._segments_of(document), list[Result](), monotonic()
        async with self._service.calls.call(request, streamed=False) as call:
            async with aclosing(self._service.translator.events(request)) as events:
                async for event in events:
                    if not isinstance(event, TextDone):
                        continue
                    call.done(event.index, event.translation)
                    batch.append(_result(numbers[event.index], event.translation, progress))
                    if len(batch) >= BATCH or monotonic() - stored_s >= BEAT_S:
                        await self._store_batch(file, batch, units, progress)
                        batch, stored_s = [], monotonic()
        await self._store_batch(file, batch, units, progress)

    async def _store_batch(
        self, file: SegmentFile, batch: Sequence[Result], units: Sequence[SourceUnit], progress: _Progress
    ) -> None:
        await asyncio.to_thread(file.store, batch)
        for result in batch:
            progress.segments_done += len(result.numbers)
            progress.doubtful += len(result.numbers) * bool(result.warnings)
            progress.characters_done += sum(_characters(units[n]) for n in result.numbers)

    async def _request(
        self, document: StoredDocument, options: DocumentOptions, texts: tuple[str, ...], account: Account
    ) -> TranslationRequest:
        """A bulk request of a document's texts, in its language, with its options."""
        entries: Mapping[str, str] = options.glossary if not isinstance(options.glossary, str) else {}
        key: tuple[object, ...] | None = None
        if isinstance(options.glossary, str) and options.glossary:
            stored = await self._service.glossaries.dictionary(
                options.glossary, document.source or document.target, document.target
            )
            entries, key = stored.entries, stored.key
        return TranslationRequest(
            texts,
            document.target,
            document.source,
            format="marks",
            context=options.context or None,
            keep=options.keep,
            glossary=entries,
            glossary_key=key,
            formality=options.formality,
            instructions=options.instructions,
            request_id=f"document-{document.id.lower()}",
            priority="bulk",
            account=account,
            api=document.api,  # type: ignore[arg-type]
        )

    async def _write(self, document: StoredDocument, result: str) -> list[str]:
        """Write the result's file from the stored translations; return warnings."""
        folder, file = self._folder_of(document), self._segments_of(document)
        task = Task("write", str(folder.resolve()), _read_options(document))

        def translations() -> None:
            with task.file("translations").open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(one) + "\n" for one in file.translations())

        try:
            await asyncio.to_thread(translations)
            await self._workers.run(task)
            report: dict[str, Any] = json.loads(await asyncio.to_thread(task.file("report").read_text, "utf-8"))
            await asyncio.to_thread(task.file().replace, folder / result)
        finally:
            task.delete_files()
        return report["warnings"]

    def _folder_of(self, document: StoredDocument) -> Path:
        return self.folder / document.id

    def _segments_of(self, document: StoredDocument) -> SegmentFile:
        return SegmentFile(self._folder_of(document) / "segments.db")


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


def _read_options(document: StoredDocument) -> ReadOptions:
    options = DocumentOptions.of(document)
    return ReadOptions(
        document.format, document.target, document.source, options.output, options.comments, options.columns
    )


def _characters(unit: SourceUnit) -> int:
    return len(marks.plain(unit.source))


def _counted(units: Sequence[SourceUnit]) -> tuple[int, str]:
    """The characters of all units, and the longest texts, in which the language is detected."""
    texts = [marks.plain(unit.source) for unit in units]
    sample, length = list[str](), 0
    for text in sorted(dict.fromkeys(texts), key=len, reverse=True):
        sample.append(text)
        length += len(text)
        if length > SAMPLE_CHARACTERS:
            break
    return sum(map(len, texts)), "\n".join(sample)[:SAMPLE_CHARACTERS]


def _equal(units: Sequence[SourceUnit]) -> dict[str, list[int]]:
    """The numbers of the units that are not done, by their texts."""
    groups: dict[str, list[int]] = {}
    for number, unit in enumerate(units):
        if not unit.is_done:
            groups.setdefault(unit.source, []).append(number)
    return groups


def _result(numbers: Sequence[int], translation: Translation, progress: _Progress) -> Result:
    progress.notes |= {one.code: one.message for one in translation.warnings if one.code in _NOTES}
    warnings = [
        {"code": one.code, "message": one.message, "missing": list(one.missing)}
        for one in translation.warnings
        if one.code not in _NOTES
    ]
    return Result(numbers, translation.text, translation.confidence, warnings)


def _check_done(document: StoredDocument) -> None:
    """Raises `DocumentNotReady`, or `InvalidRequest` with the error that the document ended with."""
    if document.state == "error":
        raise InvalidRequest(f"the document was not translated: {document.error_message}")
    if document.state != "done":
        raise DocumentNotReady("the document is still being translated")


def _check_marks(source: str, translation: str) -> None:
    """Raises `InvalidRequest` with the marks that a person's translation has not as the source has them."""
    wrong = marks.lost(source, translation)
    if wrong:
        raise InvalidRequest(
            "the translation must have each mark of the source once, and pairs nested as there: look at "
            + ", ".join(f"number {number}" for number in wrong[:10]),
            param="translation",
        )


def _end_of(document: StoredDocument, error: DragomanError) -> dict[str, object]:
    """The columns of a document whose run failed: it is tried again later where that may help."""
    if isinstance(error, Unavailable | EngineFailed) and document.attempts < MAX_ATTEMPTS:
        log.warning("a document waits: %s", error.message)
        return {"state": "queued", "retry_at": utc_now() + timedelta(seconds=RETRY_S)}
    return {"state": "error", "error_code": error.code, "error_message": error.message}


_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def _disk_error(error: Exception) -> DiskFull | None:
    """The error for a caller, where the disk is full."""
    is_full = isinstance(error, OSError) and error.errno in _NO_SPACE
    if is_full or (isinstance(error, sqlite3.OperationalError) and "full" in str(error)):
        return DiskFull("the server's disk is full; try again later")
    return None


def _unexpected(document: StoredDocument, error: Exception) -> DragomanError:
    log.error("document %s failed", document.id, exc_info=error)
    return DragomanError("the server failed on this document; see its log")


@contextmanager
def _disk() -> Iterator[None]:
    """Within: a full disk raises `DiskFull`."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise _disk_error(error) or error from None


def _examine(folder: Path) -> tuple[list[str], int]:
    """The ids of folders that are not new, and the bytes of all files; old uploads that nobody finished are deleted."""
    old, total, before = list[str](), 0, time() - _ORPHAN_S
    for entry in os.scandir(folder):
        if not entry.is_dir(follow_symlinks=False):
            continue
        for file in os.scandir(entry.path):
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                total += status.st_size
                if entry.name == _UPLOADS and status.st_mtime < before:
                    Path(file.path).unlink()
        with suppress(FileNotFoundError):
            if entry.name != _UPLOADS and entry.stat().st_mtime < before:
                old.append(entry.name)
    return old, total


def _delete_older_results(result: Path, edits: int) -> None:
    """Delete results of before the last edits; not the one before, which may be sent now."""
    for older in range(edits - 1):
        result.with_name(f"result-{older}").unlink(missing_ok=True)
