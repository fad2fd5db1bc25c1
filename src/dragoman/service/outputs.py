"""After the model: an output is read and checked, and what fails a check is translated again.

An output that fails a check is not returned as it is. Only the first prompt has examples: if it had any, the next one is the
same without them. Then `RETRIES` says what is tried, by the worst finding: in smaller segments, line by line, with terms,
numbers or placeholders as marks, without the model's comments, with other sampling; the better output is taken. Where marks
(`text.marks`) are still not kept, the text between them is translated alone, and where that fails too, they are put at aligned
positions: the structure is always the source's.

The number of attempts is bounded (`most_attempts`): a segment as a whole is given to the model at most `MOST_ATTEMPTS` times,
each quarter or line of it and each text between two marks once, each of its sentences twice (with its marks and without).

A segment of a stream is shown as it is generated, which cannot be taken back: it has one attempt, with twice the usual limit
of its output, and what the checks find becomes warnings. A segment with tags is shown when it is whole, so that its structure
is; so is any under `strict`. These are retried like those of whole answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeVar

from dragoman.errors import DeadlineExceeded
from dragoman.pipelines.base import Pipeline
from dragoman.service.cache import SegmentCache
from dragoman.service.dispatcher import CallSlots, TimeSlices
from dragoman.service.planner import (
    ALONE,
    FIRST,
    MIN_SEGMENT_TOKENS,
    Attempt,
    Form,
    Planner,
    TextJob,
    with_marks,
    with_terms_marked,
)
from dragoman.telemetry import requests
from dragoman.text import checks, comparisons, glossary
from dragoman.text.capitals import CapitalsWriter
from dragoman.text.checks import Finding
from dragoman.text.commentary import without_commentary
from dragoman.text.confidence import ConfidenceModel
from dragoman.types import (
    Completion,
    EngineSequence,
    Example,
    Features,
    FinishReason,
    RetryReason,
    Timings,
    Usage,
    WarningCode,
)
from wholetext.markup import marks
from wholetext.markup.marks import Block
from wholetext.markup.segments import (
    Segment,
    adds_spaces,
    cut,
    join,
    lines,
    needs_space,
    sentences,
    sentences_with_marks_apart,
)

T = TypeVar("T")

SHORT_SEGMENT_TOKENS = 64
"""A segment of one sentence is not split further if it has no more."""

INCOMPLETE: dict[FinishReason, WarningCode] = {"length": checks.LENGTH_LIMIT, "repetition": checks.REPETITION}
"""The finding of an output that may be incomplete."""

Remedy = Literal["lines", "quarters", "uncommented", "marked", "reworded", "sampled"]
"""How a segment is translated again:

- `lines`: each of its lines alone;
- `quarters`: in quarters, if it has several sentences or is long: a model cannot drop a sentence where there is only one;
- `uncommented`: the model's comments are removed from the output, if what is left passes all checks;
- `marked`: with what the output lacks (terms, numbers, placeholders) as marks;
- `reworded`: by the profile's second form of prompt, if it has one;
- `sampled`: with other sampling, as greedy decoding would give the same again.
"""

_DEFAULT: Final[tuple[tuple[Remedy, ...], ...]] = (("quarters", "sampled"),)
RETRIES: Mapping[WarningCode, tuple[tuple[Remedy, ...], ...]] = {
    checks.REFUSAL: (("reworded", "quarters", "sampled"),),
    checks.ANSWERED: (("reworded", "quarters", "sampled"),),
    checks.LENGTH_OUT_OF_BOUNDS: (("quarters", "reworded", "sampled"),),
    checks.LINE_BREAKS_LOST: (("lines",),),
    checks.LENGTH_LIMIT: (("quarters",),),
    checks.COMMENTARY: (("quarters", "uncommented", "sampled"),),
    checks.TERMS_MISSING: (("quarters", "marked"),),
    checks.PLACEHOLDERS_LOST: (("marked",),),
    checks.NUMBERS_CHANGED: (("marked",), ("quarters",)),
}
"""By the worst finding of the first output: rounds, each of remedies of which the first that applies is used. A second round
follows only where the first has findings. What is not here is retried as `_DEFAULT`."""

MOST_ATTEMPTS: Final = 7
"""How often a segment as a whole is given to the model: the first attempt, one without examples if that had any, and one
remedy, each once more with twice the limit of its output, and once without its marks."""

APART = Form(words=False, context=False, examples=False)
"""The form of sentences that are translated alone because their marks were lost."""

_MARKS_KEPT = frozenset({"cut_around", "aligned"})


@dataclass(slots=True)
class CallContext:
    """What the segments of one call share. The deadline is that of the event loop's clock."""

    slots: CallSlots
    pace: TimeSlices
    streamed: bool = False
    allowed_s: float | None = None
    until_s: float | None = None

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await `work` until the call's deadline. Raises `DeadlineExceeded`; `work` is cancelled then."""
        if self.until_s is None or self.allowed_s is None:
            return await work
        deadline = asyncio.timeout_at(self.until_s)
        try:
            async with deadline:
                return await work
        except TimeoutError:
            if not deadline.expired():
                raise
            raise DeadlineExceeded(
                f"not translated within the {self.allowed_s:.3g} s that the request allows", param="deadline_s"
            ) from None


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
    remembered: bool = False  # it is a person's translation, from a translation memory
    examples: tuple[Example, ...] = ()  # that its prompt had

    @property
    def marks_lost(self) -> bool:
        return any(finding.code == checks.PLACEHOLDERS_LOST for finding in self.findings)


