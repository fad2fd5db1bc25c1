"""Translation memories: a text that a person has translated is answered from there, before the model and its cache.

Matches are exact: of a whole text, of a block of a document, or of a segment of a long one, with the marks of the source.
Entries are in the database (`storage.memories`). Of those of an account that calls, and of those that the server shares, this
process keeps the first 8 bytes of each digest, sorted, by memory and direction, so that a text of which there is no entry costs
no look into the database. What other servers write is read within `auth.refresh_s`. Entries whose texts are similar are
examples for the model; they are found in indexes in this process's memory (`service.similar`).

A call is served by its account's own memories, and after them by the shared ones, of which there is one index for all accounts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from dragoman import languages
from dragoman.errors import (
    BodyTooLarge,
    InvalidMemory,
    StorageUnavailable,
    UnknownMemory,
    UnsupportedLanguage,
    file_errors,
)
from dragoman.service.similar import Parts, SimilarIndexes, beginning_of, most_similar
from dragoman.storage.collections import SERVER, Pair, StoredCollection
from dragoman.storage.database import utc_now
from dragoman.storage.memories import (
    EDITS,
    MAX_TEXT_CHARACTERS,
    SUGGESTIONS,
    DigestRow,
    EntryKey,
    MemoryLimits,
    MemoryStore,
    NewEntry,
    StoredEntry,
    digest_of,
)
from dragoman.telemetry.logs import audit
from dragoman.text.adapted import adapted, number_of
from dragoman.text.similar import SimilarMatch
from dragoman.types import Example, TranslationRequest
from dragoman.version import writer
from wholetext.files import tmx
from wholetext.files.content import ReadOptions
from wholetext.files.exports import TMX_TAIL
from wholetext.files.worker import TMX, Workers, WorkerTask
from wholetext.markup import marks
from wholetext.markup.marks import MARK, MARK_VARIANT, Mark

if TYPE_CHECKING:
    from dragoman.service.uploads import Uploads

T = TypeVar("T")

log = logging.getLogger("dragoman.memories")

BATCH = 500
"""Texts of one look into the database, and entries that are sorted in one by one."""
ADD_BATCH, ADD_CHARACTERS = 1_000, 1_000_000
"""Entries, and about as many characters, of one transaction, in which no other can write."""
EXPORT_PAGE = 1_000
SWEEP_S = 60.0
MOST_OWN, MOST_OWN_CHARACTERS = 1_000, 1_000_000
"""Entries, and their characters, that a server knows without the database after it has stored them."""
_ADAPTABLE, _LEAST_ADAPTABLE = 10, 40.0
"""Entries that are looked at for one that differs in a number alone, and their least similarity."""
_NOT_STORED = re.compile("[\x00\ud800-\udfff]")


def checked(source: str, target: str, text: str, translation: str, *, has_marks: bool) -> NewEntry:
    """Return an entry in canonical form. `has_marks`: marks in the text are those of a document, and not its own characters.

    Raises `UnsupportedLanguage`, and `InvalidMemory` for a text that is not stored: empty, too long, with other marks than
    its translation, or with characters that a database does not store.
    """
    source, target = languages.normalise(source), languages.normalise(target)
    if source == target:
        raise InvalidMemory(f"source and target are the same language: {source}", param="target")
    text, translation = text.strip(), translation.strip()
    for value, name in ((text, "text"), (translation, "translation")):
        if not value:
            raise InvalidMemory(f"the {name} is empty", param=name)
        if len(value) > MAX_TEXT_CHARACTERS:
            raise InvalidMemory(f"the {name} has over {MAX_TEXT_CHARACTERS:,} characters", param=name)
        if _NOT_STORED.search(value):
            raise InvalidMemory(f"the {name} has a character that is not stored: NUL or half of a pair", param=name)
        if not has_marks and MARK_VARIANT.search(value):
            raise InvalidMemory(f"the {name} has characters that read like a mark: {value[:40]!r}", param=name)
    if not has_marks or "<" not in text + translation:
        return NewEntry(source, target, text, translation)
    found = marks.canonical(text)
    if found is None:
        raise InvalidMemory("the text's marks are not well nested, or there more than once", param="text")
    if wrong := marks.lost(text, translation):
        listed = ", ".join(map(str, wrong[:10]))
        raise InvalidMemory(
            f"the translation must have each mark of the text once: look at {listed}", param="translation"
        )
    new_numbers = {old: new for new, old in enumerate(found[1], 1)}
    own = [new_numbers.get(number, 0) for number in range(1, max(found[1], default=0) + 1)]
    return NewEntry(source, target, found[0], marks.renumber(translation, own))


@dataclass(frozen=True, slots=True)
class Imported:
    """What came of a file. `skipped`: its translations that are not stored, by reason (`language`, `codes`, `text`, ...)."""

    memory: StoredCollection
    added: int
    skipped: Mapping[str, int]


# ---- what a server knows of its entries


Known = dict[Pair, "array[int]"]
"""The beginnings of digests, sorted, by direction."""


@dataclass(slots=True)
class _Index:
    """What this process knows of the entries of one memory."""

    id: str
    wanted: int  # its version
    name: str | None = None  # once the versions have been read
    has_examples: bool = False  # for texts that are similar to its own
    is_shared: bool = False
    loaded: int = 0  # of the entries that are known
    stored_s: float = -math.inf  # when this server last stored an entry in it
    known: Known = field(default_factory=dict[Pair, "array[int]"])

    def insert(self, rows: Iterable[DigestRow]) -> None:
        """Add a few entries."""
        for source, target, digest in rows:
            known = self.known.setdefault((source, target), array("Q"))
            beginning = beginning_of(digest)
            if not _holds(known, beginning):
                insort(known, beginning)


def _known(rows: Iterable[DigestRow]) -> Known:
    """What is known of entries that come in the order of their digests."""
    known: Known = {}
    for source, target, digest in rows:
        known.setdefault((source, target), array("Q")).append(beginning_of(digest))
    return known


def _checked_entries(entries: Iterable[Mapping[str, str]], skipped: Counter[str]) -> Iterator[NewEntry]:
    """Those of a file's entries that are stored; the others are counted."""
    for entry in entries:
        try:
            yield checked(**entry, has_marks=True)
        except (InvalidMemory, UnsupportedLanguage):
            skipped["text"] += 1


