"""Streams: the segments of all texts decode at the same time, and each text's deltas are emitted in the text's order.

A delta cannot be taken back, so a streamed segment is not retried: its output has twice the usual limit from the start, and
what the checks find is in the warnings of the finished translation. A segment with tags is emitted when it is complete, so
that its structure is whole; one with placeholders alone is streamed, and a lost one is a warning. The deltas of a text,
joined, are its translation. A segment that is equal to one that another stream has in flight is given its text as it comes.

Under `strict` a text is emitted when it is whole and has passed its checks, so that its segments are retried as in a call
without a stream, and of a text that fails nothing is emitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from dragoman.service.segment import CallContext, Output, costs
from dragoman.service.translator import SegmentTask, Translator
from dragoman.telemetry import requests
from dragoman.text.capitals import CapitalsWriter
from dragoman.types import Completion, TextDelta, TextDone, Translation, TranslationRequest

Event: TypeAlias = TextDelta | TextDone


async def stream(translator: Translator, request: TranslationRequest) -> AsyncGenerator[Event]:
    """Events of all texts. Closing the iterator ends their sequences; an engine's error ends the stream with it."""
    events: asyncio.Queue[Event | None] = asyncio.Queue()  # None: no more

    def done(index: int, translation: Translation) -> None:
        if request.strict and not translation.failed:
            events.put_nowait(TextDelta(index, translation.text))
        events.put_nowait(TextDone(index, translation))

    def delta(index: int, text: str) -> None:
        if not request.strict:
            events.put_nowait(TextDelta(index, text))

    async def segment(call: CallContext, task: SegmentTask) -> None:
        marks = task.segment.marks
        has_structure = any(mark.closing is not None for mark in marks)
        has_structure |= bool(marks) and isinstance(task.segment.writer, CapitalsWriter)
        has_structure |= request.format != "text" and bool(task.segment.writer or marks)
        if has_structure or request.strict:
            output = await translator.segments.translate(call, task.text.job, task.part, task.segment)
            await task.text.finish(task.number, output)
        else:
            await task.text.finish(task.number, await _stream_segment(translator, call, task), streamed=True)

    work = asyncio.create_task(translator.run(request, segment, done, delta))
    work.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _stream_segment(translator: Translator, call: CallContext, task: SegmentTask) -> Output:
    """One segment, in a slot that it has already. White space at its end is emitted only if something follows."""
    job, segments = task.text.job, translator.segments
    # Of plain text all that is to be kept can be shown to the model as it is, and needs no replacing in the deltas.
    segment = replace(task.segment, marks=tuple(replace(mark, word=True) for mark in task.segment.marks))
    written = segment.writer or str
    emitted, trailing = False, ""

    def emit(text: str) -> None:
        nonlocal emitted, trailing
        delta = trailing + text if emitted else text.lstrip()
        kept = delta.rstrip()
        trailing = delta[len(kept) :]
        emitted = emitted or bool(kept)
        task.text.delta(task.number, written(kept))

    async def generate(emit: Callable[[str], None]) -> Completion:
        async with aclosing(translator.pipeline.stream(sequence)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    return item
                emit(item.text)
        raise AssertionError("a stream ended without a completion")

    try:
        await call.pace.pause()
        attempt = translator.planner.attempt(job, segment)
        in_words = attempt.form.words or not segment.marks  # else marks are to be replaced in the complete output
        with requests.span("sequence") as span:
            sequence = translator.planner.sequence(job, task.part, attempt, limit_factor=2)
            if span is not None:
                span.submit(sequence)
            completion, _ = await segments.cache.generate(sequence, generate, emit if in_words else lambda _: None)
            if span is not None:
                span.complete(completion)
        output = segments.finished(job, attempt, completion)
        if not emitted:
            task.text.delta(task.number, output.text)
        usage, timings = costs(sequence, completion)
        return replace(output, usage=usage, generated=int(not completion.cached), timings=timings)
    finally:
        call.slots.release()
