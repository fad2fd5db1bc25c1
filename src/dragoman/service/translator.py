"""A call's way through the model: take each text apart, translate its segments, put the outputs together.

Keeps no state between calls; the engine schedules. A text is processed segment by segment, each as soon as an engine slot
is free for it, and its outputs are joined as they finish: work on the event loop is bounded whatever a text's length. No
text that may be incomplete or wrong is returned without a warning (`service.segment` retries what fails a check).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from dragoman.errors import DeadlineExceeded
from dragoman.pipelines.base import Pipeline
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import Dispatcher, LoopTurns, TimeSlices
from dragoman.service.planner import UNDETERMINED, Planner, TextJob
from dragoman.service.segment import CallContext, Output, SegmentTranslator, worst
from dragoman.telemetry import requests
from dragoman.text import checks, marks
from dragoman.text.confidence import UNCALIBRATED, ConfidenceModel
from dragoman.text.segments import Joiner, Segment
from dragoman.types import Features, FinishReason, RetryReason, Timings, Translation, TranslationRequest, Usage

TextDoneCallback = Callable[[int, Translation], None]
DeltaCallback = Callable[[int, str], None]


class TextAssembly:
    """One text's translation while it is made: takes outputs in any order, and joins them in the text's order.

    `on_delta` is called with each part of the translation in order; the parts joined are the translation. `forced`: lengths
    are forced, so that outputs mean nothing and are not checked.
    """

    def __init__(
        self,
        job: TextJob,
        pace: TimeSlices,
        on_done: TextDoneCallback,
        on_delta: DeltaCallback | None,
        *,
        forced: bool,
        confidence: ConfidenceModel = UNCALIBRATED,
    ) -> None:
        self.job = job
        self._forced = forced
        self._confidence = confidence
        self._pace = pace
        self._on_done = on_done
        self._on_delta = on_delta
        source = None if job.source == UNDETERMINED else job.source
        self._joiner = Joiner(source, job.request.target)
        self._checks = checks.TextChecks(source, job.request.target, job.check_context.detector)
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
        self._retries: list[RetryReason] = []
        self._features: list[Features] = []
        self._cached = 0  # segments for which nothing was generated

    def append(self, segment: Segment) -> int:
        """The text's next segment; returns its number."""
        self._segments.append(segment)
        if len(self._segments) == 1:
            self._joiner.next_segment(structural=segment.structural)
        return len(self._segments) - 1

    def delta(self, number: int, text: str) -> None:
        """A streamed part of a segment's output."""
        if number == self._turn:
            self._emit(text)
        else:
            self._partial.setdefault(number, []).append(text)

    async def finish(self, number: int, output: Output, *, streamed: bool = False) -> None:
        """A segment is translated. `streamed`: its text was given by `delta`."""
        if not streamed:
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
                self._emit(segment.written)
            else:
                self._take(segment, output)
            self._turn += 1
            if self._turn < len(self._segments):
                self._joiner.next_segment(structural=self._segments[self._turn].structural)
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

    def _take(self, segment: Segment, output: Output) -> None:
        usage = output.usage
        for place, tokens in enumerate((usage.prompt_tokens, usage.completion_tokens, usage.source_tokens)):
            self._usage[place] += tokens
        self._reasons.add(output.reason)
        self._timings += output.timings
        self._retries += output.retries
        if output.retries:
            around = any(reason in ("cut_around", "aligned") for reason in output.retries)
            self._features += (replace(one, retried=True, cut_around=around) for one in output.features)
        else:
            self._features += output.features
        self._cached += not output.generated
        if not self._forced:
            self._checks.add(marks.plain(segment.text), output.plain, output.findings)

    def _translation(self) -> Translation:
        job = self.job
        if not self._reasons:  # nothing was translated
            if self._on_delta is not None and not self._text:
                self._on_delta(job.index, job.text)
            warnings = (checks.warning(checks.LANGUAGE_UNDETERMINED),) if job.undetermined else ()
            usage = Usage(characters=len(job.text))
            return Translation(
                job.text, job.source, job.detected, "unchanged", warnings, usage, detection_confidence=job.confidence
            )
        reason = worst(self._reasons)
        warnings = self._checks.warnings()
        features = tuple(self._features)
        confidence = self._confidence.confidence(features)
        doubts = (checks.warning(checks.LOW_CONFIDENCE),) if self._confidence.is_doubtful(confidence) else ()
        return Translation(
            "".join(self._text),
            job.source,
            job.detected,
            reason,
            (*warnings, *map(checks.warning, job.notes), *doubts),
            Usage(len(job.text), *self._usage),
            tuple(self._retries),
            failed=job.request.strict and bool(warnings),
            cached=self._cached,
            detection_confidence=job.confidence,
            confidence=confidence,
            features=features,
            timings=tuple(self._timings),
        )