def _storable(source: str, target: str, texts: Iterable[tuple[str, str]]) -> list[NewEntry]:
    """Entries of texts with marks and their translations; those that are not stored are left out."""
    entries = list[NewEntry]()
    for text, translation in texts:
        with suppress(InvalidMemory):
            entries.append(checked(source, target, text, translation, has_marks=True))
    return entries


def _batches(entries: Iterable[NewEntry]) -> Iterator[list[NewEntry]]:
    """Yield entries as many at a time as one transaction writes."""
    batch: list[NewEntry] = []
    characters = 0
    for entry in entries:
        batch.append(entry)
        characters += len(entry.text) + len(entry.translation)
        if len(batch) == ADD_BATCH or characters >= ADD_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _written(entries: Iterable[StoredEntry]) -> bytes:
    units = (
        tmx.TranslationUnit(one.source, one.target, one.text, one.translation, one.created_at, one.updated_at)
        for one in entries
    )
    return "".join(tmx.written(units)).encode()


def _holds(known: array[int], beginning: int) -> bool:
    place = bisect_left(known, beginning)
    return place < len(known) and known[place] == beginning


@dataclass(frozen=True, slots=True)
class ExampleRules:
    """Which entries are examples for texts that are similar to theirs, and how many, unless a call says otherwise.

    `least`: similarity, 0 to 100.
    `shared_edits`: what is edited on a server without keys, where everyone is one caller, is an example for all.
    """

    most: int
    least: float
    shared_edits: bool = False

    def has(self, account_id: str, memory: str) -> bool:
        """Whether a memory's entries are examples. Of suggestions, nobody has approved any."""
        is_for_all = memory == EDITS and account_id == SERVER
        return memory != SUGGESTIONS and (not is_for_all or self.shared_edits)


