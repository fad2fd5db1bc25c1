"""A run of one document: its file is read, its units translated as a bulk request, and its result written.

All units are offered to the dispatcher at once, up to `MOST_TEXTS`. Finished ones are stored as they come, so that a later run,
which may be another server's, goes on where this one ended. Files are read and written by `wholetext.files.worker`, never in
this process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, BinaryIO, cast, get_args

from dragoman.errors import (
    DocumentLost,
    DragomanError,
    EngineFailed,
    EqualLanguages,
    Forbidden,
    InvalidFile,
    QueueFull,
    StorageUnavailable,
    Unavailable,
    UndetectedLanguage,
    UnknownDocument,
    UnsupportedLanguage,
    file_errors,
)
from dragoman.service.calls import Calls
from dragoman.service.document_places import DocumentPlaces
from dragoman.service.document_terms import TERMS, DocumentTerms, read_terms
from dragoman.service.memories import Memories
from dragoman.settings import DocumentSettings
from dragoman.storage.database import utc_now
from dragoman.storage.document_files import full_disk_reported, make_private, shortage
from dragoman.storage.documents import RETRY_S, DocumentStore, StoredDocument
from dragoman.storage.glossaries import Glossaries
from dragoman.telemetry.metrics import Metrics
from dragoman.telemetry.requests import OK, DocumentRecord
from dragoman.text import checks
from dragoman.threads import RUNS
from dragoman.types import (
    Account,
    ApiName,
    ConfidenceKind,
    Example,
    Options,
    TextDone,
    Translation,
    TranslationRequest,
)
from wholetext.files.content import MOST_LEFT, TEXT_GREW, ReadOptions
from wholetext.files.segmentfile import Result, StoredSegment, Units
from wholetext.files.worker import SOURCE, WorkerTask
from wholetext.markup import marks

log = logging.getLogger("dragoman.documents")

MAX_ATTEMPTS = 5
"""How often a document is begun by servers that do not end it, before it is an error: it may be what they die of."""
BEAT_S = 1.0
"""How often a server reports that it works on a document, and stores progress and segments."""
PAGE = 5_000
"""Segments that are read at once where all are wanted."""
BATCH = 500
"""Segments that are stored before `BEAT_S` has passed."""
MOST_TEXTS = 10_000
"""Units of one request. More would make collections of garbage longer than other calls may wait."""
SAMPLE_CHARACTERS = 4_000
"""Of a document's longest texts, in which its language is detected."""
CONTEXT_CHARACTERS = 300
"""Of a unit that was translated in an earlier run, the end that is context of the next."""
_NOTES = {checks.FORMALITY_IGNORED, checks.CONTEXT_IGNORED, checks.INSTRUCTIONS_IGNORED}
"""Warnings about the request, which a document has once, and not with each segment."""


_STORED_OPTIONS = ("context", "keep", "formality", "instructions", "memory_similarity")


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """What a caller wants of a document. Languages are tags.

    Terms are not stored with the options, but beside the file: `has_terms`.
    """

    target: str
    source: str | None = None
    options: Options = field(default_factory=Options)
    output: str = ""  # the result's extension; empty: the file's own
    glossary: str = ""  # the reference of a stored one, instead of the options' entries
    comments: bool = False
    columns: tuple[str, ...] = ()
    dialect: str = ""  # of Markdown; empty: guessed
    memory: bool | str = True  # whether the key's translation memories are used, or the reference of the only one
    has_terms: bool = False

    def stored(self) -> str:
        """As they are stored of a document."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "options"}
        return json.dumps(own | {name: getattr(self.options, name) for name in _STORED_OPTIONS})

    @classmethod
    def of(cls, stored: str) -> DocumentOptions:
        """Those that are stored of a document. Raises `DocumentLost`."""
        try:
            values: dict[str, Any] = json.loads(stored)
            if isinstance(values["glossary"], dict):  # of an older version
                values |= {"glossary": "", "entries": values["glossary"]}
            keep, instructions = tuple(values["keep"]), tuple(values["instructions"])
            options = Options(
                context=values["context"] or None,
                keep=keep,
                glossary=values.get("entries", {}),
                formality=values["formality"],
                instructions=instructions,
                memory_similarity=values.get("memory_similarity"),  # which older versions do not store
            )
            own: dict[str, Any] = {one.name: values[one.name] for one in fields(cls) if one.name in values}
            own["columns"] = tuple(values["columns"])
            return cls(**own, options=options)
        except (ValueError, TypeError, KeyError):
            raise DocumentLost("the document's options are damaged: delete it, and send it again") from None


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
    confidence_kind: ConfidenceKind | None = None

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


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a server on which its documents stand."""

    calls: Calls
    glossaries: Glossaries
    memories: Memories
    metrics: Metrics


