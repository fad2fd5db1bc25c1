"""Cache of segments, and single-flight: equal sequences that are in flight share one generation.

For greedy decoding alone: a sampled output is not the next one's. The key is what changes the output: the prompt's token ids,
which hold languages, context, options, terms and the form of marks, and the sampling parameters. An output that ended by
itself is the same under any limit that it fits, so stored ones serve sequences of other limits too; outputs that did not end
by themselves are not stored. What is the same for all sequences of a server (model, dtype, quantisation) is a part of the key
in the file alone, which may outlive the server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import sys
from array import array
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Literal

from dragoman.errors import ConfigError
from dragoman.pipelines.base import Engine
from dragoman.types import Completion, Delta, EngineSequence, Sampling, TokenLogprobs
from dragoman.wire import CacheStats

log = logging.getLogger("dragoman.cache")

CacheHit = Literal["miss", "stored", "in_flight"]
ENTRY_BYTES = 420
"""Memory of an entry besides its text: key, completion, and its place in the order of use."""

_STR_BYTES = sys.getsizeof("駅") + 4
"""Of a text that is not ASCII, besides its characters, at most."""
_KEY_BYTES = 16
_FORMAT = 2  # of the file's entries: others are not read
_FLUSH_EVERY_S = 0.5
_MAX_BATCH = 500  # entries of one transaction
_MAX_QUEUED = 20_000  # entries that wait to be written; more are not
_BUSY_TIMEOUT_S = 5.0  # while another server writes into the same file
_PRIVATE = 0o600


@dataclass(eq=False, slots=True)
class _Generation:
    """A generation in flight that callers share. A completion that was read from the file is `cached`."""

    flight: tuple[bytes | None, int]  # key and limit of its sequence
    parts: list[str] = field(default_factory=list[str])  # of the text, as they come; none where no stream generates it
    callers: int = 1  # that wait for it
    task: asyncio.Task[Completion] = field(init=False)
    waiters: list[asyncio.Future[None]] = field(
        default_factory=list[asyncio.Future[None]]
    )  # streams, for the next part

    def wake(self, _: object = None) -> None:
        """Wake the streams that wait: another part has come, or the generation has ended."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()


