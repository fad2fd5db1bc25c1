"""A call's way through the model: split each text, submit its segments, check each output, retry it, join the text.

Keeps no state between calls; the engine schedules. A text is processed segment by segment, each as soon as an engine slot
is free for it, and its outputs are checked and joined as they finish: work on the event loop is bounded whatever a text's
length. No text that may be incomplete is returned without a warning: an output that reaches its limit is retried once with
twice the limit, one that lost line breaks or sentences is retried in smaller segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from collections.abc import Sequence as Many
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dragoman.pipelines.base import Pipeline
from dragoman.service.dispatcher import CallSlots, Dispatcher, LoopTurns, TimeSlices
from dragoman.service.planner import UNDETERMINED, Planner, TextJob
from dragoman.telemetry import tracing
from dragoman.text import checks
from dragoman.text.segments import Joiner, Segment, join, lines
from dragoman.types import (
    Completion,
    FinishReason,
    Sequence,
    Timings,
    Translation,
    TranslationRequest,
    Usage,
    WarningCode,
)

T = TypeVar("T")

INCOMPLETE: dict[FinishReason, WarningCode] = {"length": checks.LENGTH_LIMIT, "repetition": checks.REPETITION}
"""The warning of a translation that may be incomplete."""

TextDoneCallback = Callable[[int, Translation], None]
DeltaCallback = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Output:
    """One segment's translation."""

    text: str
    reason: FinishReason
    usage: Usage
    timings: tuple[Timings, ...] = field(default=(), compare=False)
    retries: tuple[WarningCode, ...] = ()  # why it was retried

    @classmethod
    def of(cls, sequence: Sequence, completion: Completion, *retries: WarningCode) -> Output:
        """White space around a segment belongs to the text, not to the segment: what the model adds is dropped."""
        usage = Usage(0, completion.prompt_tokens, completion.completion_tokens, sequence.source_tokens)
        timings = (completion.timings,) if completion.timings else ()
        return cls(completion.text.strip(), completion.reason, usage, timings, retries)

    @classmethod
    def joined(cls, text: str, outputs: Many[Output], *retries: WarningCode) -> Output:
        """The output of a segment that was translated in smaller ones."""
        return cls(
            text,
            worst(output.reason for output in outputs),
            sum((output.usage for output in outputs), Usage()),
            tuple(timings for output in outputs for timings in output.timings),
            (*retries, *(reason for output in outputs for reason in output.retries)),
        )


def worst(reasons: Iterable[FinishReason]) -> FinishReason:
    """The reason that a reader must know of."""
    found = set(reasons)
    return "repetition" if "repetition" in found else "length" if "length" in found else "stop"


