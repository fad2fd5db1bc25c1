"""Keeps indexes of the similar texts of translation memories, of the accounts that call and of those that the server shares.

An index is built from the database when a call first asks for it, and brought up to date when one asks after the memory's
version has changed: in a thread, while the call waits a little and then goes on with what there is. Deletions are found by
counting: where the database has another number of entries, those that it has are read. All indexes together have a bound in
bytes; beyond it those of the account that has not asked for the longest time are dropped. Those of the server are for all, and
are dropped for no account.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import StorageUnavailable
from dragoman.storage.collections import SERVER, Pair
from dragoman.storage.folding import folded
from dragoman.storage.memories import DigestRow, MemoryStore, TextRow
from dragoman.storage.threads import caller
from dragoman.text.similar import MOST_CHARACTERS, Builder, Query, SimilarMatch, SimilarTexts, TextEntry

log = logging.getLogger("dragoman.memories")

PATIENCE_S = 0.25
"""So long a call waits for its memories to be read, where they have changed: some thousand entries."""
AT_ONCE = 2
"""Builds that read more than a page of entries."""
GROWTH = 4
"""An index is built again together with new texts unless it has more than so many times as many."""
INLINE_CHARACTERS, INLINE_TEXTS, INLINE_PARTS = 200, 400_000, 12
"""What is looked up on the event loop, in up to 3 milliseconds: texts up to this length, in so many texts and indexes."""


@dataclass(frozen=True, slots=True)
class IndexPart:
    """An index, and which of its texts are replaced or deleted."""

    texts: SimilarTexts
    left_out: NDArray[np.bool_]

    @property
    def count(self) -> int:
        return len(self.texts) - int(self.left_out.sum())

    def without(self, is_left_out: NDArray[np.bool_]) -> IndexPart:
        return IndexPart(self.texts, self.left_out | is_left_out) if is_left_out.any() else self


Parts = Mapping[Pair, Sequence[IndexPart]]
"""By direction; the last one has the newest texts."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a memory's texts, as of a version."""

    version: int = 0
    parts: Parts = field(default_factory=dict[Pair, Sequence[IndexPart]])
    is_whole: bool = True  # False: not all entries had room

    @property
    def nbytes(self) -> int:
        return sum(part.texts.nbytes + part.left_out.nbytes for parts in self.parts.values() for part in parts)

    @property
    def count(self) -> int:
        return sum(part.count for parts in self.parts.values() for part in parts)