class SegmentCache:
    """Stores completions by sequence, and drops the least recently used beyond `max_bytes`; 0: no cache and no single-flight.

    Only for one event loop.
    """

    def __init__(self, max_bytes: int, file: CacheFile | None = None, *, is_of_key: bool = False) -> None:
        """`is_of_key`: nothing is shared between the accounts that sequences are of."""
        self.max_bytes = max_bytes
        self._is_of_key = is_of_key
        self.bytes = 0
        self._file = file if max_bytes else None
        self._stored: OrderedDict[bytes, Completion] = OrderedDict()  # the least recently used first
        self._in_flight: dict[tuple[bytes | None, int], _Generation] = {}
        self._lookups: Counter[CacheHit] = Counter()
        self._sampling: dict[Sampling, bytes] = {}

    def key(self, sequence: EngineSequence) -> bytes | None:
        """Return a digest of what determines the output; None if the sequence is not cached.

        That is where the cache has no memory, and where sampling or forced lengths make the output different each time.
        """
        if not self.max_bytes or sequence.sampling.temperature > 0 or sequence.forced:
            return None
        sampling = self._sampling.get(sequence.sampling)
        if sampling is None:
            sampling = self._sampling[sequence.sampling] = repr(sequence.sampling).encode()
        ids = array("I", sequence.prompt_token_ids).tobytes()
        owner = b"\0" + sequence.owner.encode() if self._is_of_key else b""
        return blake2b(ids + sampling + owner, digest_size=_KEY_BYTES).digest()

    async def generate(self, key: bytes, sequence: EngineSequence, engine: Engine) -> Completion:
        """Return the sequence's completion, which `engine` generates unless it is stored or an equal one is in flight.

        The engine's work runs in a task of its own, in the context of the first caller. It goes on while any caller waits
        for it; when the last one is cancelled it is cancelled too, and has ended when that caller ends. Raises what it
        raises, to all its callers.
        """
        if (stored := self._find(key, sequence.max_tokens)) is not None:
            return stored
        generation, is_first = self._join(key, sequence, engine)
        try:
            completion = await asyncio.shield(generation.task)
        finally:
            await self._leave(generation)
        return completion if is_first else replace(completion, timings=None, cached=True)

    async def stream(
        self, key: bytes | None, sequence: EngineSequence, engine: Engine, release: Callable[[], None]
    ) -> AsyncGenerator[Delta | Completion]:
        """Like `generate`, but yield the text as it comes; parts that have come before the caller asks for the next are joined.

        A caller that joins an equal sequence in flight first gets what came before. A stored completion has no deltas.
        Without a key nothing is stored or shared. `release` frees what the engine's work holds: it is called once, when that
        has ended, or was not needed, however slowly the caller reads.
        """
        if key is not None and (stored := self._find(key, sequence.max_tokens)) is not None:
            release()
            yield stored
            return
        generation, is_first = self._join(key, sequence, engine, release)
        task = generation.task
        if not is_first:  # the sequence may go on for this caller alone
            task.add_done_callback(lambda _: release())
        task.add_done_callback(generation.wake)
        number = 0  # parts that were given
        try:
            while number < len(generation.parts) or not task.done():
                if number < len(generation.parts):
                    text = "".join(generation.parts[number:])
                    number = len(generation.parts)
                    yield Delta(text)
                else:
                    waiter = asyncio.get_running_loop().create_future()
                    generation.waiters.append(waiter)
                    await waiter
            completion = task.result()
        finally:
            await self._leave(generation)
        yield completion if is_first else replace(completion, timings=None, cached=True)

    async def needs_no_engine(self, key: bytes | None, sequence: EngineSequence) -> bool:
        """Return whether the sequence's completion is stored, or being generated for others."""
        if key is None:
            return False
        stored = self._stored.get(key)
        if stored is None and self._file is not None and (stored := await self._file.read(key)) is not None:
            self._store(key, stored)
        is_stored = stored is not None and stored.completion_tokens <= sequence.max_tokens
        return is_stored or (key, sequence.max_tokens) in self._in_flight

    def clear(self) -> None:
        """Forget what is stored in memory."""
        self._stored.clear()
        self.bytes = 0

    def stats(self) -> CacheStats:
        """Return its size, and the number of lookups by result."""
        return CacheStats(
            stored=self._lookups["stored"],
            in_flight=self._lookups["in_flight"],
            misses=self._lookups["miss"],
            entries=len(self._stored),
            bytes=self.bytes,
            max_bytes=self.max_bytes,
        )

    def start(self) -> None:
        """Start the thread that reads and writes the file, if there is one."""
        if self._file is not None:
            self._file.start()

    async def close(self) -> None:
        """Write what is left to the file, and stop its thread."""
        if self._file is not None:
            await self._file.close()

    def _find(self, key: bytes, max_tokens: int) -> Completion | None:
        """Return the stored completion, if it fits the limit."""
        stored = self._stored.get(key)
        if stored is None or stored.completion_tokens > max_tokens:
            return None
        self._stored.move_to_end(key)
        self._lookups["stored"] += 1
        return stored

    def _join(
        self, key: bytes | None, sequence: EngineSequence, engine: Engine, release: Callable[[], None] | None = None
    ) -> tuple[_Generation, bool]:
        """Join the generation of an equal sequence in flight, or begin one; the last value says whether it was begun."""
        flight = key, sequence.max_tokens
        generation = None if key is None else self._in_flight.get(flight)
        if generation is not None:
            self._lookups["in_flight"] += 1
            generation.callers += 1
            return generation, False
        generation = _Generation(flight)
        if key is not None:
            self._in_flight[flight] = generation
        generation.task = asyncio.create_task(self._generate(key, sequence, engine, generation, release))
        return generation, True

    async def _leave(self, generation: _Generation) -> None:
        """Count a caller out that has its completion or was cancelled. If it was the last, the generation is cancelled."""
        task = generation.task
        generation.callers -= 1
        if not generation.callers and not task.done():
            if self._in_flight.get(generation.flight) is generation:
                del self._in_flight[generation.flight]  # so that no new caller joins it
            task.cancel()
            await asyncio.wait((task,))
        if task.done() and not task.cancelled():
            task.exception()  # asyncio would log one that no caller was left to receive

    async def _generate(
        self,
        key: bytes | None,
        sequence: EngineSequence,
        engine: Engine,
        generation: _Generation,
        release: Callable[[], None] | None,
    ) -> Completion:
        """Read the completion from the file or generate it, as a stream if it is to be released: the body of a task."""
        try:
            if key is not None and self._file is not None and (stored := await self._file.read(key)) is not None:
                self._store(key, stored)
                if stored.completion_tokens <= sequence.max_tokens:
                    self._lookups["stored"] += 1
                    return stored
            completion = await (engine.generate(sequence) if release is None else _follow(engine, sequence, generation))
            if key is not None:
                self._lookups["miss"] += 1
                if completion.reason == "stop":
                    kept = replace(completion, timings=None, cached=True)
                    self._store(key, kept)
                    if self._file is not None:
                        self._file.write(key, kept)
            return completion
        finally:
            if release is not None:
                release()
            if self._in_flight.get(generation.flight) is generation:
                del self._in_flight[generation.flight]

    def _store(self, key: bytes, completion: Completion) -> None:
        before = self._stored.pop(key, None)
        if before is not None:
            self.bytes -= size_bytes(before)
        size = size_bytes(completion)
        if size > self.max_bytes:
            return
        self._stored[key] = completion
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, dropped = self._stored.popitem(last=False)
            self.bytes -= size_bytes(dropped)


