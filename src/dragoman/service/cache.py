"""Cache of segments, and single-flight: equal sequences that are in flight share one generation.

For greedy decoding alone: a sampled output is not the next one's. The key is what changes the output: the prompt's token ids,
which hold languages, context, options, terms and the form of marks, and the sampling parameters. An output that ended by
itself is the same under any limit that it fits, so stored ones serve sequences of other limits too; outputs that did not end
by themselves are not stored.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Literal

from dragoman.types import Completion, Sampling, Sequence
from dragoman.wire import CacheStats

CacheHit = Literal["miss", "stored", "in_flight"]
ENTRY_BYTES = 420
"""Of memory that an entry takes besides its text: key, completion, and its place in the order of use."""

_KEY_BYTES = 16

Emit = Callable[[str], None]
"""Takes the next part of a text."""

Compute = Callable[[Emit], Awaitable[Completion]]
"""Generates a completion. It may emit the text as it comes; all of it then."""


class _Parts:
    """A text as it comes, for all that follow it."""

    def __init__(self) -> None:
        self._emitted: list[str] = []
        self._followers: list[Emit] = []

    def emit(self, text: str) -> None:
        self._emitted.append(text)
        for follower in self._followers:
            follower(text)

    def follow(self, follower: Emit) -> None:
        """From here on `follower` gets each part; immediately, what came before."""
        if self._emitted:
            follower("".join(self._emitted))
        self._followers.append(follower)

    def leave(self, follower: Emit) -> None:
        self._followers.remove(follower)


@dataclass(eq=False, slots=True)
class _Generation:
    """One generation that is in flight, and how many callers wait for it."""

    task: asyncio.Task[Completion]
    parts: _Parts
    callers: int = 0


class SegmentCache:
    """Completions by sequence, the least recently used dropped beyond `max_bytes`; 0: no cache and no single-flight.

    Only for one event loop.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._stored: OrderedDict[bytes, Completion] = OrderedDict()  # the least recently used first
        self._in_flight: dict[tuple[bytes, int], _Generation] = {}
        self._lookups: Counter[CacheHit] = Counter()
        self._sampling: dict[Sampling, bytes] = {}

    async def generate(
        self, sequence: Sequence, compute: Compute, follower: Emit | None = None
    ) -> tuple[Completion, CacheHit | None]:
        """The sequence's completion, and where it came from; None: caching does not apply, and `compute` was called.

        `follower` is called with the parts that `compute` emits, be it this caller's or that of an equal sequence in
        flight, whose earlier parts it is given first; never for a stored completion.

        `compute` runs in a task of its own, in the context of the first caller. It goes on while any caller waits for it;
        when the last one is cancelled it is cancelled too, and has ended when that caller ends. Raises what it raises, to
        all its callers.
        """
        if not self._applies_to(sequence):
            return await compute(follower or _ignore), None
        key = self._key(sequence)
        if (found := self._find(key, sequence.max_tokens)) is not None:
            self._lookups["stored"] += 1
            return found, "stored"
        flight = (key, sequence.max_tokens)
        generation = self._in_flight.get(flight)
        is_first = generation is None
        if generation is None:
            parts = _Parts()
            generation = _Generation(asyncio.create_task(self._generate(key, compute, parts.emit)), parts)
            self._in_flight[flight] = generation
            generation.task.add_done_callback(partial(self._ended, flight, generation))
        generation.callers += 1
        if follower is not None:
            generation.parts.follow(follower)
        try:
            completion = await asyncio.shield(generation.task)
        except asyncio.CancelledError:
            generation.callers -= 1
            if not generation.callers and not generation.task.done():
                self._leave(flight, generation)  # so that no new caller joins it
                generation.task.cancel()
                await asyncio.wait((generation.task,))
            raise
        finally:
            if follower is not None:
                generation.parts.leave(follower)
        if not is_first:
            completion = replace(completion, timings=None, cached=True)
        hit: CacheHit = "miss" if is_first else "in_flight"
        self._lookups[hit] += 1
        return completion, hit

    def clear(self) -> None:
        """Forget what is stored."""
        self._stored.clear()
        self.bytes = 0

    def stats(self) -> CacheStats:
        """Its size now, and how many lookups had which result."""
        return CacheStats(
            stored=self._lookups["stored"],
            in_flight=self._lookups["in_flight"],
            misses=self._lookups["miss"],
            entries=len(self._stored),
            bytes=self.bytes,
            max_bytes=self.max_bytes,
        )

    def _applies_to(self, sequence: Sequence) -> bool:
        return self.max_bytes > 0 and sequence.sampling.temperature == 0 and not sequence.forced

    def _key(self, sequence: Sequence) -> bytes:
        sampling = self._sampling.get(sequence.sampling)
        if sampling is None:
            sampling = self._sampling[sequence.sampling] = repr(sequence.sampling).encode()
        ids = array("I", sequence.prompt_token_ids).tobytes()
        return blake2b(ids + sampling, digest_size=_KEY_BYTES).digest()

    def _find(self, key: bytes, max_tokens: int) -> Completion | None:
        found = self._stored.get(key)
        if found is None or found.completion_tokens > max_tokens:
            return None
        self._stored.move_to_end(key)
        return found

    async def _generate(self, key: bytes, compute: Compute, emit: Emit) -> Completion:
        completion = await compute(emit)
        if completion.reason == "stop":
            self._store(key, replace(completion, timings=None, cached=True))
        return completion

    def _leave(self, flight: tuple[bytes, int], generation: _Generation) -> None:
        """No new caller joins it."""
        if self._in_flight.get(flight) is generation:
            del self._in_flight[flight]

    def _ended(self, flight: tuple[bytes, int], generation: _Generation, task: asyncio.Task[Completion]) -> None:
        self._leave(flight, generation)
        if not task.cancelled():
            task.exception()  # asyncio would log one that no caller was left to receive

    def _store(self, key: bytes, completion: Completion) -> None:
        before = self._stored.pop(key, None)
        if before is not None:
            self.bytes -= size_bytes(before)
        if size_bytes(completion) > self.max_bytes:
            return
        self._stored[key] = completion
        self.bytes += size_bytes(completion)
        while self.bytes > self.max_bytes:
            _, dropped = self._stored.popitem(last=False)
            self.bytes -= size_bytes(dropped)


def _ignore(_: str) -> None:
    """For callers that want the whole text only."""


def size_bytes(completion: Completion) -> int:
    """Of memory that a stored completion takes, its key included."""
    return sys.getsizeof(completion.text) + ENTRY_BYTES
