"""What clients read and change of documents that are translated: results, segments, people's edits, other translations.

`service.documents` has their life: how they come, are queued, translated, and deleted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal

from dragoman.errors import (
    DocumentLost,
    DocumentNotReady,
    InvalidRequest,
    UnknownDocument,
    WrongMarks,
    file_errors,
)
from dragoman.service.alternatives import canonical_form
from dragoman.service.document_edits import nearest_edits, similar_segments
from dragoman.service.document_places import DocumentPlaces
from dragoman.service.document_runs import PAGE, DocumentRuns, ServerParts
from dragoman.service.document_search import Found, SegmentQuery, replaced, search
from dragoman.service.memories import EDITS
from dragoman.storage.database import utc_now
from dragoman.storage.document_files import RESULT
from dragoman.storage.documents import DocumentStore, StoredDocument
from dragoman.threads import SEGMENTS
from dragoman.types import Account, Example, Translation
from wholetext.files import formats
from wholetext.files.content import ReadOptions
from wholetext.files.exports import digest, read_again
from wholetext.files.returned import ReturnedSegment
from wholetext.files.segmentfile import MOST_CHANGED, Edited, Page, SegmentEdit, StoredSegment
from wholetext.files.worker import RETURNED, WorkerTask
from wholetext.markup import marks
from wholetext.markup.marks import MARK

DOWNLOADED_S = 600.0
"""How long a document of DeepL's API stays after a download, which may break and be repeated."""
MOST_EDITED_CHARACTERS = 20_000_000
"""Of the translations of all segments that one edit changes."""
MOST_TRANSLATION_CHARACTERS = 100_000
"""Of a person's translation of a segment."""
_TAKEN_AT_ONCE = 500
"""Segments that come back, in one transaction."""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file to send, which is open, and stays readable if the document is deleted; its name for the client, and its type."""

    file: BinaryIO
    name: str
    media_type: str


RefusalCode = Literal["no_translation", "marks", "characters"]
"""Why a segment of a file that comes back is not set: it has no translation that can be read, or one without the marks of its
source, or with characters that files cannot have."""


@dataclass(frozen=True, slots=True)
class ReturnConflict:
    """A segment that was changed here since a file was exported, and has another translation in the file: `segment` is as it
    was here when the file came back, `returned` its translation in the file, which counts as `reviewed` or not."""

    segment: StoredSegment
    returned: str
    reviewed: bool


@dataclass(slots=True)
class TakenBack:
    """What a file of `segments` has changed: numbers of those with another translation, of those that are reviewed now, and of
    those that could not be set, with the reason as a code and in words. `conflicts` are the first of `conflicts_count`, which
    the file has changed, and `as_exported` those of `as_exported_count`: what they have here came with another file of the same
    export, and this one has them as they were exported, untouched or set back."""

    segments: int
    changed: list[int] = field(default_factory=list[int])
    reviewed: list[int] = field(default_factory=list[int])
    refused: list[tuple[int, RefusalCode, str]] = field(default_factory=list[tuple[int, RefusalCode, str]])
    conflicts: list[ReturnConflict] = field(default_factory=list[ReturnConflict])
    conflicts_count: int = 0
    as_exported: list[ReturnConflict] = field(default_factory=list[ReturnConflict])
    as_exported_count: int = 0

    def add_conflict(self, returned: ReturnedSegment, row: StoredSegment) -> None:
        """Note a segment that has another translation here than in the file, which has changed it too."""
        self.conflicts_count += 1
        _add_first(self.conflicts, returned, row)

    def add_as_exported(self, returned: ReturnedSegment, row: StoredSegment) -> None:
        """Note a segment that another file of the same export has changed."""
        self.as_exported_count += 1
        _add_first(self.as_exported, returned, row)


def _add_first(conflicts: list[ReturnConflict], returned: ReturnedSegment, row: StoredSegment) -> None:
    if returned.target is not None and len(conflicts) < MOST_CHANGED:
        conflicts.append(ReturnConflict(row, returned.target, not returned.is_open))


class Turns:
    """Lets tasks take turns with one thing, by its id, without a thread that waits."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def of(self, id: str) -> AsyncGenerator[None]:
        """Within: no other task has the turn of this id."""
        lock, users = self._locks.get(id, (asyncio.Lock(), 0))
        self._locks[id] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(id)
            if users > 1:
                self._locks[id] = lock, users - 1


