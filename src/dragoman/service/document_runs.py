"""A run of one document: its file is read, its units translated as a bulk request, and its result written.

All units are offered to the dispatcher at once, up to `MOST_TEXTS`. Finished ones are stored as they come, so that a later run,
which may be another server's, goes on where this one ended. Files are read and written by `documents.worker`, never in this
process.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import re
import sqlite3
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from dragoman.documents.content import ReadOptions
from dragoman.documents.worker import SOURCE, Workers, WorkerTask
from dragoman.errors import (
    DiskFull,
    DragomanError,
    EngineFailed,
    Forbidden,
    InvalidFile,
    InvalidRequest,
    StorageUnavailable,
    Unavailable,
)
from dragoman.settings import DocumentSettings
from dragoman.storage.database import utc_now
from dragoman.storage.documents import DocumentStore, StoredDocument
from dragoman.storage.segments import Result, SegmentFile, SourceUnit, Units
from dragoman.telemetry.requests import OK, DocumentRecord
from dragoman.text import checks, marks
from dragoman.types import Account, ApiName, Formality, TextDone, Translation, TranslationRequest

if TYPE_CHECKING:
    from dragoman.service.service import TranslationService

log = logging.getLogger("dragoman.documents")

MAX_ATTEMPTS = 5
"""How often a document is begun by servers that do not end it, before it is an error: it may be what they die of."""
RETRY_S = 15.0
"""How long a document waits after an engine or a disk has failed."""
BEAT_S = 1.0
"""How often a server reports that it works on a document, and stores progress and segments."""
BATCH = 500
"""Segments that are stored before `BEAT_S` has passed."""
MOST_TEXTS = 10_000
"""Units of one request. More would make collections of garbage longer than other calls may wait."""
SAMPLE_CHARACTERS = 4_000
"""Of a document's longest texts, in which its language is detected."""
CONTEXT_CHARACTERS = 300
"""Of a unit that was translated in an earlier run, the end that is context of the next."""
EQUAL_LANGUAGES = "Source and target language are equal."
"""As DeepL's clients have it."""
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
    memory: bool | str = True  # whether the key's translation memories are used, or the reference of the only one

    @classmethod
    def of(cls, document: StoredDocument) -> DocumentOptions:
        """Those of a stored document."""
        values: dict[str, Any] = json.loads(document.options)
        lists: dict[str, Any] = {name: tuple(values[name]) for name in ("instructions", "keep", "columns")}
        return cls(**{**values, **lists})


@dataclass(slots=True)
class _Progress:
    """What is stored of a running document from time to time."""

    characters: int = 0
    characters_done: int = 0
    segments_done: int = 0
    doubtful: int = 0
    began_s: float = field(default_factory=monotonic)
    characters_before: int = 0  # done by an earlier run
    notes: dict[str, str] = field(default_factory=dict[str, str])
    finished: list[tuple[Result, int]] = field(
        default_factory=list[tuple[Result, int]]
    )  # with characters; not stored yet
    storing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def values(self) -> dict[str, object]:
        """The columns of the document's row."""
        done = self.characters_done - self.characters_before
        left_s = (self.characters - self.characters_done) * (monotonic() - self.began_s) / done if done else None
        return {
            "characters_done": self.characters_done,
            "segments_done": self.segments_done,
            "doubtful": self.doubtful,
            "seconds_remaining": left_s,
        }


