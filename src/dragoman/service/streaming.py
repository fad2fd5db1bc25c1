"""Streams: all pieces of all texts decode at once, and each text's deltas are said in order.

A delta cannot be taken back, so a streamed piece is not tried again: it gets twice the usual room from the start, and what
the checks find is told with the finished translation. The deltas of a text, joined, are its translation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TypeAlias

from dragoman.pipelines.base import Pipeline
from dragoman.service.outputs import Output, as_it_was, assemble
from dragoman.service.planner import Job, Planner
from dragoman.service.together import gather_all
from dragoman.text.segments import Joiner
from dragoman.types import Completion, TextDelta, TextDone

Event: TypeAlias = TextDelta | TextDone


class DeltaSequencer:
    """One text's deltas: pieces take turns, what is not translated is said between them."""

    def __init__(self, job: Job, events: asyncio.Queue[Event]) -> None:
        self._job = job
        self._events = events
        self._joiner = Joiner(job.source, job.request.target)
        self._held: list[list[str]] = [[] for _ in job.wanted]
        self._ended = [False] * len(job.wanted)
        self._places = [place for place, piece in enumerate(job.pieces) if piece.translatable]
        self._turn = 0
        self._say_literals(0)

    def add(self, number: int, text: str) -> None:
        """Piece `number` said `text`: now if it is its turn, else when it is."""
        if number == self._turn:
            self._say(text)
        else:
            self._held[number].append(text)

    def end(self, number: int) -> None:
        """Piece `number` is whole; those that waited for it speak."""
        self._ended[number] = True
        while self._turn < len(self._places) and self._ended[self._turn]:
            self._say_literals(self._places[self._turn] + 1)
            self._turn += 1
            if self._turn < len(self._places):
                self._say("".join(self._held[self._turn]))

    def _say_literals(self, place: int) -> None:
        self._joiner.next_segment()
        for piece in self._job.pieces[place:]:
            if piece.translatable:
                return
            self._say(piece.text)
            self._joiner.next_segment()

    def _say(self, text: str) -> None:
        if text:
            self._events.put_nowait(TextDelta(self._job.index, self._joiner.add(text)))


async def stream(pipeline: Pipeline, planner: Planner, jobs: list[Job]) -> AsyncGenerator[Event]:
    """Events of all jobs. Closing the iterator ends their sequences; an engine's error ends the stream with it."""
    events: asyncio.Queue[Event] = asyncio.Queue()
    work = asyncio.create_task(gather_all([_text(pipeline, planner, job, events) for job in jobs]))
    try:
        left = len(jobs)
        while left:
            event = await _next_event(events, work)
            left -= isinstance(event, TextDone)
            yield event
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _next_event(events: asyncio.Queue[Event], work: asyncio.Task[list[None]]) -> Event:
    if not events.empty():
        return events.get_nowait()
    getter = asyncio.create_task(events.get())
    try:
        await asyncio.wait({getter, work}, return_when=asyncio.FIRST_COMPLETED)
        if not getter.done() and events.empty():
            work.result()  # raises what went wrong
        return await getter
    finally:
        getter.cancel()


async def _text(pipeline: Pipeline, planner: Planner, job: Job, events: asyncio.Queue[Event]) -> None:
    if not job.wanted:
        translation = as_it_was(job)
        events.put_nowait(TextDelta(job.index, translation.text))
        events.put_nowait(TextDone(job.index, translation))
        return
    deltas = DeltaSequencer(job, events)
    outputs = await gather_all([_piece(pipeline, planner, job, n, text, deltas) for n, text in enumerate(job.wanted)])
    events.put_nowait(TextDone(job.index, assemble(job, outputs, check=not planner.forced_lengths)))


async def _piece(
    pipeline: Pipeline, planner: Planner, job: Job, number: int, text: str, deltas: DeltaSequencer
) -> Output:
    sequence = planner.sequence(job, str(number), text, room_factor=2)
    said = ""  # so far
    trailing = ""  # white space that is the piece's only if something follows
    async for item in pipeline.stream(sequence):
        if isinstance(item, Completion):
            deltas.end(number)
            return Output.of(sequence, item)
        delta = trailing + item.text if said else item.text.lstrip()
        kept = delta.rstrip()
        trailing = delta[len(kept) :]
        said += kept
        deltas.add(number, kept)
    raise AssertionError("a stream ended without a completion")
