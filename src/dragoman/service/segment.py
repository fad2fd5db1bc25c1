"""One segment's way through the model: the first attempt, and what is done when its output fails a check.

An output that fails a check is not returned as it is. The segment is translated once more, in the way that suits the
fault: with twice the limit, line by line, in smaller segments, with its terms, numbers or placeholders as marks, or with
other sampling; the better of the two is taken. Where marks (`text.marks`) are still not kept, the text between them is
translated alone, and where that fails too, they are put at aligned positions: the structure is always the source's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from dragoman.pipelines.base import Pipeline
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import CallSlots, TimeSlices
from dragoman.service.planner import FIRST, Attempt, Form, Planner, TextJob
from dragoman.telemetry import requests
from dragoman.text import checks, glossary, marks
from dragoman.text.checks import Finding
from dragoman.text.commentary import without_commentary
from dragoman.text.confidence import UNCALIBRATED, ConfidenceModel
from dragoman.text.marks import Block
from dragoman.text.segments import Segment, adds_spaces, join, lines, needs_space
from dragoman.types import Completion, EngineSequence, Features, FinishReason, RetryReason, Timings, Usage, WarningCode

T = TypeVar("T")

INCOMPLETE: dict[FinishReason, WarningCode] = {"length": checks.LENGTH_LIMIT, "repetition": checks.REPETITION}
"""The finding of an output that may be incomplete."""


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the segments of one call share."""

    slots: CallSlots
    pace: TimeSlices


@dataclass(frozen=True, slots=True)
class Output:
    """One segment's translation. `text` is as it stands in the document, `plain` without marks, for checks."""

    text: str
    plain: str
    reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    generated: int = 0  # sequences that the engine generated for it; 0: the cache had it, or an equal one was in flight
    timings: tuple[Timings, ...] = field(default=(), compare=False)
    retries: tuple[RetryReason, ...] = ()
    findings: tuple[Finding, ...] = ()
    features: tuple[Features, ...] = ()  # of each completion that it is made of; nothing where they are unknown

    @property
    def marks_lost(self) -> bool:
        return any(finding.code == checks.PLACEHOLDERS_LOST for finding in self.findings)