class DocumentRuns:
    """Runs documents in `folder`, which the server `owner` has claimed."""

    def __init__(
        self,
        service: TranslationService,
        store: DocumentStore,
        workers: Workers,
        settings: DocumentSettings,
        owner: str,
    ) -> None:
        self._service = service
        self._store = store
        self._workers = workers
        self._settings = settings
        self._owner = owner
        self._folder = Path(settings.folder).absolute()

    def folder_of(self, document: StoredDocument) -> Path:
        """The folder with a document's files."""
        return self._folder / document.id

    def segments_of(self, document: StoredDocument) -> SegmentFile:
        """A document's segments."""
        return SegmentFile(self.folder_of(document) / "segments.db")

    async def run(self, document: StoredDocument) -> None:
        """Translate a document, and store how that ended; when it is cancelled, the document waits for another run."""
        progress = _Progress()
        work = asyncio.create_task(self._translate(document, progress))
        beating = asyncio.create_task(self._beat(document, progress))
        ended: dict[str, object] = {}
        try:
            await asyncio.wait({work, beating}, return_when=asyncio.FIRST_COMPLETED)
            if beating.done():
                beating.result()  # which may have failed; else the document was deleted, or is another's
            else:
                ended = work.result()
        except asyncio.CancelledError:
            ended = {"state": "queued", "attempts": document.attempts - 1}
            raise
        except DragomanError as error:
            ended = _end_of(document, error)
        except Exception as error:  # noqa: BLE001 - logged there
            ended = _end_of(document, disk_error(error) or self._unexpected(document, error))
        finally:
            for task in (work, beating):
                task.cancel()
            await asyncio.gather(work, beating, return_exceptions=True)
            if ended:
                values = {**progress.values(), "seconds_remaining": None, "owner": None, "heartbeat_at": None, **ended}
                with suppress(StorageUnavailable):  # it is taken over later, like those of a server that died
                    if await self._store.update(document.id, self._owner, **values):
                        self._count(document, progress, ended)

    def _count(self, document: StoredDocument, progress: _Progress, ended: Mapping[str, object]) -> None:
        """Count a document that does not run again."""
        if ended["state"] in ("done", "error"):
            outcome = str(ended.get("error_code", OK))
            elapsed_s = (utc_now() - document.created_at).total_seconds()
            self._service.metrics.document_ended(
                DocumentRecord(document.format, outcome, progress.characters, elapsed_s)
            )

    async def _work(self, task: WorkerTask) -> None:
        """Have a worker do a task. Raises what `Workers.run` raises."""
        began_s = monotonic()
        try:
            await self._workers.run(task)
        finally:
            self._service.metrics.document_worked_on(task.op, monotonic() - began_s)

    async def _beat(self, document: StoredDocument, progress: _Progress) -> None:
        """Report that this server works on a document, and how far it is; return when it is no longer this server's."""
        while True:
            await asyncio.sleep(BEAT_S)
            await self._store_finished(document, progress)
            with suppress(StorageUnavailable):  # no other server can take it over meanwhile
                values = {"heartbeat_at": utc_now(), **progress.values()}
                if not await self._store.update(document.id, self._owner, **values):
                    return

    async def _translate(self, document: StoredDocument, progress: _Progress) -> dict[str, object]:
        """Read, translate and write a document; return the columns of its row that say how it ended."""
        if document.attempts > MAX_ATTEMPTS:
            raise EngineFailed(f"the server failed {MAX_ATTEMPTS} times on this document")
        account = self._service.accounts.account(document.account_id)
        if account is None:
            raise Forbidden("the key of this document is not valid any more")
        file = self.segments_of(document)
        if not file.exists:
            document = await self._read(document, file)
        units = await asyncio.to_thread(file.units)
        document = await self._plan(document, units, account)
        progress.characters = document.characters
        progress.doubtful = await asyncio.to_thread(file.count_doubtful)
        progress.segments_done = sum(units.done)
        done = (text for text, is_done in zip(units.sources, units.done, strict=True) if is_done)
        progress.characters_done = progress.characters_before = sum(map(_characters, done))
        progress.began_s = monotonic()
        await self._translate_units(document, units, account, progress)
        warnings = await self.write(document, "result-0")
        report: dict[str, Any] = json.loads(document.report)
        report["warnings"] += [{"code": code, "message": message} for code, message in progress.notes.items()]
        report["warnings"] += [{"message": message} for message in warnings]
        expires_at = utc_now() + timedelta(hours=self._settings.keep_h)
        return {"state": "done", "report": json.dumps(report), "expires_at": expires_at}

    async def _read(self, document: StoredDocument, file: SegmentFile) -> StoredDocument:
        """Have the file read; store its report, and then its units: a document that has units was read."""
        folder = self.folder_of(document)
        if not (folder / SOURCE).is_file():
            raise InvalidFile("its files are not here: servers that share a database share documents.folder too")
        task = WorkerTask("read", str(folder), read_options(document))
        try:
            await self._work(task)
            found: dict[str, Any] = json.loads(await asyncio.to_thread(task.file("report").read_text, "utf-8"))
            report = json.dumps({**found, "warnings": [{"message": one} for one in found["warnings"]]})
            await self._store.update(document.id, self._owner, report=report)

            def store() -> None:
                with task.file("units").open(encoding="utf-8") as lines:
                    file.create(SourceUnit(**json.loads(line)) for line in lines)

            await asyncio.to_thread(store)
        finally:
            task.delete_files()
        return replace(document, report=report)

    async def _plan(self, document: StoredDocument, units: Units, account: Account) -> StoredDocument:
        """Settle what a document has and its language, and store that. Its source stays None if it has no letters.

        Raises `InvalidFile` for too many characters, `InvalidRequest` for its language, `QuotaExceeded`.
        """
        characters, sample = await asyncio.to_thread(_count, units)
        most = self._settings.max_characters
        if characters > most:
            raise InvalidFile(f"the document has {characters:,} characters to translate; this server accepts {most:,}")
        source = document.source
        if source is None:
            detection = self._service.translator.planner.detector.detect(sample)
            source = detection.language
            if source is None and detection.has_letters:
                raise InvalidRequest("the document's language could not be detected: give it", param="source")
        if source == document.target:
            raise InvalidRequest(EQUAL_LANGUAGES, param="target")
        found: dict[str, Any] = {"source": source, "characters": characters, "segments": len(units.sources)}
        await self._store.update(document.id, self._owner, **found)
        if not document.charged:
            await self._service.accounts.check_document(account, characters)
        return replace(document, **found)

    async def _translate_units(
        self, document: StoredDocument, units: Units, account: Account, progress: _Progress
    ) -> None:
        """Translate all units that are not done, and store them as they come."""
        numbers = [number for number, is_done in enumerate(units.done) if not is_done]
        if document.source is None:  # there are no letters
            texts = ((n, units.sources[n]) for n in numbers)
            progress.finished += [(Result(n, text, None, ()), _characters(text)) for n, text in texts]
            await self._store_finished(document, progress)
            return
        for at in range(0, len(numbers), MOST_TEXTS):
            of_request = numbers[at : at + MOST_TEXTS]
            request = await self.request(document, [units.sources[n] for n in of_request], account)
            contexts, follows = _contexts(units, of_request)
            request = replace(request, contexts=contexts, follows=follows, is_document=True)
            try:
                async with (
                    self._service.calls.call(request, streamed=False) as call,
                    aclosing(self._service.translator.events(request)) as events,
                ):
                    async for event in events:
                        if isinstance(event, TextDone):
                            call.done(event.index, event.translation)
                            n = of_request[event.index]
                            result = _result(n, event.translation, progress)
                            progress.finished.append((result, _characters(units.sources[n])))
                        if len(progress.finished) >= BATCH:
                            await self._store_finished(document, progress)
            finally:  # also what is finished when it is cancelled
                await self._store_finished(document, progress)

    async def _store_finished(self, document: StoredDocument, progress: _Progress) -> None:
        """Store the segments that are finished and not stored yet."""
        async with progress.storing:  # so that all is stored when this returns
            finished, progress.finished = progress.finished, []
            if finished:
                results = [result for result, _ in finished]
                await asyncio.to_thread(self.segments_of(document).store, results)
                progress.segments_done += len(results)
                progress.doubtful += sum(bool(one.warnings) for one in results)
                progress.characters_done += sum(characters for _, characters in finished)

    async def request(self, document: StoredDocument, texts: Iterable[str], account: Account) -> TranslationRequest:
        """Return a bulk request of texts in the document's language, with its options."""
        options = DocumentOptions.of(document)
        entries: Mapping[str, str] = {}
        key: tuple[object, ...] | None = None
        if not isinstance(options.glossary, str):
            entries = options.glossary
        elif options.glossary:
            source = document.source or document.target
            stored = await self._service.glossaries.dictionary(options.glossary, source, document.target)
            entries, key = stored.entries, stored.key
        memories: tuple[str, ...] | None = None if options.memory else ()
        if isinstance(options.memory, str):
            memories = ((await self._service.memories.store.get(account.id, options.memory)).id,)
        return TranslationRequest(
            tuple(texts),
            document.target,
            document.source,
            format="marks",
            context=options.context or None,
            keep=options.keep,
            glossary=entries,
            glossary_key=key,
            memories=memories,
            formality=options.formality,
            instructions=options.instructions,
            request_id=f"document-{document.id.lower()}",
            priority="bulk",
            account=account,
            api=cast(ApiName, document.api),
        )

    async def write(self, document: StoredDocument, result: str) -> list[str]:
        """Write the file `result` from the stored translations; return warnings."""
        folder, file = self.folder_of(document), self.segments_of(document)
        task = WorkerTask("write", str(folder), read_options(document))

        def translations() -> None:
            with task.file("translations").open("w", encoding="utf-8") as out:
                out.writelines(json.dumps(one) + "\n" for one in file.translations())

        try:
            await asyncio.to_thread(translations)
            await self._work(task)
            report: dict[str, list[str]] = json.loads(await asyncio.to_thread(task.file("report").read_text, "utf-8"))
            await asyncio.to_thread(task.file().replace, folder / result)
        finally:
            task.delete_files()
        return report["warnings"]

    def _unexpected(self, document: StoredDocument, error: Exception) -> DragomanError:
        if self.folder_of(document).is_dir():  # else it was deleted meanwhile
            log.error("document %s failed", document.id, exc_info=error)
        return DragomanError("the server failed on this document; see its log")