class SegmentTranslator:
    """Translates segments with one model. Keeps no state between them but the cache."""

    def __init__(self, pipeline: Pipeline, planner: Planner, cache: SegmentCache, confidence: ConfidenceModel) -> None:
        self.pipeline = pipeline
        self.planner = planner
        self.cache = cache
        self.confidence = confidence

    async def translate(self, call: CallContext, job: TextJob, suffix: str, segment: Segment) -> Output:
        """Translate `segment`, in a slot that the call has acquired for it; it is released after the first attempt."""
        if any(mark.pieces for mark in segment.marks):
            return await self._with_attributes(call, job, suffix, segment)
        try:
            first = await self._attempt(call, job, suffix, segment)
        finally:
            call.slots.release()
        if not first.findings:
            return first
        if not first.examples:
            return await self._retried(call, job, suffix, segment, first)
        return await self._without_examples(call, job, suffix, segment, first)

    # ---- one attempt

    async def _attempt(
        self,
        call: CallContext,
        job: TextJob,
        suffix: str,
        segment: Segment,
        form: Form = FIRST,
        *,
        is_piece: bool = False,
    ) -> Output:
        """Translate in one form; where the output reaches its limit, once more with twice that, which a piece has at once."""
        await call.pace.pause()
        similar = await _similar(job, segment) if job.takes_examples and form.examples else ()
        attempt = self.planner.attempt(job, segment, form, similar)
        longer: EngineSequence | None = None
        generated = 0
        while True:
            with requests.span("sequence") as span:
                sequence = longer or self.planner.sequence(job, suffix, attempt, limit_factor=1 + is_piece)
                if span is not None:
                    span.submit(sequence)
                key = self.cache.key(sequence)
                if call.slots.refusal is not None:
                    await self.refuse_unless_cached(call, key, sequence)
                if key is None:
                    completion = await self.pipeline.generate(sequence)
                else:
                    completion = await self.cache.generate(key, sequence, self.pipeline)
                if span is not None:
                    span.complete(completion)
            generated += not completion.cached
            if completion.reason != "length" or is_piece or longer is not None:
                break
            if (longer := self._with_twice_the_limit(sequence)) is None:
                break
            await call.pace.pause()
        output = self._read(job, attempt, completion, sequence.source_tokens)
        if longer is None:
            return output
        return replace(output, generated=generated, retries=(checks.LENGTH_LIMIT,))

    async def stream(
        self, call: CallContext, job: TextJob, suffix: str, segment: Segment
    ) -> AsyncGenerator[str | Output]:
        """Yield the text of a segment that is shown as it comes, and then the output of its one attempt.

        White space at its end is shown only if something follows. The slot that the call has acquired for it is released when
        the engine has generated it, however slowly the consumer reads.
        """
        # Of plain text all that is to be kept can be shown to the model as it is, and needs no replacing in the deltas.
        segment = replace(segment, marks=tuple(replace(mark, word=True) for mark in segment.marks))
        write = segment.writer or str
        completion: Completion | None = None
        begun, trailing, is_submitted = False, "", False
        try:
            await call.pace.pause()
            similar = await _similar(job, segment) if job.takes_examples else ()
            attempt = self.planner.attempt(job, segment, FIRST, similar)
            is_shown = attempt.form.words or not segment.marks  # else marks are to be replaced in the whole output
            with requests.span("sequence") as span:
                sequence = self.planner.sequence(job, suffix, attempt, limit_factor=2)
                if span is not None:
                    span.submit(sequence)
                key = self.cache.key(sequence)
                if call.slots.refusal is not None:
                    await self.refuse_unless_cached(call, key, sequence)
                is_submitted = True
                async with aclosing(self.cache.stream(key, sequence, self.pipeline, call.slots.release)) as items:
                    async for item in items:
                        if isinstance(item, Completion):
                            completion = item
                        elif is_shown:
                            shown = marks.without_invented_controls(segment.text, item.text)
                            delta = trailing + shown if begun else shown.lstrip()
                            kept = delta.rstrip()
                            trailing = delta[len(kept) :]
                            if kept:
                                begun = True
                                yield write(kept)
                if completion is None:
                    raise AssertionError("a stream ended without a completion")
                if span is not None:
                    span.complete(completion)
        finally:
            if not is_submitted:
                call.slots.release()
        await call.pace.turn()  # many streams may end in one step: others are sent their events in between
        yield self._read(job, attempt, completion, sequence.source_tokens)

    async def refuse_unless_cached(self, call: CallContext, key: bytes | None, sequence: EngineSequence) -> None:
        """Refuse a call whose deadline cannot be met (`QueueFull`) if the sequence needs the engine."""
        if not await self.cache.needs_no_engine(key, sequence):
            call.slots.refuse()

    def _with_twice_the_limit(self, sequence: EngineSequence) -> EngineSequence | None:
        """The same sequence with an output of up to twice as many tokens; None where the window has no more."""
        limit = min(2 * sequence.max_tokens, self.planner.max_model_len - len(sequence.prompt_token_ids))
        if limit <= sequence.max_tokens or sequence.forced:
            return None
        return replace(sequence, id=f"{sequence.id}.again", max_tokens=limit)

    def _read(self, job: TextJob, attempt: Attempt, completion: Completion, source_tokens: int) -> Output:
        """Read and check a completion. White space around it is the model's own, and is dropped.

        The output has the costs of a sequence with so many tokens of the source; where the completion was cached, those that
        it would have had.
        """
        segment = attempt.segment
        direction = (job.source, job.request.target)
        text = self.planner.prompts.answer(completion.text, attempt.shown, *direction, attempt.options)
        if segment.marks or "<" in text:  # marks as the segment has them, whatever the form in which the model had them
            text = marks.normalised(text)
            text = marks.from_words(text, segment.marks) if attempt.form.words else text
            text = marks.without_invented(segment.text, text)
        text = marks.without_invented_controls(segment.text, text).strip()
        plain = marks.plain(text)
        findings: tuple[Finding, ...] = ()
        if not self.planner.forced_lengths:
            findings = _check(job, attempt, text, plain, completion.reason)
        if "\n" not in segment.text and not (findings and findings[0].code == checks.COMMENTARY):
            # Line breaks in one line are the model's; those around its comments show where these end.
            text, plain = (" ".join(filter(None, map(str.strip, one.splitlines()))) for one in (text, plain))
        written = marks.restore(text, segment.marks, segment.writer)
        features = self.confidence.features(marks.plain(segment.text), plain, direction, completion.logprobs)
        return Output(
            written,
            plain,
            completion.reason,
            Usage.of(completion, source_tokens),
            generated=int(not completion.cached),
            timings=(completion.timings,) if completion.timings else (),
            findings=findings,
            features=features,
            examples=() if attempt.form.reworded else attempt.options.examples,  # those are no one's
        )

    # ---- when a check fails

    async def _without_examples(
        self, call: CallContext, job: TextJob, suffix: str, segment: Segment, first: Output
    ) -> Output:
        """Translate a segment whose output failed a check after examples: what failed may be theirs. Return the best output."""
        async with call.slots:
            alone = await self._attempt(call, job, f"{suffix}.alone", segment, ALONE)
        alone = replace(alone, retries=(first.findings[0].code, *alone.retries))
        if alone.findings:
            alone = await self._retried(call, job, suffix, segment, alone)
        return with_costs(better(first, alone), first, alone)

    async def _retried(self, call: CallContext, job: TextJob, suffix: str, segment: Segment, first: Output) -> Output:
        """Return the best output of a segment whose first one failed a check."""
        best = first
        for remedies in RETRIES.get(first.findings[0].code, _DEFAULT):
            for remedy in remedies:
                output = await self._remedied(remedy, call, job, suffix, segment, first)
                if output is not None:
                    best = with_costs(better(best, output), best, output)
                    break
            if not best.findings:
                break
        if best.marks_lost and _MARKS_KEPT.isdisjoint(best.retries):
            return await self._with_marks_kept(call, job, suffix, segment, best)
        return best

    async def _remedied(
        self, remedy: Remedy, call: CallContext, job: TextJob, suffix: str, segment: Segment, first: Output
    ) -> Output | None:
        """The output of a remedy; None where it does not apply."""
        code = first.findings[0].code
        if remedy in ("lines", "quarters"):
            pieces = lines(segment) if remedy == "lines" else quarters(self.planner, job, segment)
            if remedy == "quarters" and len(pieces) == 1:
                return None
            return await self._in_pieces(call, job, suffix, segment, pieces, code)
        if remedy == "reworded" and not self.planner.prompts.profile.reworded:
            return None
        if remedy == "uncommented":
            cleaned = "" if segment.marks else without_commentary(segment.text, first.plain)
            if not cleaned:
                return None
            completion = Completion(cleaned, "stop", 0, 0, cached=True)
            output = self._read(job, self.planner.attempt(job, segment, ALONE), completion, 0)
            return None if output.findings else replace(output, features=first.features, retries=(code,))
        marked, form = segment, Form(context=False, sampled=True, examples=False)
        if remedy == "reworded":
            form = Form(context=False, examples=False, reworded=True)
        if remedy == "marked":
            marked, form = _with_missing_marked(job, segment, first)
        async with call.slots:
            output = await self._attempt(call, job, f"{suffix}.again", marked, form)
        output = replace(output, retries=(code, *output.retries))
        if output.marks_lost and marked is not segment and code != checks.NUMBERS_CHANGED:
            return await self._with_marks_kept(call, job, f"{suffix}.again", marked, output)
        return output

    async def _in_pieces(
        self,
        call: CallContext,
        job: TextJob,
        suffix: str,
        segment: Segment,
        pieces: Sequence[Segment],
        *retries: RetryReason,
        form: Form = ALONE,
    ) -> Output:
        """Translate each piece alone: a model that drops lines or sentences cannot do so where there is only one."""

        async def translate(number: int, piece: Segment) -> Output:
            async with call.slots:
                output = await self._attempt(call, job, f"{suffix}.{number}", piece, form, is_piece=True)
            if not output.marks_lost:
                return output
            if form is APART:
                return await self._around_marks_or_aligned(call, job, f"{suffix}.{number}", piece, output)
            return await self._with_marks_kept(call, job, f"{suffix}.{number}", piece, output)

        translatable = [piece for piece in pieces if piece.translatable]
        outputs = await gather_all([translate(number, piece) for number, piece in enumerate(translatable)])
        direction = (job.source, job.request.target)
        written = [replace(piece, text=piece.written) for piece in pieces]
        text = join(written, [output.text for output in outputs], *direction)
        plain_pieces = [replace(piece, text=marks.plain(piece.text)) for piece in pieces]
        plain = join(plain_pieces, [output.plain for output in outputs], *direction)
        return _joined(job, segment, text, plain, outputs, *retries)

    async def _with_marks_kept(
        self, call: CallContext, job: TextJob, suffix: str, segment: Segment, failed: Output
    ) -> Output:
        """Translate the sentences with marks alone, so that only those that lose them alone, too, are cut around them."""
        pieces = sentences_with_marks_apart(segment, job.source)
        if sum(piece.translatable for piece in pieces) > 1 and _pairs(pieces) == _pairs((segment,)):
            output = await self._in_pieces(call, job, f"{suffix}.sentences", segment, pieces, form=APART)
            return with_costs(output, failed, output)
        return await self._around_marks_or_aligned(call, job, suffix, segment, failed)

    async def _around_marks_or_aligned(
        self, call: CallContext, job: TextJob, suffix: str, segment: Segment, failed: Output
    ) -> Output:
        """Translate the text between the marks alone; where that fails a check, put the marks at aligned positions."""
        around = await self._around_marks(call, job, suffix, segment)
        if not around.findings:
            return with_costs(around, failed, around)
        unmarked = replace(segment, text=marks.plain(segment.text), marks=())
        async with call.slots:
            bare = await self._attempt(call, job, f"{suffix}.plain", unmarked, ALONE, is_piece=True)
        text = marks.aligned(segment.text, bare.plain)
        aligned = Output(
            marks.restore(text, segment.marks, segment.writer),
            bare.plain,
            bare.reason,
            retries=("aligned",),
            findings=(*bare.findings, Finding(checks.MARKS_MOVED)),
            features=bare.features,
        )
        if better(around, bare) is around:
            return with_costs(around, failed, around, bare)
        return with_costs(aligned, failed, around, bare, aligned)

    async def _around_marks(self, call: CallContext, job: TextJob, suffix: str, segment: Segment) -> Output:
        parts = marks.parts(segment.text)
        pieces = {
            number: Segment(text.strip(), translatable=True, writer=segment.writer)
            for number, (text, is_mark) in enumerate(parts)
            if not is_mark and any(map(str.isalpha, text))
        }

        async def translate(number: int, piece: Segment) -> Output:
            async with call.slots:
                return await self._attempt(call, job, f"{suffix}.around.{number}", piece, ALONE, is_piece=True)

        translated = await gather_all([translate(number, piece) for number, piece in pieces.items()])
        outputs = dict(zip(pieces, translated, strict=True))
        text, plain = _joined_around(parts, outputs, segment, spaced=adds_spaces(job.source, job.request.target))
        joined = _joined(job, segment, text, plain, translated, "cut_around")
        faults = tuple(finding for output in translated for finding in output.findings)
        return replace(joined, findings=checks.worst_first([*joined.findings, *faults]))

    # ---- attributes

    async def _with_attributes(self, call: CallContext, job: TextJob, suffix: str, segment: Segment) -> Output:
        """Translate a sentence whose marks are tags with attributes, after the values of these."""
        call.slots.release()
        blocks = [piece for mark in segment.marks for piece in mark.pieces if isinstance(piece, Block)]
        values = await gather_all(
            [self._attribute(call, job, f"{suffix}.attribute.{number}", block) for number, block in enumerate(blocks)]
        )
        texts = (value.text for value in values)
        translated = tuple(marks.with_translated_pieces(mark, texts) for mark in segment.marks)
        await call.slots.acquire()
        output = await self.translate(call, job, suffix, replace(segment, marks=translated))
        findings = checks.worst_first(finding for one in (output, *values) for finding in one.findings)
        return replace(with_costs(output, output, *values), findings=findings)

    async def _attribute(self, call: CallContext, job: TextJob, suffix: str, block: Block) -> Output:
        """Translate the value of an attribute of a tag that is a mark in a sentence."""
        segments = self.planner.segments_of_block(job, block)
        if len(segments) != 1 or not segments[0].translatable:
            whole = Segment(block.text, True, block.marks, block.writer)
            return await self._in_pieces(call, job, suffix, whole, segments)
        await call.slots.acquire()
        return await self.translate(call, job, suffix, segments[0])