class DocumentRuns:
    """Runs documents that the server `owner` has claimed."""

    def __init__(
        self,
        parts: ServerParts,
        store: DocumentStore,
        places: DocumentPlaces,
        settings: DocumentSettings,
        owner: str,
    ) -> None:
        self._parts = parts
        self._store = store
        self._places = places
        self._settings = settings
        self._owner = owner
        self._terms: tuple[str, DocumentTerms | None] = ("", None)  # of the document that was last asked for

    async def options(self, document: StoredDocument) -> DocumentOptions:
        """Return a document's options. Raises `UnknownDocument`, `DocumentLost`."""
        stored = await self._store.options(document.id)
        if stored is None:
            raise UnknownDocument("the document was deleted")
        return await RUNS.run(DocumentOptions.of, stored)

    @asynccontextmanager
    async def _workspace(self, document: StoredDocument) -> AsyncGenerator[Path]:
        """A folder for a worker, with the document's file. Raises `DocumentLost`."""
        folder = self._places.work / token_hex(16)
        source = await self._places.of(document).open(document.id, SOURCE)
        if source is None:
            raise DocumentLost("the document's file is missing: delete it, and send it again")
        try:
            with full_disk_reported():
                with source:
                    await RUNS.run(_copy, source, folder)
                yield folder
        finally:
            await RUNS.run(shutil.rmtree, folder, ignore_errors=True)

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
            ended = _end_of(document, shortage(error) or await self._unexpected(document, error))
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
            self._parts.metrics.document_ended(DocumentRecord(document.format, outcome, progress.characters, elapsed_s))

    async def _work(self, task: WorkerTask) -> dict[str, Any]:
        """Have a worker do a task; return its report. Raises what `Workers.run` raises."""
        began_s = monotonic()
        try:
            with file_errors():
                return await self._parts.memories.workers.run(task)
        finally:
            self._parts.metrics.document_worked_on(task.op, monotonic() - began_s)

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
        account = self._parts.calls.accounts.account(document.account_id)
        if account is None:
            raise Forbidden("the key of this document is not valid any more")
        files, options = self._places.of(document), await self.options(document)
        units = await files.units(document.id)
        if units is None:
            document = await self._read(document, options)
            units = await files.units(document.id)
        if units is None:
            raise UnknownDocument("the document was deleted")
        document = await self._plan(document, units, account)
        progress.characters = document.characters
        page = await files.page(document.id, 0, 0)
        progress.doubtful = page.doubtful_total if page is not None else 0
        progress.segments_done = sum(units.done)
        done = (text for text, is_done in zip(units.sources, units.done, strict=True) if is_done)
        progress.characters_done = progress.characters_before = sum(map(_characters, done))
        progress.began_s = monotonic()
        await self._translate_units(document, options, units, account, progress)
        result, warnings = await self.write(document, options, "result-0")
        result.close()
        report = report_of(document)
        report["warnings"] += [{"code": code, "message": message} for code, message in progress.notes.items()]
        report["warnings"] += map(_writing_warning, warnings)
        left = await self._left(document) if document.detected else []
        report["left"] = [*report["left"], *map(_left_entry, left)][:MOST_LEFT]
        report["left_count"] += len(left)
        report["confidence_kind"] = progress.confidence_kind
        characters = document.characters - sum(_characters(one.source) for one in left)  # what is charged
        expires_at = utc_now() + timedelta(hours=self._settings.keep_h)
        return {
            "state": "done",
            "report": json.dumps(report),
            "expires_at": expires_at,
            "characters": characters,
            "characters_done": characters,
        }

    async def _left(self, document: StoredDocument) -> list[StoredSegment]:
        """Return the segments that were left because they are in a language that is not served."""
        left, at = list[StoredSegment](), 0
        while (page := await self._places.of(document).page(document.id, at, PAGE, doubtful=True)) and page.segments:
            at += len(page.segments)
            left += [one for one in page.segments if any(w["code"] == checks.LANGUAGE_NOT_SERVED for w in one.warnings)]
        return left

    async def _read(self, document: StoredDocument, options: DocumentOptions) -> StoredDocument:
        """Have the file read; store its report, and then its units: a document that has units was read."""
        async with self._workspace(document) as folder:
            task = WorkerTask("read", str(folder), _read_options(document, options))
            found = await self._work(task)
            report = json.dumps({**found, "warnings": [{"message": one} for one in found["warnings"]]})
            await self._store.update(document.id, self._owner, report=report)
            await self._places.of(document).add_segments(document.id, task.file("segments"))
        return replace(document, report=report)

    async def _plan(self, document: StoredDocument, units: Units, account: Account) -> StoredDocument:
        """Settle what a document has and its language, and store that. Its source stays None if it has no letters.

        Raises `InvalidFile` for too many characters, `UnsupportedLanguage`, `EqualLanguages` or `UndetectedLanguage`,
        `QuotaExceeded`.
        """
        characters, sample = await RUNS.run(_count, units)
        most = self._settings.max_characters
        if characters > most:
            raise InvalidFile(f"the document has {characters:,} characters to translate; this server accepts {most:,}")
        source = document.source
        if source is None:
            detector = self._parts.calls.translator.planner.detector
            detection, served = detector.detect(sample), detector.served
            source = detection.language
            if source is not None and not detection.is_served:
                raise UnsupportedLanguage(f"the document is in {checks.language_named(source, served)}", param="source")
            if source is None and detection.has_letters:
                raise UndetectedLanguage("the document's language could not be detected: give it", param="source")
        if source == document.target:
            raise EqualLanguages
        found: dict[str, Any] = {"source": source, "characters": characters, "segments": len(units.sources)}
        await self._store.update(document.id, self._owner, **found)
        if not document.charged:
            await self._parts.calls.accounts.check_document(account, characters)
        return replace(document, **found)

    async def _translate_units(
        self, document: StoredDocument, options: DocumentOptions, units: Units, account: Account, progress: _Progress
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
            request = await self.request(document, options, [units.sources[n] for n in of_request], account)
            contexts, follows = _contexts(units, of_request)
            request = replace(request, contexts=contexts, follows=follows, is_document=True)
            try:
                async with (
                    self._parts.calls.registry.call(request, streamed=False) as call,
                    aclosing(self._parts.calls.translator.events(request)) as events,
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
                await self._places.of(document).store(document.id, results)
                progress.segments_done += len(results)
                progress.doubtful += sum(bool(one.warnings) for one in results)
                progress.characters_done += sum(characters for _, characters in finished)

    async def request(
        self, document: StoredDocument, options: DocumentOptions, texts: Iterable[str], account: Account
    ) -> TranslationRequest:
        """Return a bulk request of texts in the document's language, with its options."""
        entries, key = await self._glossary(document, options)
        memories: tuple[str, ...] | None = None if options.memory else ()
        if isinstance(options.memory, str):
            memories = (await self._parts.memories.id_of(account.id, options.memory),)
        return TranslationRequest(
            tuple(texts),
            document.target,
            document.source,
            is_source_detected=document.detected and document.source is not None,
            format="marks",
            options=replace(options.options, glossary=entries, glossary_key=key, memories=memories),
            request_id=f"document-{document.id.lower()}",
            priority="bulk",
            account=account,
            api=cast(ApiName, document.api),
        )

    async def translate_again(
        self, document: StoredDocument, texts: Mapping[int, str], account: Account, examples: tuple[Example, ...]
    ) -> list[int]:
        """Translate segments of a document that is done, by their numbers, after examples; store each in which the checks find
        nothing, unless a person has edited it. Return the numbers of these.

        They are an interactive call of the account. Raises what `Calls.translate` does.
        """
        request = await self.request(document, await self.options(document), texts.values(), account)
        with_examples = replace(request.options, examples=examples)
        request = replace(request, options=with_examples, priority=account.priority)
        translations = await self._parts.calls.translate(request)
        results = [_result(n, one, _Progress()) for n, one in zip(texts, translations, strict=True)]
        sound = [one for one in results if not one.warnings]
        await self._places.of(document).store(document.id, sound)
        return [one.n for one in sound]

    async def _glossary(
        self, document: StoredDocument, options: DocumentOptions
    ) -> tuple[Mapping[str, str], tuple[object, ...] | None]:
        """The terms for a document, and a key for them: those that its glossaries had when it was uploaded."""
        if options.has_terms:
            id, terms = self._terms
            if id != document.id or terms is None:
                file = await self._places.of(document).open(document.id, TERMS)
                if file is None:
                    raise DocumentLost("the document's terms are missing: delete it, and send it again")
                with file:
                    terms = await RUNS.run(read_terms, file)
                self._terms = document.id, terms
            return terms.of(document.source)
        if not options.glossary:
            return options.options.glossary, None  # which only older versions have stored
        source = document.source or document.target
        owner = document.account_id
        stored = await self._parts.glossaries.dictionary(owner, options.glossary, source, document.target)
        return stored.entries, stored.key

    async def write(
        self, document: StoredDocument, options: DocumentOptions, result: str
    ) -> tuple[BinaryIO, list[str]]:
        """Write the file `result` from the stored translations; return it, open, and warnings."""
        files = self._places.of(document)
        with ExitStack() as closed_on_error:
            async with self._workspace(document) as folder:
                task = WorkerTask("write", str(folder), _read_options(document, options))
                if await files.copy_segments(document.id, task.file("segments")) != document.segments:
                    raise DocumentLost("the document's segments are damaged: delete it, and send it again")
                report = await self._work(task)
                written = closed_on_error.enter_context(await RUNS.open(partial(task.file().open, "rb")))
                await files.put(document.id, result, task.file())
            closed_on_error.pop_all()
        return written, report["warnings"]

    async def _unexpected(self, document: StoredDocument, error: Exception) -> DragomanError:
        is_deleted = False
        with suppress(StorageUnavailable):
            is_deleted = await self._store.get(document.id) is None
        if not is_deleted:
            log.error("document %s failed", document.id, exc_info=error)
        return DragomanError("the server failed on this document; see its log")


def _copy(source: BinaryIO, folder: Path) -> None:
    """Copy an open file into a new folder."""
    make_private(folder.parent)
    folder.mkdir(mode=0o700)
    target = folder / SOURCE
    target.touch(mode=0o600)
    with target.open("wb") as out:
        shutil.copyfileobj(source, out, 2**20)


def _writing_warning(message: str) -> dict[str, str]:
    """A warning of the one who wrote the file, with its place and its code where it says them."""
    if not message.startswith(TEXT_GREW):
        return {"message": message}
    message = message.removeprefix(TEXT_GREW)
    return {"code": TEXT_GREW.rstrip(": "), "place": message.partition(": ")[0], "message": message}


def report_of(document: StoredDocument) -> dict[str, Any]:
    """What was found in a document: `warnings`, texts that were `left`, their `left_count`, and the
    `confidence_kind` of its segments. Raises `DocumentLost`."""
    try:
        report: Any = json.loads(document.report)
    except ValueError:
        report = None
    if not isinstance(report, dict):
        raise DocumentLost("what is stored of the document is damaged: delete it, and send it again")
    found = cast(dict[str, Any], report)
    warnings, left, count = found.get("warnings", []), found.get("left", []), found.get("left_count", 0)
    has_lists = _has_texts(warnings, "message") and _has_texts(left, "place", "reason", "text")
    if not has_lists or not isinstance(count, int):
        raise DocumentLost("what is stored of the document is damaged: delete it, and send it again")
    kind = found.get("confidence_kind")
    return {
        "warnings": warnings,
        "left": left,
        "left_count": count,
        "confidence_kind": kind if kind in get_args(ConfidenceKind) else None,
    }


def _has_texts(rows: object, *names: str) -> bool:
    """Whether something is a list of objects with texts of these names, and no other values but texts and null."""
    return isinstance(rows, list) and all(
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in names)
        and all(value is None or isinstance(value, str) for value in cast(dict[str, Any], row).values())
        for row in cast(list[Any], rows)
    )


def _read_options(document: StoredDocument, options: DocumentOptions) -> ReadOptions:
    """What a reader is told of a document."""
    return ReadOptions(
        document.format,
        document.target,
        document.source,
        options.output,
        options.comments,
        options.columns,
        options.dialect,
    )


def _end_of(document: StoredDocument, error: DragomanError) -> dict[str, object]:
    """The columns of a document whose run failed: it runs again later where that may help."""
    if isinstance(error, Unavailable | EngineFailed | QueueFull) and document.attempts < MAX_ATTEMPTS:
        log.warning("a document waits: %s", error.message)
        return {"state": "queued", "retry_at": utc_now() + timedelta(seconds=RETRY_S)}
    return {"state": "error", "error_code": error.code, "error_message": error.message}


def _left_entry(segment: StoredSegment) -> dict[str, str]:
    """A segment as a document's report lists what is not translated."""
    text = " ".join(marks.plain(segment.source)[:200].split())
    return {"place": segment.place, "reason": checks.LANGUAGE_NOT_SERVED, "text": text}


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
    progress.confidence_kind = translation.confidence_kind or progress.confidence_kind
    warnings = [
        dict[str, object](code=one.code, message=one.message, missing=list(one.missing))
        for one in translation.warnings
        if one.code not in _NOTES
    ]
    return Result(
        n,
        translation.text,
        translation.confidence,
        warnings,
        memory=translation.memory is not None,
        examples=len(translation.examples),
        best_similarity=round(max((one.similarity for one in translation.examples), default=0.0), 1) or None,
    )