class SegmentTranslator:
    """Translates segments with one model. Keeps no state between them but the cache."""

    def __init__(
        self, pipeline: Pipeline, planner: Planner, cache: SegmentCache, confidence: ConfidenceModel = UNCALIBRATED
    ) -> None:
        self.pipeline = pipeline
        self.planner = planner
        self.cache = cache
        self.confidence = confidence

    async def translate(self, call: CallContext, job: TextJob, part: str, segment: Segment) -> Output:
        """The translation of `segment`, in a slot that the call has acquired for it; it is released here."""
        if not any(mark.pieces for mark in segment.marks):
            return await self._sentence(call, job, part, segment)
        call.slots.release()
        blocks = [piece for mark in segment.marks for piece in mark.pieces if isinstance(piece, Block)]
        values = await gather_all(
            [self._attribute(call, job, f"{part}.attribute.{number}", block) for number, block in enumerate(blocks)]
        )
        texts = (value.text for value in values)
        translated = tuple(marks.with_translated_pieces(mark, texts) for mark in segment.marks)
        await call.slots.acquire()
        output = await self._sentence(call, job, part, replace(segment, marks=translated))
        findings = checks.worst_first(finding for one in (output, *values) for finding in one.findings)
        return replace(with_costs(output, output, *values), findings=findings)

    async def _attribute(self, call: CallContext, job: TextJob, part: str, block: Block) -> Output:
        """The value of an attribute of a tag that is a mark in a sentence."""
        whole = Segment(block.text, True, block.marks, block.writer)
        segments = self.planner.cut(job, block)
        if len(segments) != 1 or not segments[0].translatable:
            return await self._in_smaller_segments(call, job, part, whole, segments)
        await call.slots.acquire()
        return await self._sentence(call, job, part, segments[0])

    async def _sentence(self, call: CallContext, job: TextJob, part: str, segment: Segment) -> Output:
        """Attempts and retries; the slot is released after the first."""
        try:
            first = await self._attempt(call, job, part, segment)
        finally:
            call.slots.release()
        if not first.findings:
            return first
        second = await self._once_more(call, job, part, segment, first)
        best = with_costs(better(first, second), first, second) if second is not None else first
        return best if not best.marks_lost else await self._with_marks_kept(call, job, part, segment, best)

    # ---- one attempt

    async def _attempt(
        self, call: CallContext, job: TextJob, part: str, segment: Segment, form: Form = FIRST
    ) -> Output:
        """Translate in one form. An output that reached its limit is retried with twice the limit."""
        attempt = self.planner.attempt(job, segment, form)
        sequence, completion = await self._generate(call, lambda: self.planner.sequence(job, part, attempt))
        retries: tuple[RetryReason, ...] = ()
        usage, timings = costs(sequence, completion)
        generated = int(not completion.cached)
        if completion.reason == "length" and (again := self.planner.with_twice_the_limit(sequence)):
            sequence, completion = await self._generate(call, lambda: again)
            retries = (checks.LENGTH_LIMIT,)
            usage, timings = costs(sequence, completion)
            generated += not completion.cached
        output = self.finished(job, attempt, completion)
        return replace(output, usage=usage, generated=generated, timings=timings, retries=retries)

    def finished(self, job: TextJob, attempt: Attempt, completion: Completion) -> Output:
        """The checked output of one completion. White space around it is the model's own, and is dropped."""
        segment = attempt.segment
        text = self.planner.canonical(job, completion.text, attempt).strip()
        plain = marks.plain(text)
        findings = () if self.planner.forced_lengths else self._findings(job, attempt, text, plain, completion.reason)
        if "\n" not in segment.text and not (findings and findings[0].code == checks.COMMENTARY):
            # Line breaks in one line are the model's; those around its comments show where these end.
            text, plain = (" ".join(filter(None, map(str.strip, one.splitlines()))) for one in (text, plain))
        written = marks.restore(text, segment.marks, segment.writer)
        direction = (job.source, job.request.target)
        features = self.confidence.features(marks.plain(segment.text), plain, direction, completion.logprobs)
        return Output(written, plain, completion.reason, findings=findings, features=features)

    def _findings(
        self, job: TextJob, attempt: Attempt, text: str, plain: str, reason: FinishReason
    ) -> tuple[Finding, ...]:
        segment, terms = attempt.segment, attempt.options.terms
        found = list[Finding]()
        has_marks = segment.marks or "<" in text
        if has_marks and (lost := marks.lost(segment.text, text) or marks.emptied(segment.text, text, segment.marks)):
            sources = tuple(segment.marks[number - 1].opening for number in lost if 0 < number <= len(segment.marks))
            found.append(Finding(checks.PLACEHOLDERS_LOST, sources))
        if reason in INCOMPLETE:  # what else it lacks follows from that
            return checks.worst_first([*found, Finding(INCOMPLETE[reason])])
        found += checks.findings(marks.plain(segment.text), plain, job.check_context)
        if missing := glossary.missing(text, terms) if terms else ():
            found.append(Finding(checks.TERMS_MISSING, tuple(translation for _, translation in missing)))
        return checks.worst_first(found)

    async def _generate(
        self, call: CallContext, encode: Callable[[], EngineSequence]
    ) -> tuple[EngineSequence, Completion]:
        await call.pace.pause()
        with requests.span("sequence") as span:
            sequence = encode()
            if span is not None:
                span.submit(sequence)
            completion, _ = await self.cache.generate(sequence, lambda _: self.pipeline.generate(sequence))
            if span is not None:
                span.complete(completion)
        return sequence, completion

    # ---- when a check fails

    async def _once_more(
        self, call: CallContext, job: TextJob, part: str, segment: Segment, first: Output
    ) -> Output | None:
        """The second attempt, in the way that suits the worst fault of the first; None where there is none."""
        code = first.findings[0].code  # the worst
        if code == checks.LINE_BREAKS_LOST:
            return await self._in_smaller_segments(call, job, part, segment, lines(segment), code)
        if code not in (checks.PLACEHOLDERS_LOST, checks.NUMBERS_CHANGED):
            smaller = self.planner.smaller(job, segment)
            if len(smaller) > 1:
                return await self._in_smaller_segments(call, job, part, segment, smaller, code)
        if code == checks.LENGTH_LIMIT:
            return None
        if code == checks.COMMENTARY and (cleaned := self._without_commentary(job, segment, first)) is not None:
            return replace(cleaned, retries=(code,))
        form = _next_form(segment, code)
        marked = self._with_missing_marked(job, segment, first)
        async with call.slots:
            output = await self._attempt(call, job, f"{part}.again", marked, form)
        output = replace(output, retries=(code, *output.retries))
        if output.marks_lost and marked is not segment and code != checks.NUMBERS_CHANGED:
            return await self._with_marks_kept(call, job, f"{part}.again", marked, output)
        if (
            output.findings
            and code == checks.NUMBERS_CHANGED
            and len(smaller := self.planner.smaller(job, segment)) > 1
        ):
            parts = await self._in_smaller_segments(call, job, part, segment, smaller, code)
            return with_costs(better(output, parts), output, parts)
        return output

    def _with_missing_marked(self, job: TextJob, segment: Segment, first: Output) -> Segment:
        """The segment with the terms and numbers that the output lacks as marks, where nothing worse is to be retried."""
        missing = {finding.code: finding.missing for finding in first.findings}
        if first.findings[0].code not in (checks.PLACEHOLDERS_LOST, checks.NUMBERS_CHANGED, checks.TERMS_MISSING):
            return segment
        if checks.TERMS_MISSING in missing:
            segment = self.planner.with_terms_marked(job, segment)
        if checks.NUMBERS_CHANGED in missing:
            segment = self.planner.with_numbers_marked(segment, missing[checks.NUMBERS_CHANGED])
        return segment

    def _without_commentary(self, job: TextJob, segment: Segment, first: Output) -> Output | None:
        """The first output without the model's comments, where that passes all checks; None of a segment with marks."""
        cleaned = "" if segment.marks else without_commentary(segment.text, first.plain)
        if not cleaned:
            return None
        output = self.finished(job, self.planner.attempt(job, segment), Completion(cleaned, "stop", 0, 0))
        return None if output.findings else replace(output, features=first.features)

    async def _in_smaller_segments(
        self,
        call: CallContext,
        job: TextJob,
        part: str,
        whole: Segment,
        segments: Sequence[Segment],
        *retries: RetryReason,
        form: Form = FIRST,
    ) -> Output:
        """Each alone: a model that drops lines or sentences cannot do so where there is only one."""

        async def translated(number: int, segment: Segment) -> Output:
            async with call.slots:
                output = await self._attempt(call, job, f"{part}.{number}", segment, form)
            if not output.marks_lost:
                return output
            return await self._with_marks_kept(call, job, f"{part}.{number}", segment, output)

        wanted = [segment for segment in segments if segment.translatable]
        outputs = await gather_all([translated(number, segment) for number, segment in enumerate(wanted)])
        written = [replace(one, text=one.written) for one in segments]
        text = join(written, [output.text for output in outputs], job.source, job.request.target)
        plain = join(
            [replace(one, text=marks.plain(one.text)) for one in segments],
            [output.plain for output in outputs],
            job.source,
            job.request.target,
        )
        return self._joined(job, whole, text, plain, outputs, *retries)

    def _joined(
        self, job: TextJob, whole: Segment, text: str, plain: str, outputs: Sequence[Output], *retries: RetryReason
    ) -> Output:
        """The output of a segment that was translated in parts, which keep its structure by themselves."""
        reason = worst(output.reason for output in outputs)
        findings = checks.findings(marks.plain(whole.text), plain, job.check_context)
        features = tuple(one for output in outputs for one in output.features)
        joined = Output(text, plain, reason, retries=retries, findings=tuple(findings), features=features)
        return with_costs(joined, joined, *outputs)

    async def _with_marks_kept(
        self, call: CallContext, job: TextJob, part: str, segment: Segment, failed: Output
    ) -> Output:
        """The text between the marks translated alone; where that fails a check, marks at aligned positions.

        Of several sentences only those are cut around their marks that lose them alone, too.
        """
        smaller = self.planner.smaller(job, segment)
        if sum(one.translatable for one in smaller) > 1 and _pairs(smaller) == _pairs((segment,)):
            form = Form(words=False, context=False)
            parts = await self._in_smaller_segments(call, job, f"{part}.parts", segment, smaller, form=form)
            return with_costs(parts, failed, parts)
        around = await self._around_marks(call, job, part, segment)
        if not around.findings:
            return with_costs(around, failed, around)
        whole = replace(segment, text=marks.plain(segment.text), marks=())
        async with call.slots:
            bare = await self._attempt(call, job, f"{part}.plain", whole)
        moved = Finding(checks.MARKS_MOVED)
        text = marks.aligned(segment.text, bare.plain)
        aligned = Output(
            marks.restore(text, segment.marks, segment.writer),
            bare.plain,
            bare.reason,
            retries=("aligned",),
            findings=(*bare.findings, moved),
            features=bare.features,
        )
        if better(around, bare) is around:
            return with_costs(around, failed, around, bare)
        return with_costs(aligned, failed, around, bare, aligned)

    async def _around_marks(self, call: CallContext, job: TextJob, part: str, segment: Segment) -> Output:
        pieces = marks.parts(segment.text)
        wanted = {
            number: Segment(text.strip(), translatable=True, writer=segment.writer)
            for number, (text, is_mark) in enumerate(pieces)
            if not is_mark and any(map(str.isalpha, text))
        }

        async def translated(number: int, piece: Segment) -> Output:
            async with call.slots:
                return await self._attempt(call, job, f"{part}.around.{number}", piece)

        outputs = dict(
            zip(wanted, await gather_all([translated(number, piece) for number, piece in wanted.items()]), strict=True)
        )
        text, plain = _joined_around(pieces, outputs, segment, spaced=adds_spaces(job.source, job.request.target))
        joined = self._joined(job, segment, text, plain, tuple(outputs.values()), "cut_around")
        faults = tuple(finding for output in outputs.values() for finding in output.findings)
        return replace(joined, findings=checks.worst_first([*joined.findings, *faults]))


