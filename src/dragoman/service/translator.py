"""A call's way through the model: texts are cut into segments, these are translated, and their outputs joined.

What happens is an iterator of events (`dragoman.types.Event`), which whole answers and streams have in common: a whole answer
collects the texts that are done, a stream passes deltas on, too. Keeps no state between calls; the engine schedules. A text is
processed segment by segment, each as soon as an engine slot is free for it, and its outputs are joined as they finish: work on
the event loop is bounded whatever a text's length. No text that may be incomplete or wrong is returned without a warning.

No timeout and no task group is held while an event is given to the consumer, which may be slow, in another task, or gone
(PEP 789): the deadline is enforced where work is awaited, and closing the iterator ends what runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from dragoman.errors import UnclearPrompt
from dragoman.pipelines.base import Pipeline
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import Dispatcher, LoopTurns, TimeSlices
from dragoman.service.outputs import CallContext, Output, SegmentTranslator, is_shown_as_it_comes, worst
from dragoman.service.planner import UNDETERMINED, UNTRANSLATED, Planner, TextJob
from dragoman.telemetry import requests
from dragoman.text import checks
from dragoman.text.commentary import json_object
from dragoman.text.confidence import ConfidenceModel, uncalibrated
from dragoman.types import (
    Chat,
    Completion,
    Delta,
    EngineSequence,
    Event,
    Example,
    Features,
    FinishReason,
    Planned,
    RetryReason,
    TextDelta,
    TextDone,
    TextPlace,
    Timings,
    Translation,
    TranslationRequest,
    TranslationWarning,
    Usage,
)
from wholetext.markup import marks
from wholetext.markup.marks import MARK_VARIANT, Block
from wholetext.markup.segments import Joiner, Segment

if TYPE_CHECKING:
    from dragoman.service.memories import CallMemory, Memories

T = TypeVar("T")


class TextAssembly:
    """One text's translation while it is made: takes outputs in any order, and joins them in the text's order.

    `streamed`: the translation is shown in order as it comes; the deltas joined are the translation. `forced`: lengths are
    forced, so that outputs mean nothing and are not checked.
    """

    def __init__(self, job: TextJob, confidence: ConfidenceModel, *, streamed: bool, forced: bool) -> None:
        self.job = job
        self._forced = forced
        self._confidence = confidence
        self._direction = job.source, job.request.target
        self._streamed = streamed
        self._joiner = Joiner(job.check_context.source_language, job.request.target)
        self._checks = checks.TextChecks(job.check_context)
        self._segments: list[Segment] = []
        self._outputs: dict[int, Output] = {}
        self._deltas: dict[int, list[str]] = {}  # of segments that are shown as they come, and whose turn it is not yet
        self.is_complete = False  # no more segments come
        self._turn = 0  # the first segment that is not finished
        self._text: list[str] = []
        self._shown: list[str] = []  # of the segment whose turn it is, as it is in the text
        self._at = 0  # where that begins in the text
        self._source_at: int | None = 0  # and in the source; None: a segment was not found there
        self._reasons: set[FinishReason] = set()
        self._usage = Usage()
        self._timings: list[Timings] = []
        self._retries: list[RetryReason] = []
        self._features: list[Features] = []
        self._scores: list[
            tuple[TextPlace, tuple[float, ...]]
        ] = []  # segments with what their confidence is computed from
        self._examples: list[Example] = []
        self._cached = 0  # segments for which nothing was generated
        self._remembered = 0  # segments from a translation memory
        self._translated = 0  # all segments that were to be translated

    def append(self, segment: Segment) -> int:
        """Add the text's next segment; return its number."""
        self._segments.append(segment)
        if len(self._segments) == self._turn + 1:  # else its turn comes later
            self._joiner.next_segment(structural=segment.structural)
        return len(self._segments) - 1

    def take(self, number: int, item: str | Output | None) -> Iterator[Event | None]:
        """Take a delta or the output of segment `number`; None: nothing, but that segments were added.

        Yields what can be shown, and at last that the text is done; None: the caller may give control back.
        """
        if isinstance(item, str):
            self._deltas.setdefault(number, []).append(item)
        elif item is not None:
            self._outputs[number] = item
            self._deltas.setdefault(number, [item.text])
        while self._turn < len(self._segments):
            segment = self._segments[self._turn]
            if segment.translatable:
                if deltas := self._deltas.get(self._turn):
                    yield self._show("".join(deltas))
                    deltas.clear()
                output = self._outputs.pop(self._turn, None)
                if output is None:
                    return
                del self._deltas[self._turn]
                self._add(segment, output, self._pass(segment))
            else:
                yield self._show(segment.written)
                self._pass(segment)
            self._turn += 1
            if self._turn < len(self._segments):
                self._joiner.next_segment(structural=self._segments[self._turn].structural)
            yield None
        if self.is_complete:
            self.is_complete = False
            yield from self._done()

    def _show(self, text: str) -> TextDelta | None:
        """Join `text` to what came before; where the text is streamed, it is shown."""
        if not (joined := self._joiner.add(text)):
            return None
        self._text.append(joined)
        self._shown.append(joined)
        return TextDelta(self.job.index, joined) if self._streamed and not self.job.request.strict else None

    def _pass(self, segment: Segment) -> TextPlace:
        """Go behind a segment that is shown as a whole; return where it stands in the text and in the source."""
        shown = "".join(self._shown)
        self._shown.clear()
        start, end = self._at + len(shown) - len(shown.lstrip()), self._at + len(shown.rstrip())
        self._at += len(shown)
        at, written = self._source_at, segment.written
        if at is None or not self.job.text.startswith(written, at):
            self._source_at = None
            return TextPlace(start, end)
        self._source_at = at + len(written)
        return TextPlace(start, end, at, self._source_at)

    def _add(self, segment: Segment, output: Output, place: TextPlace) -> None:
        """Count an output's costs, and check it beside its segment, which stands at `place`."""
        self._usage += output.usage
        self._reasons.add(output.reason)
        self._translated += 1
        if output.remembered:  # a person's translation is neither checked nor judged
            self._remembered += 1
            return
        self._timings += output.timings
        self._retries += output.retries
        self._examples += output.examples
        features = output.features
        if output.retries or output.findings:
            around = any(reason in ("cut_around", "aligned") for reason in output.retries)
            known = {"retried": bool(output.retries), "cut_around": around, "has_findings": bool(output.findings)}
            features = tuple(replace(one, **known) for one in features)
        self._features += features
        if features:
            scores = self._confidence.scores(features, self._direction)
            self._scores.append((place, scores))
            if output.generated and not self.job.request.sample(self.job.index):
                self._confidence.observe(scores, self._direction)
        self._cached += not output.generated
        if not self._forced:
            self._checks.add(marks.plain(segment.text), output.plain, output.findings, place)

    def _doubt(self) -> TranslationWarning:
        """The warning that the model was unsure, with the segments of which it was."""
        judge = self._confidence
        places = tuple(
            place for place, scores in self._scores if judge.is_doubtful(judge.confidence(scores, self._direction))
        )
        return checks.warning(checks.LOW_CONFIDENCE, places=places)

    def _done(self) -> Iterator[Event]:
        """The translation. Under `strict` a text is shown when it is whole and has passed its checks."""
        job = self.job
        if not self._reasons:  # nothing was translated
            warnings = () if job.unchanged is None else (job.unchanged,)
            translation = Translation(
                job.text,
                job.source,
                job.detected,
                "unchanged",
                warnings,
                Usage(len(job.text)),
                detection_confidence=job.confidence,
            )
            if translation.is_free:
                translation = replace(translation, usage=Usage())
        else:
            is_remembered = self._remembered == self._translated
            warnings = () if is_remembered else self._checks.warnings()
            notes = () if is_remembered else job.notes
            scores = [score for _, scores in self._scores for score in scores]
            confidence = self._confidence.confidence(scores, self._direction) if scores else None
            doubts = (self._doubt(),) if confidence is not None and self._confidence.is_doubtful(confidence) else ()
            translation = Translation(
                "".join(self._text),
                job.source,
                job.detected,
                worst(self._reasons),
                (*warnings, *notes, *doubts),
                replace(self._usage, characters=len(job.text)),
                tuple(self._retries),
                failed=job.request.strict and bool(warnings),
                cached=self._cached,
                remembered=self._remembered,
                memory=None if not self._remembered else "part" if self._remembered < self._translated else "whole",
                examples=tuple(self._examples),
                detection_confidence=job.confidence,
                confidence=confidence,
                confidence_kind=None if confidence is None else self._confidence.kind,
                features=tuple(self._features),
                timings=tuple(self._timings),
            )
        is_shown = bool(self._text) and not job.request.strict
        if self._streamed and not (is_shown or translation.failed):
            yield TextDelta(job.index, translation.text)
        yield TextDone(job.index, translation)