class Memories:
    """The memories of one server. `most`: of one owner. `workers` read the server's files, those of documents too.

    Only for one event loop.
    """

    def __init__(
        self,
        store: MemoryStore,
        workers: Workers,
        uploads: Uploads,
        most: MemoryLimits,
        examples: ExampleRules,
        similar: SimilarIndexes,
        refresh_s: float = 5.0,
    ) -> None:
        self.store = store
        self.similar = similar
        self.examples = examples
        self.uploads = uploads
        self.workers = workers
        self._most = most
        self._refresh_s = refresh_s
        self._of_account: dict[str, dict[str, _Index]] = {}
        self._shared: dict[str, _Index] = {}  # of those of the server
        self._loading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False
        # What this server has stored lately, with the time; the last is at the end.
        self._own: dict[tuple[str, EntryKey], tuple[float, StoredEntry]] = {}
        self._own_characters = 0

    async def open(self) -> None:
        """Read which accounts have memories, and go on doing so. Raises `StorageUnavailable`.

        What a server left that was killed is deleted.
        """
        await self._sweep()
        await self.refresh()
        self._task = asyncio.create_task(self._refresh_again())

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.similar.close()
        self.workers.close()

    async def _refresh_again(self) -> None:
        sweep_at_s = monotonic() + SWEEP_S
        while True:
            await asyncio.sleep(self._refresh_s)
            await self._tolerant(self.refresh())
            await self._tolerant(self.store.delete_rest())
            if monotonic() >= sweep_at_s:
                sweep_at_s = monotonic() + SWEEP_S
                await self._sweep()

    async def _sweep(self) -> None:
        with suppress(OSError):  # which is reported where a file arrives
            await asyncio.to_thread(self.uploads.sweep)

    async def _tolerant(self, work: Awaitable[None]) -> None:
        """Await work of which a failure costs no translation: the model translates what cannot be looked up."""
        try:
            await work
        except StorageUnavailable:
            if not self._is_failing:
                log.warning("the database fails: translation memories are used as far as they are known")
            self._is_failing = True
        else:
            self._is_failing = False

    async def refresh(self) -> None:
        """Read the versions of all memories."""
        found: dict[str, dict[str, _Index]] = {}
        async with self._loading:
            began_s = monotonic()
            for one in await self.store.versions():
                index = self._of_account.get(one.account_id, {}).get(one.id) or _Index(one.id, one.version)
                index.has_examples, index.wanted = self.examples.has(one.account_id, one.name), one.version
                index.name, index.is_shared = one.name, one.is_shared
                found.setdefault(one.account_id, {})[one.id] = index
            for account_id, indexes in self._of_account.items():
                for index in indexes.values():
                    if index.stored_s >= began_s:  # the memory may be newer than the versions that were read
                        found.setdefault(account_id, {}).setdefault(index.id, index)
            self._of_account = found
            self._shared = {id: index for id, index in found.get(SERVER, {}).items() if index.is_shared}
            self.similar.forget(found)

    async def _load(self, indexes: Sequence[_Index]) -> None:
        """Read the entries that are not known yet."""
        async with self._loading:
            for index in indexes:
                if index.loaded == index.wanted:
                    continue
                wanted = index.wanted
                rows = await self.store.digests(index.id, index.loaded)
                if len(rows) <= BATCH:
                    index.insert(rows)
                else:  # the database has them sorted
                    rows = await self.store.digests(index.id, 0) if index.known else rows
                    index.known = await asyncio.to_thread(_known, rows)
                    own = (entry for _, entry in self._own.values() if entry.memory_id == index.id)
                    index.insert((entry.source, entry.target, entry.digest) for entry in own)  # some stored meanwhile
                index.loaded = wanted

    async def id_of(self, account_id: str, reference: str) -> str:
        """Return the id of the memory that a call names, by its name the account's own before a shared one.

        The database is asked only for what the versions do not have: a call would wait for it, and for its thread. Raises
        `UnknownMemory`.
        """
        for seen in (self._of_account.get(account_id, {}), self._shared):
            for index in seen.values():
                if reference in (index.id, index.name):
                    return index.id
            if any(index.name is None for index in seen.values()):
                break  # it may be the one: a shared one of this name comes after it
        return await self.store.id_of(account_id, reference)

    async def of_call(self, request: TranslationRequest) -> CallMemory | None:
        """Return the memories that serve a call; None where none does, which costs no time."""
        seen = self._of_account.get(request.account.id, {})
        if self._shared:
            seen = seen | self._shared
        if not seen or request.options.memories == () or request.forced_output_tokens is not None:
            return None
        chosen = [*seen.values()]  # while entries are read, the account may get another memory
        if request.options.memories is not None:
            chosen = [seen[id] for id in request.options.memories if id in seen]
        began_s = monotonic()
        if any(index.loaded != index.wanted for index in chosen):
            await self._tolerant(self._load(chosen))
        indexes = [index for index in chosen if index.known]
        return CallMemory(self, indexes, request, began_s) if indexes else None

    # ---- what this server has stored itself

    def own(self, ids: Collection[str], digests: Collection[bytes], began_s: float) -> list[StoredEntry]:
        """Return the entries of these texts that this server has stored in the `auth.refresh_s` before a call began, the last
        first: what is known of them without the database."""
        since_s = began_s - self._refresh_s
        return [
            entry
            for stored_s, entry in reversed(self._own.values())
            if stored_s >= since_s and entry.digest in digests and entry.memory_id in ids
        ]

    def _note_own(self, account_id: str, memory_id: str, batch: Sequence[NewEntry]) -> None:
        """Know entries that were just stored. Those of a file are too many: they are read as those of other servers are."""
        characters = sum(len(entry.text) + len(entry.translation) for entry in batch)
        if len(batch) > min(BATCH, MOST_OWN) or characters > MOST_OWN_CHARACTERS:
            self._forget_own()  # of which some may be replaced
            return
        index = self._of_account.setdefault(account_id, {}).setdefault(memory_id, _Index(memory_id, 0))
        index.insert((entry.source, entry.target, entry.key[1]) for entry in batch)
        index.stored_s = stored_s = monotonic()
        now = utc_now()
        for new in batch:
            source, digest, target = key = new.key
            self._drop_own((memory_id, key))
            entry = StoredEntry(memory_id, source, target, digest, new.text, new.translation, now, now)
            self._own[memory_id, key] = stored_s, entry
            self._own_characters += len(new.text) + len(new.translation)
        while len(self._own) > MOST_OWN or self._own_characters > MOST_OWN_CHARACTERS:
            self._drop_own(next(iter(self._own)))

    def _drop_own(self, key: tuple[str, EntryKey]) -> None:
        if (dropped := self._own.pop(key, None)) is not None:
            self._own_characters -= len(dropped[1].text) + len(dropped[1].translation)

    def _forget_own(self) -> None:
        self._own.clear()
        self._own_characters = 0

    # ---- changes

    async def add(self, account_id: str, reference: str, entries: Iterable[NewEntry], *, create: bool = False) -> str:
        """Add entries, which replace those of the same text and direction, in several transactions where they are many.

        Returns the memory's id. Raises what `MemoryStore.add` raises; entries of the transactions before stay.
        """
        try:
            for batch in _batches(entries):
                reference = await self.store.add(account_id, reference, batch, self._most, create=create)
                self._note_own(account_id, reference, batch)
        finally:
            await self._tolerant(self.refresh())  # what is stored is known without it
        return reference

    async def add_texts(
        self,
        account_id: str,
        reference: str,
        source: str,
        target: str,
        texts: Iterable[tuple[str, str]],
        *,
        has_marks: bool = True,
        create: bool = False,
    ) -> str:
        """Add texts and their translations of one direction; return the memory's id. Raises what `checked` and `add` raise."""

        def check() -> list[NewEntry]:
            return [checked(source, target, text, translation, has_marks=has_marks) for text, translation in texts]

        return await self.add(account_id, reference, await asyncio.to_thread(check), create=create)

    async def remember(
        self, account_id: str, memory: str, source: str, target: str, texts: Sequence[tuple[str, str]]
    ) -> None:
        """Add texts with marks and a person's translations of them; what is not stored is left out.

        A failure is logged and costs the caller nothing: what the person did is stored elsewhere.
        """

        try:
            if entries := await asyncio.to_thread(_storable, source, target, texts):
                await self.add(account_id, memory, entries, create=True)
        except (BodyTooLarge, StorageUnavailable) as error:
            log.warning("an edited segment is not in the translation memory %s: %s", memory, error.message)

    async def forget(
        self, account_id: str, memory: str, source: str, target: str, texts: Sequence[tuple[str, str]]
    ) -> None:
        """Delete the entries of texts that still have these translations, as `remember` stores them. A failure is logged."""
        try:
            if entries := await asyncio.to_thread(_storable, source, target, texts):
                await self.changed(self.store.remove_equal(account_id, memory, entries))
        except UnknownMemory:
            pass  # nothing was stored, or it was deleted
        except StorageUnavailable as error:
            log.warning("what is no longer approved stays in the translation memory %s: %s", memory, error.message)

    async def import_tmx(self, account_id: str, reference: str, folder: Path) -> Imported:
        """Add the entries of the file `source` in a folder; where the account has no such memory, one of this name is made.

        The file is read in a process of its own. Raises `InvalidFile`, `InvalidMemory`, `BodyTooLarge`, `DiskFull`; entries
        that were added before stay.
        """
        task = WorkerTask("read", str(folder), ReadOptions(TMX, ""))
        with file_errors():
            report = await self.workers.run(task)
        if report["entries"] > self._most.entries:
            raise BodyTooLarge(
                f"the file has {report['entries']:,} translations; the memories of one owner have at most "
                f"{self._most.entries:,} entries",
                param="file",
            )
        skipped, added = Counter[str](report["skipped"]), 0
        with task.file("entries").open(encoding="utf-8") as lines:
            batches = _batches(_checked_entries(map(json.loads, lines), skipped))
            reference = await self.store.add(account_id, reference, (), self._most, create=True)
            audit("memory.import", reference)  # also of a part: what was added before an error stays
            try:
                while batch := await asyncio.to_thread(next, batches, None):
                    await self.store.add(account_id, reference, batch, self._most)
                    added += len(batch)
            finally:
                self._forget_own()
                await self.refresh()
        return Imported(await self.store.get(account_id, reference), added, skipped)

    async def export(self, account_id: str, reference: str) -> AsyncGenerator[bytes]:
        """Yield a memory as a TMX file. Raises `UnknownMemory` before the first part."""
        memory = await self.store.get(account_id, reference)
        sources = {pair.source for pair in memory.pairs}
        yield tmx.head(next(iter(sources)) if len(sources) == 1 else None, writer()).encode()
        cursor: str | None = ""
        while cursor is not None:
            page = await self.store.page(account_id, memory.id, EXPORT_PAGE, cursor)
            yield await asyncio.to_thread(_written, page.entries)
            cursor = page.cursor
        yield TMX_TAIL.encode()

    async def changed(self, change: Awaitable[T]) -> T:
        """Await a change of the store, and read the versions after it."""
        try:
            result = await change
        finally:
            self._forget_own()  # of which some may be deleted
        await self.refresh()
        return result