def _joined_around(
    pieces: Sequence[tuple[str, bool]], outputs: dict[int, Output], segment: Segment, *, spaced: bool
) -> tuple[str, str]:
    """Marks and the translations between them, with the source's white space. `spaced`: and spaces where it has none."""
    text: list[str] = []
    plain = ""
    for number, (piece, is_mark) in enumerate(pieces):
        if is_mark:
            text.append(piece)
            continue
        output = outputs.get(number)
        shown = piece if output is None else output.plain
        if output is not None:
            before = piece[: len(piece) - len(piece.lstrip())]
            after = piece[len(piece.rstrip()) :]
            if spaced and not before and plain and shown and needs_space(plain[-1], shown[0]):
                before = " "
            shown = f"{before}{shown}{after}"
        text.append(shown)
        plain += shown
    return marks.restore("".join(text), segment.marks, segment.writer), plain


def _pairs(segments: Iterable[Segment]) -> int:
    """How many marks of the segments are pairs."""
    return sum(mark.closing is not None for segment in segments for mark in segment.marks)


def _next_form(segment: Segment, code: WarningCode) -> Form:
    """The form of the second attempt after a finding of this code."""
    if code == checks.NUMBERS_CHANGED or (code == checks.PLACEHOLDERS_LOST and any(m.word for m in segment.marks)):
        return Form(words=False, context=False)
    return Form(context=False, sampled=code != checks.TERMS_MISSING)