@dataclass(frozen=True, slots=True)
class SegmentTask:
    """Segment `number` of a text, to be translated. `part` is its id within the call."""

    text: TextAssembly
    number: int
    part: str
    segment: Segment


SegmentWork = Callable[[CallContext, SegmentTask], Coroutine[Any, Any, None]]


class Translator:
    """Translates with one model, over any pipeline that has started, which runs `slots` sequences at the same time."""

    def __init__(
        self,
        pipeline: Pipeline,
        planner: Planner,
        dispatcher: Dispatcher,
        turns: LoopTurns,
        cache: SegmentCache,
        confidence: ConfidenceModel = UNCALIBRATED,
    ) -> None:
        self.pipeline = pipeline
        self.planner = planner
        self.segments = SegmentTranslator(pipeline, planner, cache, confidence)
        self._dispatcher = dispatcher
        self._turns = turns

    async def translate(
        self,
        request: TranslationRequest,
        on_done: TextDoneCallback | None = None,
        on_planned: Callable[[], None] | None = None,
    ) -> list[Translation]:
        """All texts. `on_done` is called with each as it finishes. Raises `InvalidRequest`, or the engine's errors.

        With `on_planned`, the languages and limits of all texts are settled before the first is translated, and it is
        called then: what fails later is the engine's, or the deadline.
        """
        translations: dict[int, Translation] = {}

        def done(index: int, translation: Translation) -> None:
            translations[index] = translation
            if on_done is not None:
                on_done(index, translation)

        async def segment(call: CallContext, task: SegmentTask) -> None:
            output = await self.segments.translate(call, task.text.job, task.part, task.segment)
            await task.text.finish(task.number, output)

        await self.run(request, segment, done, on_planned=on_planned)
        return [translations[index] for index in range(len(request.texts))]

    async def run(
        self,
        request: TranslationRequest,
        work: SegmentWork,
        on_done: TextDoneCallback,
        on_delta: DeltaCallback | None = None,
        on_planned: Callable[[], None] | None = None,
    ) -> None:
        """Start `work` for each segment when a slot is free for it; return when all are done. The first failure ends all.

        Raises `DeadlineExceeded` when the request's deadline passes: what waits for a slot is dropped, what runs is aborted.
        """
        deadline = asyncio.timeout(request.deadline_s)
        try:
            async with deadline:
                await self._run(request, work, on_done, on_delta, on_planned)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(
                f"not translated within the {request.deadline_s:.3g} s that the request allows", param="deadline_s"
            ) from None

    async def _run(
        self,
        request: TranslationRequest,
        work: SegmentWork,
        on_done: TextDoneCallback,
        on_delta: DeltaCallback | None,
        on_planned: Callable[[], None] | None,
    ) -> None:
        pace = TimeSlices(self._turns)
        with self._dispatcher.call(request.priority) as slots:
            call = CallContext(slots, pace)
            async with aclosing(self._segments(request, pace, on_done, on_delta, on_planned)) as segments:
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
        self,
        request: TranslationRequest,
        pace: TimeSlices,
        on_done: TextDoneCallback,
        on_delta: DeltaCallback | None,
        on_planned: Callable[[], None] | None,
    ) -> AsyncGenerator[SegmentTask]:
        """All segments that the model has to translate, text by text, made as they are asked for."""
        glossary = await self.planner.glossary(request)
        with requests.span("segment"):
            jobs: Iterable[TextJob] = self.planner.jobs(request, glossary)
            if on_planned is not None:
                planned = list[TextJob]()
                for job in jobs:
                    planned.append(job)
                    await pace.pause()
                jobs = planned
                on_planned()
            for job in jobs:
                text = TextAssembly(
                    job,
                    pace,
                    on_done,
                    on_delta,
                    forced=self.planner.forced_lengths,
                    confidence=self.segments.confidence,
                )
                part = 0
                for segment in job.segments:
                    if segment is not None:
                        number = text.append(segment)
                        if segment.translatable:
                            yield SegmentTask(text, number, str(part), segment)
                            part += 1
                    await pace.pause()
                await text.close()
                await pace.pause()