async def _similar(job: TextJob, segment: Segment) -> Sequence[Example]:
    """The entries of memories that are similar to a segment, the most similar first."""
    if job.memory is None:
        return ()
    return await job.memory.similar(job.source, marks.with_words(segment.text, segment.marks))


def quarters(planner: Planner, job: TextJob, segment: Segment) -> tuple[Segment, ...]:
    """A segment split into quarters, between sentences where there are any; a short sentence is one piece."""
    count = planner.prompts.tokenizer.count
    tokens = count(segment.text)
    if tokens <= SHORT_SEGMENT_TOKENS and len(sentences(segment.text, job.source)) == 1:
        return (segment,)
    pieces = cut(segment.text, job.source, max(tokens // 4, MIN_SEGMENT_TOKENS), count)
    return tuple(segment.part(piece.text, translatable=piece.translatable) for piece in pieces)


def most_attempts(planner: Planner, job: TextJob, segment: Segment) -> int:
    """How often a segment may be given to the model at most, whatever the outputs: a constant plus the number of its pieces.

    The marks that terms and numbers become for a second attempt count as its marks.
    """
    pieces = [*quarters(planner, job, segment), *lines(segment)]
    apart = sentences_with_marks_apart(segment, job.source)
    texts = sum(not is_mark for _, is_mark in marks.parts(segment.text))
    return MOST_ATTEMPTS + len(pieces) + 2 * len(apart) + texts


def is_shown_as_it_comes(job: TextJob, segment: Segment) -> bool:
    """Whether a segment of a stream is: not if its structure could be incomplete, or if its text may be refused."""
    if job.request.strict or any(mark.closing is not None for mark in segment.marks):
        return False
    if segment.marks and isinstance(segment.writer, CapitalsWriter):
        return False
    return job.request.format == "text" or not (segment.writer or segment.marks)


def _check(job: TextJob, attempt: Attempt, text: str, plain: str, reason: FinishReason) -> tuple[Finding, ...]:
    """What is wrong with an output: `text` has marks, `plain` has none."""
    segment, terms = attempt.segment, attempt.options.terms
    findings = list[Finding]()
    has_marks = segment.marks or "<" in text
    if has_marks and (lost := marks.lost(segment.text, text) or marks.emptied(segment.text, text, segment.marks)):
        sources = tuple(segment.marks[number - 1].opening for number in lost if 0 < number <= len(segment.marks))
        findings.append(Finding(checks.PLACEHOLDERS_LOST, sources))
    if reason in INCOMPLETE:  # what else it lacks follows from that
        return checks.worst_first([*findings, Finding(INCOMPLETE[reason])])
    findings += checks.findings(marks.plain(segment.text), plain, job.check_context)
    if examples := attempt.options.examples:
        ours, theirs = (marks.plain(marks.with_words(one, segment.marks)) for one in (segment.text, text))
        findings += checks.of_examples(ours, theirs, examples)
    if missing := glossary.missing(text, terms) if terms else ():
        findings.append(Finding(checks.TERMS_MISSING, tuple(translation for _, translation in missing)))
    return checks.worst_first(findings) if findings else ()


def _with_missing_marked(job: TextJob, segment: Segment, first: Output) -> tuple[Segment, Form]:
    """The segment with the terms and numbers that the output lacks as marks, and the form of the next attempt."""
    code = first.findings[0].code
    missing = {finding.code: finding.missing for finding in first.findings}
    marked = segment
    if checks.TERMS_MISSING in missing and job.glossary is not None:
        marked = with_terms_marked(marked, job.glossary)
    if numbers := missing.get(checks.NUMBERS_CHANGED):
        marked = _with_numbers_marked(marked, numbers)
    if code == checks.NUMBERS_CHANGED or (code == checks.PLACEHOLDERS_LOST and any(m.word for m in segment.marks)):
        return marked, Form(words=False, context=False, examples=False)
    return marked, Form(context=False, sampled=code != checks.TERMS_MISSING, examples=False)


def _with_numbers_marked(segment: Segment, numbers: Sequence[str]) -> Segment:
    """The segment with these numbers as marks."""
    spans: list[tuple[int, int, str]] = []
    at = 0
    for part, is_mark in marks.parts(segment.text):
        if not is_mark:
            spans += ((at + a, at + b, part[a:b]) for a, b in comparisons.number_spans(part, numbers))
        at += len(part)
    return with_marks(segment, spans)


def _pairs(segments: Iterable[Segment]) -> int:
    """How many marks of the segments are pairs."""
    return sum(mark.closing is not None for segment in segments for mark in segment.marks)


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
    distinct = set(reasons)
    return "repetition" if "repetition" in distinct else "length" if "length" in distinct else "stop"


def _joined(
    job: TextJob, segment: Segment, text: str, plain: str, outputs: Sequence[Output], *retries: RetryReason
) -> Output:
    """The output of a segment that was translated in pieces, which keep its structure by themselves."""
    reason = worst(output.reason for output in outputs)
    findings = checks.findings(marks.plain(segment.text), plain, job.check_context)
    features = tuple(one for output in outputs for one in output.features)
    joined = Output(text, plain, reason, retries=retries, findings=tuple(findings), features=features)
    return with_costs(joined, joined, *outputs)


def _joined_around(
    parts: Sequence[tuple[str, bool]], outputs: dict[int, Output], segment: Segment, *, spaced: bool
) -> tuple[str, str]:
    """Marks and the translations between them, with the source's white space. `spaced`: and spaces where it has none."""
    text: list[str] = []
    plain = ""
    for number, (part, is_mark) in enumerate(parts):
        if is_mark:
            text.append(part)
            continue
        output = outputs.get(number)
        shown = part if output is None else output.plain
        if output is not None:
            before = part[: len(part) - len(part.lstrip())]
            after = part[len(part.rstrip()) :]
            if spaced and not before and plain and shown and needs_space(plain[-1], shown[0]):
                before = " "
            shown = f"{before}{shown}{after}"
        text.append(shown)
        plain += shown
    return marks.restore("".join(text), segment.marks, segment.writer), plain


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order. Unlike `asyncio.gather`, nothing goes on running after a failure or a cancellation."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