Work = tuple[TextAssembly, int, Segment | Output | None]
"""A segment of a text to translate, with its number; an output: a translation memory has it; None: the text has no more."""

Item = tuple[TextAssembly, int, str | Output | None]
"""What came of it: a delta, its output, or nothing (None)."""


class Translator:
    """Translates with one model, over any pipeline that has started, which runs `slots` sequences at the same time."""

    def __init__(
        self,
        pipeline: Pipeline,
        planner: Planner,
        dispatcher: Dispatcher,
        turns: LoopTurns,
        cache: SegmentCache,
        confidence: ConfidenceModel | None = None,
        memories: Memories | None = None,
    ) -> None:
        self.planner = planner
        self._memories = memories
        self.segments = SegmentTranslator(pipeline, planner, cache, confidence or uncalibrated())
        self._dispatcher = dispatcher
        self._turns = turns

    @property
    def refused(self) -> int:
        """Calls that were refused since their deadlines cannot be met."""
        return self._dispatcher.refused

    async def events(self, request: TranslationRequest, *, streamed: bool = False) -> AsyncGenerator[Event]:
        """Yield `Planned`, and then, as they come, each text when it is done, and where `streamed` its deltas before.

        Raises `InvalidRequest`, and `QueueFull` for a deadline that cannot be met unless the whole call is answered without
        the engine, before `Planned`; later the engine's errors, and `DeadlineExceeded` when the request's deadline passes: what
        waits for a slot is dropped, what runs is aborted. Closing the iterator does the same. The first failure ends the call.
        """
        pace = TimeSlices(self._turns)
        with self._dispatcher.call(request.priority, request.account.id) as slots:
            call = CallContext(slots, pace, streamed)
            if request.deadline_s is not None:
                slots.set_deadline(request.deadline_s)
                call.allowed_s = request.deadline_s
                call.until_s = asyncio.get_running_loop().time() + request.deadline_s
            await pace.turn()  # many calls may arrive at once: streams are sent their events in between
            if request.chat is not None:
                async with aclosing(self._chat_events(call, request, request.chat)) as events:
                    async for event in events:
                        yield event
                return
            with requests.span("segment"):
                memory = None if self._memories is None else await call.wait_for(self._memories.of_call(request))
                jobs = await call.wait_for(self.planner.plan(request, pace, memory))
                wholes = {} if memory is None else await call.wait_for(_whole_texts(jobs, memory, pace))
            items = self._items(call, jobs, wholes)
            if slots.refusal is not None:  # the whole call is answered without the engine, or refused
                items = _replayed([item async for item in items])
            yield Planned()
            async with aclosing(items):
                async for text, number, item in items:
                    for event in text.take(number, item):
                        if event is not None:
                            yield event
                        await pace.pause()

    async def _chat_events(self, call: CallContext, request: TranslationRequest, chat: Chat) -> AsyncGenerator[Event]:
        """Give a chat to the model as it is. Its answer is not checked, as nobody knows what was asked for, but for being JSON
        where it has to be; raises `UnclearPrompt` where it is not."""
        sequence = await call.wait_for(self.planner.chat_sequence(request, chat))
        items = self._chat_items(call, sequence, streamed=call.streamed and not chat.is_json)
        if call.slots.refusal is not None:  # it is answered without the engine, or refused
            items = _replayed([item async for item in items])
        yield Planned()
        completion: Completion | None = None
        is_shown = False
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Completion):
                    completion = item
                else:
                    is_shown = True
                    yield TextDelta(0, item.text)
        if completion is None:
            raise AssertionError("a stream ended without a completion")
        text = _json_answer(completion.text) if chat.is_json else completion.text
        if call.streamed and not is_shown:  # it was in the cache, or is shown as a whole
            yield TextDelta(0, text)
        characters = sum(map(len, request.texts))
        translation = Translation(
            text,
            UNDETERMINED,
            False,
            completion.reason,
            usage=Usage.of(completion, sequence.source_tokens, characters),
            cached=int(completion.cached),
            timings=(completion.timings,) if completion.timings else (),
        )
        yield TextDone(0, translation)

    async def _chat_items(
        self, call: CallContext, sequence: EngineSequence, *, streamed: bool
    ) -> AsyncGenerator[Delta | Completion]:
        """Generate the answer of a chat, in a slot that is released with the call, or when a stream is generated.

        Where the call takes no slot, nothing comes between the question whether it needs the engine and its answer.
        """
        pipeline, cache = self.segments.pipeline, self.segments.cache
        key = cache.key(sequence)
        await call.wait_for(call.slots.acquire())
        with requests.span("sequence") as span:
            if span is not None:
                span.submit(sequence)
            if call.slots.refusal is not None:
                await call.wait_for(self.segments.refuse_unless_cached(call, key, sequence))
            if not streamed:
                answer = pipeline.generate(sequence) if key is None else cache.generate(key, sequence, pipeline)
                completion = await call.wait_for(answer)
                if span is not None:
                    span.complete(completion)
                yield completion
                return
            async with aclosing(cache.stream(key, sequence, pipeline, call.slots.release)) as items:
                while (item := await call.wait_for(anext(items, None))) is not None:
                    if isinstance(item, Completion) and span is not None:
                        span.complete(item)
                    yield item

    async def _items(self, call: CallContext, jobs: list[TextJob], wholes: Mapping[int, str]) -> AsyncGenerator[Item]:
        """Translate the segments of all texts. A call of one segment needs no task of its own."""
        async with aclosing(self._segments(call, jobs, wholes)) as segments:
            begun: list[Work] = []
            number_of_segments = 0
            async for work in segments:
                begun.append(work)
                number_of_segments += isinstance(work[2], Segment)
                if number_of_segments > 1:
                    break
            else:
                for text, number, segment in begun:
                    if not isinstance(segment, Segment):
                        yield text, number, segment
                        continue
                    await call.wait_for(call.slots.acquire())
                    if not (call.streamed and is_shown_as_it_comes(text.job, segment)):
                        output = self.segments.translate(call, text.job, str(number), segment)
                        yield text, number, await (output if call.until_s is None else call.wait_for(output))
                        continue
                    async with aclosing(self.segments.stream(call, text.job, str(number), segment)) as items:
                        while (item := await call.wait_for(anext(items, None))) is not None:
                            yield text, number, item
                return
            queue: asyncio.Queue[Item | None] = asyncio.Queue()  # None: no more
            task = asyncio.create_task(call.wait_for(self._run(call, begun, segments, queue)))
            try:
                while (item := await queue.get()) is not None:
                    yield item
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _segments(
        self, call: CallContext, jobs: list[TextJob], wholes: Mapping[int, str]
    ) -> AsyncGenerator[Work]:
        """All segments that are to be translated, text by text, made as they are asked for; None ends a text.

        `wholes`: translations from the memory of whole texts, by their places.
        """
        for job in jobs:
            text = TextAssembly(
                job, self.segments.confidence, streamed=call.streamed, forced=self.planner.forced_lengths
            )
            whole = wholes.get(job.index)
            if whole is not None:
                for segment, output in self._with_edges(job.text, whole):
                    number = text.append(segment)
                    if output is not None:
                        yield text, number, output
            for segment in job.segments if whole is None or job.direction.takes_context else ():
                if segment is not None and whole is None:  # else it is the next text's context, and nothing more
                    parts: Sequence[tuple[Segment, Output | None]] = ((segment, None),)
                    if segment.translatable and job.memory is not None:
                        parts = await call.wait_for(self._from_memory(job, segment, job.memory))
                    for part, output in parts:
                        number = text.append(part)
                        if part.translatable:
                            yield text, number, output or part
                await call.pace.pause()
            text.is_complete = True
            yield text, -1, None
            await call.pace.pause()

    async def _from_memory(
        self, job: TextJob, segment: Segment, memory: CallMemory
    ) -> list[tuple[Segment, Output | None]]:
        """A segment, with its output where the memory has it, or one that differs in a number alone.

        If one that seems to be in the memory is not there, it is cut for the model.
        """
        look_up = memory.recall if segment.known else memory.adapted
        found = await look_up(job.source, segment.text, segment.marks)
        if found is not None:
            written = marks.restore(found, segment.marks, segment.writer)
            return [(segment, self._remembered(segment.text, written, found))]
        if not segment.known:
            return [(segment, None)]
        block = Block(segment.text, segment.marks, segment.writer)
        return [(part, None) for part in self.planner.segments_of_block(job, block)]

    def _with_edges(self, text: str, translation: str) -> list[tuple[Segment, Output | None]]:
        """A whole text and its translation from the memory, with the white space around it."""
        core = text.strip()
        before, _, after = text.partition(core)
        pieces: list[tuple[Segment, Output | None]] = [
            (Segment(before, False, structural=True), None),
            (Segment(core, True), self._remembered(core, translation, translation)),
            (Segment(after, False, structural=True), None),
        ]
        return [(segment, output) for segment, output in pieces if segment.text]

    def _remembered(self, source: str, written: str, text: str) -> Output:
        """The output of a translation from a memory, as it stands in the document (`written`) and with marks."""
        count, plain = self.planner.prompts.tokenizer.count, marks.plain(text)
        usage = Usage(cached_prompt_tokens=count(source), cached_completion_tokens=count(plain))
        return Output(written, plain, "stop", usage, remembered=True)

    async def _run(
        self, call: CallContext, begun: list[Work], segments: AsyncGenerator[Work], queue: asyncio.Queue[Item | None]
    ) -> None:
        """Translate segments, those `begun` first, each when a slot is free for it; what comes of them goes to the queue.

        At the end, also that of a failure, it gets None.
        """

        async def translate(text: TextAssembly, number: int, segment: Segment) -> None:
            if not (call.streamed and is_shown_as_it_comes(text.job, segment)):
                queue.put_nowait((text, number, await self.segments.translate(call, text.job, str(number), segment)))
                return
            async with aclosing(self.segments.stream(call, text.job, str(number), segment)) as items:
                async for item in items:
                    queue.put_nowait((text, number, item))

        async def start(work: Work) -> None:
            text, number, segment = work
            if not isinstance(segment, Segment):
                queue.put_nowait((text, number, segment))
                return
            await call.slots.acquire()
            group.create_task(translate(text, number, segment))

        try:
            async with asyncio.TaskGroup() as group:
                for work in begun:
                    await start(work)
                async for work in segments:
                    await start(work)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            queue.put_nowait(None)