# ---- comparing and joining outputs


def better(first: Output, second: Output) -> Output:
    """The one whose findings are less severe; the first of equals."""
    return second if checks.badness(second.findings) < checks.badness(first.findings) else first


def with_costs(chosen: Output, *outputs: Output) -> Output:
    """`chosen` with the usage, the times and the retries of all attempts."""
    return replace(
        chosen,
        usage=sum((output.usage for output in outputs), Usage()),
        generated=sum(output.generated for output in outputs),
        timings=tuple(timings for output in outputs for timings in output.timings),
        retries=tuple(retry for output in outputs for retry in output.retries),
    )


def worst(reasons: Iterable[FinishReason]) -> FinishReason:
    """The reason that a reader must know of."""
    found = set(reasons)
    return "repetition" if "repetition" in found else "length" if "length" in found else "stop"


def costs(sequence: EngineSequence, completion: Completion) -> tuple[Usage, tuple[Timings, ...]]:
    """What a sequence cost the engine: nothing where its completion was in the cache."""
    if completion.cached:
        return Usage(), ()
    usage = Usage(0, completion.prompt_tokens, completion.completion_tokens, sequence.source_tokens)
    return usage, (completion.timings,) if completion.timings else ()


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order. Unlike `asyncio.gather`, nothing goes on running after a failure or a cancellation."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
