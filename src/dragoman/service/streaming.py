"""Streams: the segments of all texts decode at the same time, and each text's deltas are emitted in the text's order.

A delta cannot be taken back, so a streamed segment is not retried: its output has twice the usual limit from the start, and
what the checks find is in the warnings of the finished translation. A segment with tags is emitted when it is complete, so
that its structure is whole; one with placeholders alone is streamed, and a lost one is a warning. The deltas of a text,
joined, are its translation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from dragoman.service.planner import FIRST
from dragoman.service.segment import CallContext, Output, costs
from dragoman.service.translator import SegmentTask, Translator
from dragoman.telemetry import tracing
from dragoman.types import Completion, TextDelta, TextDone, Translation, TranslationRequest

Event: TypeAlias = TextDelta | TextDone


async def stream(translator: Translator, request: TranslationRequest) -> AsyncGenerator[Event]:
    """Events of all texts. Closing the iterator ends their sequences; an engine's error ends the stream with it."""
    events: asyncio.Queue[Event] = asyncio.Queue()

    def done(index: int, translation: Translation) -> None:
        events.put_nowait(TextDone(index, translation))

    def delta(index: int, text: str) -> None:
        events.put_nowait(TextDelta(index, text))

    async def segment(call: CallContext, task: SegmentTask) -> None:
        if request.format != "text" and (task.segment.writer or task.segment.marks):
            output = await translator.segments.translate(call, task.text.job, task.part, task.segment)
            await task.text.finish(task.number, output)
        else:
            await task.text.finish(task.number, await _stream_segment(translator, call, task), streamed=True)

    work = asyncio.create_task(translator.run(request, segment, done, delta))
    try:
        remaining = len(request.texts)
        while remaining:
            event = await _next_event(events, work)
            remaining -= isinstance(event, TextDone)
            yield event
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _next_event(events: asyncio.Queue[Event], work: asyncio.Task[None]) -> Event:
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


async def _stream_segment(translator: Translator, call: CallContext, task: SegmentTask) -> Output:
    """One segment, in a slot that it has already. White space at its end is emitted only if something follows."""
    job = task.text.job
    # Of plain text all that is to be kept can be shown to the model as it is, and needs no replacing in the deltas.
    segment = replace(task.segment, marks=tuple(replace(mark, word=True) for mark in task.segment.marks))
    written = segment.writer or str
    emitted, trailing = "", ""
    try:
        await call.pace.pause()
        with tracing.sequence_span() as span:
            sequence = translator.planner.sequence(job, task.part, segment, limit_factor=2)
            span.submit(sequence)
            if (stored := await translator.segments.cache.find(sequence)) is not None:
                output = translator.segments.finished(job, segment, stored, FIRST)
                task.text.delta(task.number, output.text)
                return output
            async with aclosing(translator.pipeline.stream(sequence)) as items:
                async for item in items:
                    if isinstance(item, Completion):
                        span.complete(item)
                        translator.segments.cache.add(sequence, item)
                        output = translator.segments.finished(job, segment, item, FIRST)
                        usage, timings = costs(sequence, item)
                        return replace(output, usage=usage, timings=timings)
                    delta = trailing + item.text if emitted else item.text.lstrip()
                    kept = delta.rstrip()
                    trailing = delta[len(kept) :]
                    emitted += kept
                    task.text.delta(task.number, written(kept))
        raise AssertionError("a stream ended without a completion")
    finally:
        call.slots.release()