def _json_answer(answer: str) -> str:
    """The JSON object that a model's answer to a chat is, without what is around it. Raises `UnclearPrompt` for others."""
    if (found := json_object(answer)) is None:
        raise UnclearPrompt(
            "the messages are not understood, and the model, which was given them as they are, did not answer with the JSON "
            "object that the request wants",
            param="messages",
        )
    return found


async def _replayed(items: Sequence[T]) -> AsyncGenerator[T]:
    for item in items:
        yield item


async def _whole_texts(jobs: Sequence[TextJob], memory: CallMemory, pace: TimeSlices) -> dict[int, str]:
    """The translations from the memory of texts as wholes, by their places."""
    known = list[TextJob]()
    for job in jobs:
        if _is_known(job):
            known.append(job)
        await pace.pause()
    await memory.read([(job.source, job.text.strip()) for job in known])
    found = {job.index: await memory.recall(job.source, job.text.strip()) for job in known}
    return {index: translation for index, translation in found.items() if translation is not None}


def _is_known(job: TextJob) -> bool:
    """Whether a text as a whole seems to be in the memory: one without markup, or a block of a document."""
    if job.memory is None or job.direction is UNTRANSLATED or job.request.format not in ("text", "marks"):
        return False
    if job.request.format == "text" and MARK_VARIANT.search(job.text):  # which would read as a document's mark
        return False
    return job.memory.has(job.source, job.text.strip())