def read_options(document: StoredDocument) -> ReadOptions:
    """What a reader is told of a document."""
    options = DocumentOptions.of(document)
    return ReadOptions(
        document.format, document.target, document.source, options.output, options.comments, options.columns
    )


_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def disk_error(error: Exception) -> DiskFull | None:
    """Return the error for a caller, where the disk is full."""
    is_full = isinstance(error, OSError) and error.errno in _NO_SPACE
    if is_full or (isinstance(error, sqlite3.OperationalError) and re.search("full|I/O", str(error))):
        return DiskFull("the server's disk is full; try again later")
    return None


@contextmanager
def full_disk_reported() -> Generator[None]:
    """Within: a full disk raises `DiskFull`."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        raise disk_error(error) or error from None


def _end_of(document: StoredDocument, error: DragomanError) -> dict[str, object]:
    """The columns of a document whose run failed: it runs again later where that may help."""
    if isinstance(error, Unavailable | EngineFailed) and document.attempts < MAX_ATTEMPTS:
        log.warning("a document waits: %s", error.message)
        return {"state": "queued", "retry_at": utc_now() + timedelta(seconds=RETRY_S)}
    return {"state": "error", "error_code": error.code, "error_message": error.message}


def _characters(source: str) -> int:
    return len(marks.plain(source))


def _count(units: Units) -> tuple[int, str]:
    """The characters of all units, and the longest texts, in which the language is detected."""
    texts = [*map(marks.plain, units.sources)]
    sample, length = list[str](), 0
    for text in sorted(dict.fromkeys(texts), key=len, reverse=True):
        sample.append(text)
        length += len(text)
        if length > SAMPLE_CHARACTERS:
            break
    return sum(map(len, texts)), "\n".join(sample)[:SAMPLE_CHARACTERS]


def _contexts(units: Units, numbers: Sequence[int]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """For a request of the units `numbers`: what is said around each, and whether it follows the one before it there.

    One that follows a unit that is not in the request has that as a context of its own.
    """
    contexts, follows, before = list[str](), list[bool](), -1
    for n in numbers:
        context, has_followed = units.contexts[n], n > 0 and bool(units.follows[n])
        if has_followed and n - 1 != before:
            end = marks.plain(units.sources[n - 1])[-CONTEXT_CHARACTERS:]
            context = f"{context}\n{end}" if context else end
        contexts.append(context)
        follows.append(has_followed and n - 1 == before)
        before = n
    return tuple(contexts), tuple(follows)


def _result(n: int, translation: Translation, progress: _Progress) -> Result:
    progress.notes |= {one.code: one.message for one in translation.warnings if one.code in _NOTES}
    warnings = [
        dict[str, object](code=one.code, message=one.message, missing=list(one.missing))
        for one in translation.warnings
        if one.code not in _NOTES
    ]
    return Result(n, translation.text, translation.confidence, warnings, memory=translation.memory is not None)