async def _follow(engine: Engine, sequence: EngineSequence, generation: _Generation) -> Completion:
    """Collect the parts of a stream of the engine; return its completion."""
    completion: Completion | None = None
    async with aclosing(engine.stream(sequence)) as items:
        async for item in items:
            if isinstance(item, Completion):
                completion = item
            else:
                generation.parts.append(item.text)
                generation.wake()
    if completion is None:
        raise AssertionError("a stream ended without a completion")
    return completion


def size_bytes(completion: Completion) -> int:
    """Return the memory that a stored completion takes, with its key: the same before and after its text is serialised.

    Of a text that is not ASCII, Python keeps the UTF-8 with it once something has asked for it, which `sys.getsizeof` counts.
    """
    text = completion.text
    if text.isascii():
        return sys.getsizeof(text) + ENTRY_BYTES
    width = 1 if (largest := ord(max(text))) < 256 else 2 if largest < 65536 else 4
    return _STR_BYTES + len(text) * width + len(text.encode("utf-8", "surrogatepass")) + ENTRY_BYTES


# ---- the file

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, text TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, mean_logprob REAL, least_logprob REAL
)
"""


@dataclass(frozen=True, slots=True)
class _Read:
    key: bytes
    found: asyncio.Future[Completion | None]


@dataclass(frozen=True, slots=True)
class _Write:
    key: bytes
    completion: Completion


@dataclass(frozen=True, slots=True)
class _Stop:
    pass


class CacheFile:
    """Stores completions in a SQLite file, which its own thread reads and writes; the oldest are deleted beyond `max_bytes`.

    It holds texts: it is readable by this user alone. Writes come up to `_FLUSH_EVERY_S` late, and a server that is killed
    loses those. A file that fails while serving costs one warning and its entries, never a translation.
    """

    def __init__(self, path: Path, max_bytes: int, fingerprint: str) -> None:
        """Create or open the file. `fingerprint`: what changes completions besides the sequence, such as model and dtype.

        Raises `ConfigError`.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._fingerprint = f"{_FORMAT} {fingerprint}".encode()
        self._jobs: queue.SimpleQueue[_Read | _Write | _Stop] = queue.SimpleQueue()
        self._thread: Thread | None = None
        self._has_failed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE))
            with closing(self._connect()) as database:
                if database.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
                    database.execute("DROP TABLE IF EXISTS entries")
                    database.execute(f"PRAGMA user_version = {_FORMAT}")
                database.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"cache.file = {str(path)!r} cannot be opened: {error}; name another file, or delete this one",
                param="cache.file",
            ) from None

    def start(self) -> None:
        """Start the thread. Before that, reads find nothing."""
        self._thread = Thread(target=self._run, name="dragoman-cache", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Write what is left."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(_Stop())
            await asyncio.to_thread(thread.join)

    async def read(self, key: bytes) -> Completion | None:
        """Return the stored completion, marked `cached`; None if there is none, or the file has failed."""
        if self._thread is None or self._has_failed:
            return None
        found: asyncio.Future[Completion | None] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Read(self._file_key(key), found))
        return await found

    def write(self, key: bytes, completion: Completion) -> None:
        """Queue a completion for the thread to write."""
        if self._thread is not None and not self._has_failed and self._jobs.qsize() < _MAX_QUEUED:
            self._jobs.put(_Write(self._file_key(key), completion))

    def _file_key(self, key: bytes) -> bytes:
        return blake2b(key + self._fingerprint, digest_size=_KEY_BYTES).digest()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        return database

    def _run(self) -> None:
        """Serve reads and writes until `close`: the body of the thread."""
        try:
            with closing(self._connect()) as database:
                self._serve(database)
        except Exception as error:  # of whatever kind: reads that come later must not wait for ever
            known = isinstance(error, sqlite3.Error | ValueError)  # ValueError: a text that is not Unicode
            log.warning(
                "the cache's file %s failed, and is not used any more: %s",
                self._path,
                error,
                exc_info=None if known else error,
            )
            self._has_failed = True
            while not isinstance(job := self._jobs.get(), _Stop):
                if isinstance(job, _Read):
                    _answer(job, None)

    def _serve(self, database: sqlite3.Connection) -> None:
        """Answer reads as they come, and collect writes into transactions."""
        batch: list[_Write] = []
        flush_at_s = 0.0
        job: _Read | _Write | _Stop | None = None
        while not isinstance(job, _Stop):
            try:
                job = self._jobs.get(timeout=max(flush_at_s - monotonic(), 0) if batch else None)
            except queue.Empty:
                job = None
            if isinstance(job, _Read):
                found = None
                try:
                    found = _select(database, job.key)
                finally:
                    _answer(job, found)
            elif isinstance(job, _Write):
                flush_at_s = flush_at_s if batch else monotonic() + _FLUSH_EVERY_S
                batch.append(job)
            if batch and (isinstance(job, _Stop) or len(batch) >= _MAX_BATCH or monotonic() >= flush_at_s):
                _insert(database, batch, self._max_bytes)
                batch.clear()