class SimilarIndexes:
    """The indexes of all accounts, of up to `most_bytes` together. Only for one event loop."""

    def __init__(self, store: MemoryStore, most_bytes: int) -> None:
        self._store = store
        self._most_bytes = most_bytes
        self._of_account: dict[str, dict[str, _Known]] = {}  # by owner; the account that asked last is the last one
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        """Stop what is being built."""
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts that have indexes; the one that asked last is the last one."""
        return tuple(self._of_account)

    @property
    def nbytes(self) -> int:
        """Of all indexes."""
        return sum(map(self._nbytes_of, self._of_account))

    def _nbytes_of(self, account_id: str) -> int:
        return sum(one.nbytes for one in self._of_account.get(account_id, {}).values())

    async def parts(self, account_id: str, wanted: Mapping[str, int]) -> list[Parts]:
        """Return the indexes of an owner's memories, given with their versions: of earlier versions, or none, where reading
        the entries takes longer than `PATIENCE_S`."""
        known = self._of_account.get(account_id, {})
        if any(id not in known or known[id].version != version for id, version in wanted.items()):
            if account_id not in self._tasks:
                context = Context()  # not the call's: others wait for this too
                context.run(caller.set, account_id)
                work = self._refresh(account_id, wanted)
                self._tasks[account_id] = asyncio.create_task(work, context=context)
            await asyncio.wait({self._tasks[account_id]}, timeout=PATIENCE_S)
        known = self._of_account.pop(account_id, {})
        if known:
            self._of_account[account_id] = known
        return [known[id].parts for id in wanted if id in known]

    def forget(self, memory_ids: Mapping[str, Iterable[str]]) -> None:
        """Drop the indexes of memories that are not there any more. `memory_ids`: those of each account that are."""
        for account_id in [*self._of_account]:
            there = set(memory_ids.get(account_id, ()))
            known = {id: one for id, one in self._of_account[account_id].items() if id in there}
            self._of_account[account_id] = known
            if not known:
                del self._of_account[account_id]

    async def _refresh(self, account_id: str, wanted: Mapping[str, int]) -> None:
        try:
            if account_id != SERVER and SERVER in self._tasks:  # an account has the room that what is shared leaves
                await asyncio.wait({self._tasks[SERVER]})
            for id, version in wanted.items():
                known = self._of_account.get(account_id, {})
                old = known.get(id, _Known())
                if old.version != version:
                    others = sum(one.nbytes for other, one in known.items() if other != id)
                    shared = 0 if account_id == SERVER else self._nbytes_of(SERVER)
                    new = await self._read(id, version, old, self._most_bytes - others - shared)
                    self._of_account.setdefault(account_id, {})[id] = new
                    self._make_room(account_id)
        except StorageUnavailable:
            log.warning("the database fails: similar entries of translation memories are used as far as they are known")
        finally:
            del self._tasks[account_id]

    def _make_room(self, account_id: str) -> None:
        """Drop indexes of other accounts while all have too many bytes."""
        over = self.nbytes - self._most_bytes
        for other in [*self._of_account]:
            if over > 0 and other not in (account_id, SERVER):
                over -= self._nbytes_of(other)
                del self._of_account[other]

    async def _read(self, id: str, version: int, old: _Known, most_bytes: int) -> _Known:
        """Read what was written after `old`, and drop what was deleted."""
        rows, position = await self._store.texts(id, old.version, MOST_CHARACTERS)
        builders: dict[Pair, Builder] = {}
        is_whole = old.is_whole
        if position is None:
            parts = await asyncio.to_thread(_merged, old.parts, builders, rows)
        else:
            async with self._turns:
                while position is not None and is_whole:
                    await asyncio.to_thread(_add, builders, rows)
                    rows, position = await self._store.texts(id, position, MOST_CHARACTERS)
                    is_whole = old.nbytes + sum(one.nbytes for one in builders.values()) < most_bytes
                parts = await asyncio.to_thread(_merged, old.parts, builders, rows if is_whole else ())
            if not is_whole:
                log.warning("not all entries of the translation memory %s have room in the index of similar ones", id)
        new = _Known(version, parts, is_whole)
        if new.count == await self._store.entry_count(id):
            return new
        left = await self._store.digests(id, 0)
        return _Known(version, await asyncio.to_thread(_only, parts, left), is_whole)


def _entry(row: TextRow) -> TextEntry:
    return TextEntry(beginning_of(row.digest), row.folded, row.text, row.translation)


def beginning_of(digest: bytes) -> int:
    """What stands for a digest in this process: its first 8 bytes."""
    return int.from_bytes(digest[:8])


def _add(builders: dict[Pair, Builder], rows: Iterable[TextRow]) -> None:
    by_pair: dict[Pair, list[TextEntry]] = defaultdict(list)
    for row in rows:
        by_pair[row.source, row.target].append(_entry(row))
    for pair, entries in by_pair.items():
        builders.setdefault(pair, Builder()).add(entries)


def _merged(old: Parts, builders: dict[Pair, Builder], rows: Iterable[TextRow]) -> Parts:
    """The old indexes, without what is replaced, and the new texts: with the old ones in one index where that is small."""
    _add(builders, rows)
    merged = dict(old)
    for pair, builder in builders.items():
        digests = builder.digests
        parts = [part.without(np.isin(part.texts.digests, digests)) for part in merged.get(pair, ())]
        count = len(digests)
        while parts and parts[-1].count <= GROWTH * count:
            small = parts.pop()
            count += small.count
            places = np.flatnonzero(~small.left_out).astype(np.uint32)
            builder.add(TextEntry(digest, folded(text), text, tr) for digest, text, tr in small.texts.entries(places))
        new = builder.done()
        merged[pair] = [*parts, IndexPart(new, _replaced(new.digests))]
    return merged


def _replaced(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether a later text has the same digest: an entry that was changed while its memory was read."""
    _, last = np.unique(digests[::-1], return_index=True)
    is_replaced = np.ones(len(digests), np.bool_)
    is_replaced[len(digests) - 1 - last] = False
    return is_replaced


def _only(parts: Parts, rows: Iterable[DigestRow]) -> Parts:
    """The indexes without texts that are not among these entries."""
    left: dict[Pair, list[int]] = defaultdict(list)
    for source, target, digest in rows:
        left[source, target].append(beginning_of(digest))
    found: dict[Pair, Sequence[IndexPart]] = {}
    for pair, of_pair in parts.items():
        there = np.array(left.get(pair, ()), np.uint64)
        found[pair] = [part.without(~np.isin(part.texts.digests, there)) for part in of_pair]
    return found


# ---- what is looked up


async def most_similar(parts: Sequence[IndexPart], text: str, most: int, least: float) -> list[SimilarMatch]:
    """Return the texts of several indexes that are most like a text, the most similar first; of equal texts the first one."""
    if len(text) > MOST_CHARACTERS or not parts:
        return []
    is_small = len(text) <= INLINE_CHARACTERS and len(parts) <= INLINE_PARTS
    if is_small and sum(len(part.texts) for part in parts) <= INLINE_TEXTS:
        return _most_similar(parts, text, most, least)
    return await asyncio.to_thread(_most_similar, parts, text, most, least)


def _most_similar(parts: Sequence[IndexPart], text: str, most: int, least: float) -> list[SimilarMatch]:
    query = Query(text, folded(text))
    found: dict[str, SimilarMatch] = {}
    for part in parts:
        for match in part.texts.find(query, most, least, part.left_out):
            found.setdefault(match.source, match)
    return sorted(found.values(), key=lambda match: -match.similarity)[:most]