# ---- what a call needs of them


class CallMemory:
    """The memories that serve one call: what is found in the account's own is used before what is shared, whichever direction
    is nearer."""

    def __init__(
        self, memories: Memories, indexes: Sequence[_Index], request: TranslationRequest, began_s: float
    ) -> None:
        self._memories = memories
        self._began_s = began_s
        self._indexes = sorted(indexes, key=lambda one: one.is_shared)
        self._account_id = request.account.id
        self._shared = frozenset[str]() if self._account_id == SERVER else {one.id for one in indexes if one.is_shared}
        self._target = languages.normalise(request.target)  # as the caller named it
        wanted, rules = request.options, memories.examples
        self._most_examples = rules.most if wanted.memory_examples is None else wanted.memory_examples
        self._least = rules.least if wanted.memory_similarity is None else wanted.memory_similarity
        self._directions: dict[str, tuple[list[Pair], list[array[int]]]] = {}
        self._read: dict[tuple[str, bytes], str | None] = {}
        self._texts: list[list[Parts]] | None = (
            None  # of the memories that have examples, by owner; None: not asked for
        )

    def _direction(self, source: str) -> tuple[list[Pair], list[array[int]]]:
        """The stored directions that serve a source language, those with the call's own tags first; and what is known."""
        found = self._directions.get(source)
        if found is None:
            pairs = {pair for index in self._indexes for pair in index.known if _serves(pair, (source, self._target))}
            nearest = sorted(pairs, key=lambda pair: (pair[1] != self._target, pair[0] != source, pair))
            known = [index.known[pair] for index in self._indexes for pair in nearest if pair in index.known]
            found = self._directions[source] = nearest, known
        return found

    def has(self, source: str, text: str, own_marks: Sequence[Mark] | None = None) -> bool:
        """Whether there seems to be an entry of a text; an entry that was deleted may still seem to be there."""
        _, known = self._direction(source)
        if not known or len(text) > MAX_TEXT_CHARACTERS or any(mark.pieces for mark in own_marks or ()):
            return False
        form = marks.canonical(text, own_marks)
        if form is None:
            return False
        beginning = beginning_of(digest_of(form[0]))
        return any(_holds(one, beginning) for one in known)

    async def read(self, texts: Iterable[tuple[str, str]]) -> None:
        """Read the entries of texts, each with its source language, of which `has` is true."""
        wanted: dict[str, dict[bytes, None]] = {}
        for source, text in texts:
            if form := marks.canonical(text):
                wanted.setdefault(source, {})[digest_of(form[0])] = None
        for source, digests in wanted.items():
            remaining = iter(digests)
            while batch := list(islice(remaining, BATCH)):
                await self._find(source, batch)

    async def recall(self, source: str, text: str, own_marks: Sequence[Mark] | None = None) -> str | None:
        """Return the translation of a text, with its marks; None where there is none after all."""
        form = marks.canonical(text, own_marks)
        if form is None:
            return None
        digest = digest_of(form[0])
        if (source, digest) not in self._read:
            await self._find(source, [digest])
        translation = self._read.get((source, digest))
        if translation is None:
            return None
        translation = marks.renumber(translation, form[1])
        return marks.from_words(translation, own_marks) if own_marks else translation

    async def similar(self, source: str, text: str) -> tuple[Example, ...]:
        """Return the entries whose texts are most like a text without an entry, the most similar first.

        `text`: as a prompt shows it, with its marks, and with words to keep (placeholders, URLs) in their places. An example
        has the numbers of its marks if it has the same marks.
        """
        found = await self._similar(source, text, self._most_examples, self._least)
        return tuple(_example(text, *one) for one in found)

    async def adapted(self, source: str, text: str, own_marks: Sequence[Mark] | None = None) -> str | None:
        """Return the translation, with its marks, of an entry whose text differs in one number alone; None: there is none, or
        more than the number may differ (`dragoman.text.adapted`)."""
        if number_of(text) is None or any(mark.pieces for mark in own_marks or ()):
            return None
        form = marks.canonical(text, own_marks)
        if form is None:
            return None
        for one in await self._similar(source, form[0], _ADAPTABLE, _LEAST_ADAPTABLE):
            if translation := adapted(source, self._target, form[0], one.source, one.translation):
                translation = marks.renumber(translation, form[1])
                return marks.from_words(translation, own_marks) if own_marks else translation
        return None

    async def _similar(self, source: str, text: str, most: int, least: float) -> list[SimilarMatch]:
        pairs, _ = self._direction(source)
        if not self._most_examples or not pairs:
            return []
        if self._texts is None:
            wanted: dict[str, dict[str, int]] = {}
            for index in self._indexes:
                if index.has_examples:
                    owner = SERVER if index.id in self._shared else self._account_id
                    wanted.setdefault(owner, {})[index.id] = index.wanted
            parts_of = self._memories.similar.parts
            self._texts = await asyncio.gather(*(parts_of(owner, ids) for owner, ids in wanted.items()))
        parts = [part for of_owner in self._texts for pair in pairs for one in of_owner for part in one.get(pair, ())]
        return await most_similar(parts, text, most, least)

    async def _find(self, source: str, digests: Sequence[bytes]) -> None:
        """Read entries: of several of one text that of the account's own memories, then that in the call's own languages, then
        the last that was changed."""
        pairs, _ = self._direction(source)
        ids = [index.id for index in self._indexes]
        for digest in digests:
            self._read[source, digest] = None
        rank = {pair: place for place, pair in enumerate(pairs)}
        try:
            found = await self._memories.store.find(ids, pairs, digests)
        except StorageUnavailable:
            own = self._memories.own(ids, digests, self._began_s)
            found = [entry for entry in own if (entry.source, entry.target) in rank]
        for entry in sorted(found, key=lambda one: (one.memory_id in self._shared, rank[one.source, one.target])):
            if self._read[source, entry.digest] is None:
                self._read[source, entry.digest] = entry.translation


def _serves(stored: Pair, wanted: Pair) -> bool:
    """Whether entries of a direction are translations in another: of the same languages, in the same scripts."""
    return all(languages.match(a, (b,)) is not None for a, b in zip(wanted, stored, strict=True))


def _example(text: str, similarity: float, source: str, translation: str) -> Example:
    """An entry as an example for a text. Marks have the numbers of the text's if they are the same in the same order."""
    form = marks.canonical(text) if "<" in source else None
    if form is not None and MARK.findall(form[0]) == MARK.findall(source):
        source, translation = marks.renumber(source, form[1]), marks.renumber(translation, form[1])
    return Example(source, translation, similarity)