class DocumentContents:
    """What is in the documents of one server. The account is charged at the first delivery of each.

    Methods raise `StorageUnavailable`, `DocumentLost`, and `UnknownDocument` if the document was deleted meanwhile.
    """

    def __init__(
        self,
        parts: ServerParts,
        store: DocumentStore,
        places: DocumentPlaces,
        runs: DocumentRuns,
        *,
        remembers_edits: bool,
    ) -> None:
        self._parts = parts
        self._store = store
        self._places = places
        self._runs = runs
        self._remembers_edits = remembers_edits
        self._building, self._editing = Turns(), Turns()

    async def result(self, document: StoredDocument) -> ResultFile:
        """Return the translated file, which is built anew where segments were edited; the account is charged once.

        Raises `DocumentNotReady`, `DocumentLost`, or the error that the document ended with.
        """
        _check_done(document)
        name = f"{RESULT}{document.edits}"
        async with self._there(document):
            options = await self._runs.options(document)
            files = self._places.of(document)
            file = await files.open(document.id, name)
            if file is None:
                async with self._building.of(document.id):
                    file = await files.open(document.id, name)
                    if file is None:  # nor did another build it
                        file, _ = await self._runs.write(document, options, name)
        try:
            await self._delivered(document)
            with file_errors():
                output = formats.format_of(options.output)
            same = formats.find(formats.extension_of(document.name)) is output
            shown = document.name if same else f"{Path(document.name).stem}.{output.name}"
            return ResultFile(file, shown, output.media_type)
        except BaseException:
            file.close()
            raise

    async def segments(
        self, document: StoredDocument, offset: int = 0, limit: int = 100, *, doubtful: bool = False
    ) -> Page:
        """Return a page of segments, as far as they are translated; none before the file was read."""
        if document.error_code == DocumentLost.code:
            raise DocumentLost(document.error_message or "")
        if not document.segments:
            return Page()  # its characters, which are charged, are counted with its segments
        async with self._there(document):
            page = await self._places.of(document).page(document.id, offset, limit, doubtful=doubtful)
            if page is None:
                raise DocumentLost("the document's segments are missing: delete it, and send it again")
        await self._delivered(document)
        return page

    async def all_segments(self, document: StoredDocument) -> list[StoredSegment]:
        """Return all segments of a document that is done. Raises `DocumentNotReady`, or the document's error."""
        _check_done(document)
        found = list[StoredSegment]()
        async with self._there(document):
            while len(found) < document.segments:
                page = await self._places.of(document).page(document.id, len(found), PAGE)
                if page is None or not page.segments:
                    raise DocumentLost("the document's segments are missing: delete it, and send it again")
                found += page.segments
        await self._delivered(document)
        return found

    async def _delivered(self, document: StoredDocument) -> None:
        """Charge the account at the first delivery. What DeepL's clients have downloaded stays for some minutes."""
        if document.charged:
            return
        if await self._parts.calls.accounts.charge_document(self._store, document) and document.api == "deepl":
            await self._store.update(document.id, expires_at=utc_now() + timedelta(seconds=DOWNLOADED_S))

    async def edit(
        self,
        document: StoredDocument,
        n: int,
        translation: str | None,
        *,
        reviewed: bool = True,
        all_equal: bool = False,
        was: str | None = None,
    ) -> list[StoredSegment]:
        """Set the translation of a segment, and of `all_equal` ones; None: only whether they are `reviewed`. Return these, of
        very many the first; none where its translation is no longer what it `was`. Raises what `edit_all` does."""
        return (
            await self.edit_all(document, [SegmentEdit(n, translation, reviewed, was)], all_equal=all_equal)
        ).changed

    async def edit_all(
        self, document: StoredDocument, edits: Sequence[SegmentEdit], *, all_equal: bool = False
    ) -> Edited:
        """Set what people have changed in segments, or nothing. The result has it at its next download, and the account's
        memory of edits has at once what is reviewed.

        Raises `InvalidRequest` where marks of the source are lost, repeated or invented, for control characters, and for an
        unknown segment.
        """
        _check_done(document)
        async with self._editing.of(document.id):
            return await self._edit_all(document, edits, all_equal=all_equal)

    async def _edit_all(self, document: StoredDocument, edits: Sequence[SegmentEdit], *, all_equal: bool) -> Edited:
        numbers = [one.n for one in edits]
        segments = {one.n: one for one in await self.rows(document, numbers)}
        for edit in edits:
            if edit.n not in segments:
                raise _no_segment(document, edit.n)
            if edit.translation is not None:
                _check_edit(segments[edit.n], edit.translation, all_equal=all_equal)
        async with self._there(document):
            edited = await self._places.of(document).edit(document.id, edits, all_equal=all_equal)
        changes = any(one.translation is not None for one in edits)
        if edited.changed and not await self._store.add_edit(document.id, edited.doubtful, changes=changes):
            raise UnknownDocument("the document was deleted")
        if self._remembers_edits:
            done = [one for one in edits if one.n not in set(edited.conflicts)]
            await self._remember(document, done, segments, all_equal=all_equal)
        return edited

    async def _remember(
        self,
        document: StoredDocument,
        edits: Sequence[SegmentEdit],
        before: Mapping[int, StoredSegment],
        *,
        all_equal: bool,
    ) -> None:
        """Have the account's memory of edits know what is approved now, and no longer what was approved before: where others
        of the same source are not edited with it, they may still be approved."""
        if document.source is None:
            return
        memories, place = self._parts.memories, (document.account_id, EDITS, document.source, document.target)
        approved, withdrawn = list[tuple[str, str]](), list[tuple[str, str]]()
        for edit in edits:
            was = before[edit.n]
            if edit.reviewed:
                approved.append((was.source, edit.translation or was.translation or ""))
            elif was.reviewed and (all_equal or not was.equal):
                withdrawn.append((was.source, was.translation or ""))
        if withdrawn:
            await memories.forget(*place, withdrawn)
        await memories.remember(*place, approved)

    async def take_back(self, document: StoredDocument, folder: Path, *, overwrite: bool = False) -> TakenBack:
        """Set the translations of an XLIFF export of the document that comes back, from the file `source` in a folder. What was
        changed here since it was exported stays; where the file has changed it too, that is a conflict, for which `overwrite`
        takes the file's translation.

        Raises `InvalidFile`, and `InvalidRequest` for the file of another document, or one that has a segment twice: then
        nothing is changed.
        """
        _check_done(document)
        task = WorkerTask("read", str(folder), ReadOptions(RETURNED, ""))
        with file_errors():
            report = await self._parts.memories.workers.run(task)
        taken = TakenBack(report["segments"])
        if not taken.segments:
            raise InvalidRequest("the file has no segments", param="file")
        checked = set[int]()
        for first_pass in (True, False):
            with task.file("entries").open(encoding="utf-8") as lines:
                while batch := await SEGMENTS.run(_next_segments, lines):
                    rows = {one.n: one for one in await self.rows(document, [one.n for one in batch])}
                    if first_pass:
                        _check_sources(batch, rows, checked)
                    elif edits := await SEGMENTS.run(_edits_of, batch, rows, taken, overwrite):
                        conflicts = set((await self.edit_all(document, edits)).conflicts)
                        if conflicts:
                            await self._note_late(document, [one for one in batch if one.n in conflicts], taken)
        return taken

    async def _note_late(self, document: StoredDocument, late: Sequence[ReturnedSegment], taken: TakenBack) -> None:
        """Note segments that people have changed after they were compared with the file, which has not changed them."""
        numbers = {one.n for one in late}
        taken.changed = [n for n in taken.changed if n not in numbers]
        taken.reviewed = [n for n in taken.reviewed if n not in numbers]
        known = {one.segment.n for one in taken.conflicts}
        rows = {one.n: one for one in await self.rows(document, [*numbers])}
        for one in late:
            if one.n not in known and one.n in rows and _has_other(one, rows[one.n]):
                taken.add_conflict(one, rows[one.n])

    async def rows(self, document: StoredDocument, numbers: Sequence[int]) -> list[StoredSegment]:
        """Return the segments of these numbers, in their order, as far as there are any."""
        if not document.segments:
            return []  # as `segments`
        async with self._there(document):
            found = await self._places.of(document).rows(document.id, numbers)
            if any(n < document.segments for n in set(numbers).difference(one.n for one in found)):
                raise DocumentLost("the document's segments are missing: delete it, and send it again")
        await self._delivered(document)
        return found

    async def search(self, document: StoredDocument, query: SegmentQuery, first: int, limit: int) -> Found:
        """Return the numbers of up to `limit` segments that are looked for, from number `first` on."""
        if not document.segments:
            return Found([], None)
        async with self._there(document):
            return await search(self._places.of(document), document.id, document.segments, query, first, limit)

    async def replacements(
        self, document: StoredDocument, query: SegmentQuery, replacement: str, first: int, limit: int
    ) -> tuple[list[tuple[StoredSegment, str]], int | None]:
        """Return up to `limit` segments whose translations have what is looked for, each with what it would be if that were
        replaced, and the number from which to go on. Nothing is changed; `edit_all` does.

        Raises `InvalidRequest` for a replacement with marks.
        """
        if not query.find or MARK.search(replacement):
            raise InvalidRequest("what is found and what replaces it are words, without marks", param="replacement")
        found = await self.search(document, replace(query, where="translation"), first, limit)

        def replace_all(segments: list[StoredSegment]) -> list[tuple[StoredSegment, str]]:
            most = min(MOST_TRANSLATION_CHARACTERS, MOST_EDITED_CHARACTERS // max(len(segments), 1))
            pairs = (
                (one, replaced(one.translation or "", query.find, replacement, query.match_case, most))
                for one in segments
            )
            return [(one, text) for one, text in pairs if text is not None and text != one.translation]

        segments = await self.rows(document, found.numbers) if found.numbers else []
        return await SEGMENTS.run(replace_all, segments), found.next

    async def alternatives(self, document: StoredDocument, n: int, count: int, account: Account) -> list[Translation]:
        """Return up to `count` other translations of a segment, which differ from each other and from its own.

        They are an interactive call of the account, with its limits; that of an edited segment may be the model's first one.
        What people have edited in the document are its examples. Raises what `TranslationService.translate` does.
        """
        segment = await self._segment(document, n)
        options = await self._runs.options(document)
        request = await self._runs.request(document, options, (segment.source,), account)
        examples = await self._examples(document, segment.source)
        own = replace(request.options, memories=(), examples=examples)  # the model's
        call = replace(request, alternatives=count, options=own, priority=account.priority)
        [first] = await self._parts.calls.translate(call)
        own = canonical_form(segment.translation or "")
        return [one for one in (first, *first.alternatives) if canonical_form(one.text) != own][:count]

    async def translate_similar(self, document: StoredDocument, n: int, account: Account) -> list[StoredSegment]:
        """Translate again the segments that are similar to an edited one, after what people have edited in the document; return
        those that have another translation now. Those that people have edited stay, and so do those whose new one is doubtful.

        They are an interactive call of the account. Raises `InvalidRequest` where `n` is not edited, or the model takes no
        examples, and what `TranslationService.translate` does.
        """
        if not self._parts.calls.translator.planner.prompts.takes_examples:
            raise InvalidRequest("the prompts of this model have no place for examples, which edits would be")
        segment = await self._segment(document, n)
        if not (segment.edited or segment.reviewed):
            raise InvalidRequest(f"segment {n} is not edited or reviewed", param="n")
        files = self._places.of(document)
        async with self._there(document):
            edits, units = await files.edits(document.id), await files.units(document.id)
        sources = [] if units is None else units.sources
        similar = await SEGMENTS.run(similar_segments, segment.source, sources, {source for source, _ in edits})
        if not similar:
            return []
        examples = await SEGMENTS.run(nearest_edits, segment.source, edits)
        before = {one.n: one.translation for one in await self.rows(document, [*similar])}
        async with self._there(document):
            changed = await self._runs.translate_again(document, similar, account, examples)
        found = [one for one in await self.rows(document, changed) if one.translation != before[one.n]]
        page = await self.segments(document, 0, 1)
        if found and not await self._store.add_edit(document.id, page.doubtful_total):
            raise UnknownDocument("the document was deleted")
        return found

    async def _examples(self, document: StoredDocument, text: str) -> tuple[Example, ...]:
        """What people have edited in a document, as examples for a text: those with the most similar sources, the most similar
        last, and none of the text itself."""
        async with self._there(document):
            edits = await self._places.of(document).edits(document.id)
        return await SEGMENTS.run(nearest_edits, text, [one for one in edits if one[0] != text])

    @asynccontextmanager
    async def _there(self, document: StoredDocument) -> AsyncGenerator[None]:
        """Within: what is missing or damaged raises `UnknownDocument` if the document was deleted meanwhile; else it has ended
        with this error."""
        try:
            yield
        except DocumentLost as lost:
            if await self._store.get(document.id) is None:
                raise UnknownDocument("the document was deleted") from None
            if document.state == "done":
                await self._store.update(document.id, state="error", error_code=lost.code, error_message=lost.message)
            raise

    async def _segment(self, document: StoredDocument, n: int) -> StoredSegment:
        _check_done(document)
        for segment in await self.rows(document, [n]):
            return segment
        raise _no_segment(document, n)


# ---- pure functions


def _next_segments(lines: Iterator[str]) -> list[ReturnedSegment]:
    return [ReturnedSegment(**json.loads(line)) for line in islice(lines, _TAKEN_AT_ONCE)]


def _check_sources(segments: Sequence[ReturnedSegment], rows: Mapping[int, StoredSegment], checked: set[int]) -> None:
    """Raises `InvalidRequest` for a segment that is not of the document, and for one that is among those `checked` before, to
    which the others are added: only one of its translations could be taken."""
    for one in segments:
        if one.n not in rows or read_again(rows[one.n].source) != read_again(one.source):
            raise InvalidRequest(
                f"the file is of another document: segment {one.n + 1} is not of this one", param="file"
            )
        if one.n in checked:
            raise InvalidRequest(f"the file has segment {one.n + 1} twice", param="file")
        checked.add(one.n)


def _edits_of(
    segments: Sequence[ReturnedSegment], rows: Mapping[int, StoredSegment], taken: TakenBack, overwrite: bool
) -> list[SegmentEdit]:
    """What segments that came back change; it is noted in `taken`, and what is not set too."""
    edits = list[SegmentEdit]()
    for one in segments:
        row = rows[one.n]
        changed_by = _changed_by(one, row)
        if one.target is None:
            taken.refused.append((one.n, "no_translation", "it has no translation that can be read"))
        elif changed_by == "nobody":
            if one.is_approved and not row.reviewed:
                taken.reviewed.append(one.n)
                edits.append(SegmentEdit(one.n, was=row.translation))
        elif changed_by == "another file":
            taken.add_as_exported(one, row)
        elif changed_by != "page":
            try:
                _check_edit(row, one.target, all_equal=False)
            except InvalidRequest as wrong:
                code: RefusalCode = "marks" if isinstance(wrong, WrongMarks) else "characters"
                taken.refused.append((one.n, code, wrong.message))
                continue
            if changed_by == "both":
                taken.add_conflict(one, row)
            if changed_by == "file" or overwrite:
                taken.changed.append(one.n)
                edits.append(
                    SegmentEdit(one.n, one.target, reviewed=not one.is_open, was=row.translation, base=one.base)
                )
    return edits


def _has_other(returned: ReturnedSegment, row: StoredSegment) -> bool:
    """Whether a segment has another translation in the file than here."""
    return returned.target is not None and read_again(returned.target) != read_again(row.translation or row.source)


def _changed_by(
    returned: ReturnedSegment, row: StoredSegment
) -> Literal["nobody", "file", "page", "another file", "both"]:
    """Who has changed a segment since the file was exported, which has another translation than the segment has here.

    Of what a file has as exported, nobody can tell whether it was set back there, where another file of the same export has
    changed it here. Where a tool has dropped what the export says, what people have changed here may have been changed in the
    file too.
    """
    target = returned.target
    if target is None or not _has_other(returned, row):
        return "nobody"
    if returned.base:
        if digest(target) == returned.base_digest:
            return "another file" if row.base == returned.base else "page"
        return "file" if digest(row.translation or row.source) == returned.base_digest else "both"
    if row.machine is not None and not returned.is_approved and read_again(target) == read_again(row.machine):
        return "page"  # the machine's translation, which the segment had when it was exported
    return "both" if row.edited or row.reviewed else "file"


def _no_segment(document: StoredDocument, n: int) -> InvalidRequest:
    return InvalidRequest(f"there is no segment {n}; the document has {document.segments}", param="n")


def _check_done(document: StoredDocument) -> None:
    """Raises `DocumentNotReady`, or `InvalidRequest` with the error that the document ended with."""
    if document.error_code == DocumentLost.code:
        raise DocumentLost(document.error_message or "")
    if document.state == "error":
        raise InvalidRequest(f"the document was not translated: {document.error_message}")
    if document.state != "done":
        raise DocumentNotReady("the document is still being translated")


def _check_edit(segment: StoredSegment, translation: str, *, all_equal: bool) -> None:
    """Raises `InvalidRequest` with the marks that a person's translation has not as the source has them, or with a character
    that files cannot have, or where all segments with it would be too long."""
    source = segment.source
    if all_equal and (1 + segment.equal) * len(translation) > MOST_EDITED_CHARACTERS:
        raise InvalidRequest(
            f"the {1 + segment.equal:,} equal segments would have more than {MOST_EDITED_CHARACTERS:,} characters",
            param="translation",
        )
    if found := next(marks.invented_controls(source, translation), None):
        raise InvalidRequest(
            f"the translation has U+{ord(found[0]):04X} at {found.start()}, which is no character of a text",
            param="translation",
        )
    wrong = marks.lost(source, translation)
    if wrong:
        raise WrongMarks(
            f"the translation of segment {segment.n + 1} must have each mark of the source once, and pairs nested as there: "
            "look at " + ", ".join(f"number {number}" for number in wrong[:10]),
            param="translation",
        )