def _select(database: sqlite3.Connection, key: bytes) -> Completion | None:
    row = database.execute(
        "SELECT text, prompt_tokens, completion_tokens, mean_logprob, least_logprob FROM entries WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        return None
    logprobs = None if row[3] is None else TokenLogprobs(row[3], row[4])
    return Completion(row[0], "stop", row[1], row[2], cached=True, logprobs=logprobs)


def _insert(database: sqlite3.Connection, batch: list[_Write], max_bytes: int) -> None:
    """Insert entries in one transaction; delete the oldest tenth as often as the file is too large."""
    rows = [_row(write.key, write.completion) for write in batch]
    database.execute("BEGIN IMMEDIATE")
    database.executemany(
        "INSERT OR REPLACE INTO entries (key, text, prompt_tokens, completion_tokens, mean_logprob, least_logprob) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        rows,
    )
    deleted = 1
    while deleted and _used_bytes(database) > max_bytes:
        deleted = database.execute(
            "DELETE FROM entries WHERE number IN "
            "(SELECT number FROM entries ORDER BY number LIMIT (SELECT 1 + COUNT(*) / 10 FROM entries))"
        ).rowcount
    database.execute("COMMIT")


def _row(key: bytes, completion: Completion) -> tuple[bytes, str, int, int, float | None, float | None]:
    logprobs = completion.logprobs
    mean, least = (logprobs.mean, logprobs.least) if logprobs else (None, None)
    return key, completion.text, completion.prompt_tokens, completion.completion_tokens, mean, least


def _used_bytes(database: sqlite3.Connection) -> int:
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _answer(read: _Read, found: Completion | None) -> None:
    def answer() -> None:
        if not read.found.done():  # else its caller was cancelled
            read.found.set_result(found)

    with suppress(RuntimeError):  # the event loop is closed: no caller waits
        read.found.get_loop().call_soon_threadsafe(answer)