class TextAssembly:
    """One text's translation while it is made: takes outputs in any order, and checks and joins them in the text's order.

    `on_delta` is called with each part of the translation in order; the parts joined are the translation.
    """

    def __init__(
        self, job: TextJob, pace: TimeSlices, on_done: TextDoneCallback, on_delta: DeltaCallback | None, *, check: bool
    ) -> None:
        self.job = job
        self._pace = pace
        self._on_done = on_done
        self._on_delta = on_delta
        source = None if job.source == UNDETERMINED else job.source
        self._joiner = Joiner(source, job.request.target)
        self._checks = checks.TextChecks(source, job.request.target) if check else None
        self._segments: list[Segment] = []
        self._outputs: dict[int, Output] = {}
        self._partial: dict[int, list[str]] = {}  # streamed parts of segments whose turn it is not yet
        self._complete = False  # no more segments come
        self._turn = 0  # the first segment that is not finished
        self._advancing = False
        self._text: list[str] = []
        self._reasons: set[FinishReason] = set()
        self._usage = [0, 0, 0]
        self._timings: list[Timings] = []
        self._retries: list[WarningCode] = []

    def append(self, segment: Segment) -> int:
        """The text's next segment; returns its number."""
        self._segments.append(segment)
        if len(self._segments) == 1:
            self._joiner.next_segment()
        return len(self._segments) - 1

    def delta(self, number: int, text: str) -> None:
        """A streamed part of a segment's output."""
        if number == self._turn:
            self._emit(text)
        else:
            self._partial.setdefault(number, []).append(text)

    async def finish(self, number: int, output: Output) -> None:
        """A segment is translated. In a stream, its text was given by `delta`."""
        if self._on_delta is None:
            self.delta(number, output.text)
        self._outputs[number] = output
        await self._advance()

    async def close(self) -> None:
        """All segments were appended."""
        self._complete = True
        await self._advance()

    async def _advance(self) -> None:
        """Take in what is next in the text's order; emit the result when all of it was."""
        if self._advancing:
            return
        self._advancing = True
        while self._turn < len(self._segments):
            segment, output = self._segments[self._turn], self._outputs.pop(self._turn, None)
            if segment.translatable and output is None:
                break
            if output is None:
                self._emit(segment.text)
            else:
                self._take(segment.text, output)
            self._turn += 1
            self._joiner.next_segment()
            for part in self._partial.pop(self._turn, ()):
                self._emit(part)
            await self._pace.pause()
        self._advancing = False
        if self._complete and self._turn == len(self._segments):
            self._complete = False
            self._on_done(self.job.index, self._translation())

    def _emit(self, text: str) -> None:
        if added := self._joiner.add(text):
            self._text.append(added)
            if self._on_delta is not None:
                self._on_delta(self.job.index, added)

    def _take(self, source: str, output: Output) -> None:
        usage = output.usage
        for place, tokens in enumerate((usage.prompt_tokens, usage.completion_tokens, usage.source_tokens)):
            self._usage[place] += tokens
        self._reasons.add(output.reason)
        self._timings += output.timings
        self._retries += output.retries
        if self._checks is not None:
            self._checks.add(source, output.text)

    def _translation(self) -> Translation:
        job = self.job
        if not self._reasons:  # nothing was translated
            if self._on_delta is not None and not self._text:
                self._on_delta(job.index, job.text)
            warnings = (checks.warning(checks.LANGUAGE_UNDETERMINED),) if job.undetermined else ()
            usage = Usage(characters=len(job.text))
            return Translation(job.text, job.source, job.detected, "unchanged", warnings, usage)
        reason = worst(self._reasons)
        warnings = (checks.warning(INCOMPLETE[reason]),) if reason in INCOMPLETE else ()
        if self._checks is not None:
            warnings += tuple(one for one in self._checks.warnings() if one not in warnings)
        return Translation(
            "".join(self._text),
            job.source,
            job.detected,
            reason,
            warnings,
            Usage(len(job.text), *self._usage),
            tuple(self._retries),
            tuple(self._timings),
        )


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the segments of one call share."""

    slots: CallSlots
    pace: TimeSlices


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """Segment `number` of a text, to be translated. `part` is its id within the call."""

    text: TextAssembly
    number: int
    part: str
    source: str


SegmentWork = Callable[[CallContext, SegmentTask], Coroutine[Any, Any, None]]


class Translator:
    """Translates with one model, over any pipeline that has started, which runs `slots` sequences at the same time."""

    def __init__(self, pipeline: Pipeline, planner: Planner, slots: int, turns: LoopTurns) -> None:
        self.pipeline = pipeline
        self.planner = planner
        self._dispatcher = Dispatcher(slots + max(slots // 8, 1))  # some wait in the engine: no slot is empty meanwhile
        self._turns = turns

    async def translate(
        self, request: TranslationRequest, on_done: TextDoneCallback | None = None
    ) -> list[Translation]:
        """All texts. `on_done` is called with each as it finishes. Raises `InvalidRequest`, or the engine's errors."""
        translations: dict[int, Translation] = {}

        def done(index: int, translation: Translation) -> None:
            translations[index] = translation
            if on_done is not None:
                on_done(index, translation)

        await self.run(request, self._translate_segment, done)
        return [translations[index] for index in range(len(request.texts))]

    async def run(
        self,
        request: TranslationRequest,
        work: SegmentWork,
        on_done: TextDoneCallback,
        on_delta: DeltaCallback | None = None,
    ) -> None:
        """Start `work` for each segment when a slot is free for it; return when all are done. The first failure ends all."""
        pace = TimeSlices(self._turns)
        with self._dispatcher.call() as slots:
            call = CallContext(slots, pace)
            async with aclosing(self._segments(request, pace, on_done, on_delta)) as segments:
                first = await anext(segments, None)
                if first is None:
                    return
                await slots.acquire()
                second = await anext(segments, None)
                if second is None:  # most calls: a task would cost as much as encoding the prompt
                    await work(call, first)
                    return
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(work(call, first))
                        await slots.acquire()
                        group.create_task(work(call, second))
                        async for segment in segments:
                            await slots.acquire()
                            group.create_task(work(call, segment))
                except BaseExceptionGroup as failures:
                    raise failures.exceptions[0] from None

    async def _segments(
        self, request: TranslationRequest, pace: TimeSlices, on_done: TextDoneCallback, on_delta: DeltaCallback | None
    ) -> AsyncGenerator[SegmentTask]:
        """All segments that the model has to translate, text by text, made as they are asked for."""
        with tracing.span("segment"):
            for job in self.planner.jobs(request):
                text = TextAssembly(job, pace, on_done, on_delta, check=not self.planner.forced_lengths)
                part = 0
                for segment in job.segments:
                    number = text.append(segment)
                    if segment.translatable:
                        yield SegmentTask(text, number, str(part), segment.text)
                        part += 1
                    await pace.pause()
                await text.close()
                await pace.pause()

    async def _translate_segment(self, call: CallContext, task: SegmentTask) -> None:
        """One segment, in a slot that it has already."""
        job = task.text.job
        try:
            output = await self._output(call, job, task.part, task.source)
        finally:
            call.slots.release()
        if not self.planner.forced_lengths:
            if not checks.line_breaks_kept(task.source, output.text):
                smaller = lines(Segment(task.source, translatable=True))
                output = await self._in_smaller_segments(call, job, task.part, smaller, checks.LINE_BREAKS_LOST)
            elif checks.sentences_dropped(task.source, output.text):
                smaller = self.planner.smaller(job, task.source)
                output = await self._in_smaller_segments(call, job, task.part, smaller, checks.SENTENCES_DROPPED)
        await task.text.finish(task.number, output)

    async def _output(self, call: CallContext, job: TextJob, part: str, source: str) -> Output:
        """An output that reached its limit is retried with twice the limit."""
        sequence, completion = await self._generate(call, lambda: self.planner.sequence(job, part, source))
        if completion.reason == "length" and (again := self.planner.with_twice_the_limit(sequence)):
            return Output.of(*await self._generate(call, lambda: again), checks.LENGTH_LIMIT)
        return Output.of(sequence, completion)

    async def _generate(self, call: CallContext, encode: Callable[[], Sequence]) -> tuple[Sequence, Completion]:
        await call.pace.pause()
        with tracing.sequence_span() as span:
            sequence = encode()
            span.submit(sequence)
            completion = await self.pipeline.generate(sequence)
            span.complete(completion)
        return sequence, completion

    async def _in_smaller_segments(
        self, call: CallContext, job: TextJob, part: str, segments: tuple[Segment, ...], reason: WarningCode
    ) -> Output:
        """Each alone: a model that drops lines or sentences cannot do so where there is only one. They are not retried."""

        async def translated(number: int, segment: Segment) -> Output:
            async with call.slots:
                output = Output.of(
                    *await self._generate(call, lambda: self.planner.sequence(job, f"{part}.{number}", segment.text))
                )
            if "\n" in segment.text:
                return output
            return replace(output, text=" ".join(output.text.splitlines()))  # line breaks in one line are the model's

        wanted = [segment for segment in segments if segment.translatable]
        outputs = await gather_all([translated(number, segment) for number, segment in enumerate(wanted)])
        text = join(segments, [output.text for output in outputs], job.source, job.request.target)
        return Output.joined(text, outputs, reason)


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order. Unlike `asyncio.gather`, nothing goes on running after a failure or a cancellation."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
