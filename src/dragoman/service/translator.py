"""A text's way through the model: plan it, submit all its pieces at once, check each, put it together.

Holds no queue and no state between calls; the engine schedules. Nothing is passed off as whole that is not: what ends for
want of room is tried once more with twice the room, and then marked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace

from dragoman.pipelines.base import Pipeline
from dragoman.service import streaming
from dragoman.service.outputs import Output, as_it_was, assemble, retried, spent, used, worst
from dragoman.service.planner import Job, Planner
from dragoman.service.together import gather_all
from dragoman.text import checks
from dragoman.text.segments import Segment, join, lines
from dragoman.types import TextDelta, TextDone, Translation, TranslationRequest, WarningCode


class Translator:
    """Translates with one model, over any pipeline that has started."""

    def __init__(self, pipeline: Pipeline, planner: Planner) -> None:
        self._pipeline = pipeline
        self._planner = planner

    async def translate(self, request: TranslationRequest) -> list[Translation]:
        """All texts, concurrently in the engine. Raises `InvalidRequest` before any work, or the engine's errors."""
        return await gather_all([self._text(job) for job in self._planner.jobs(request)])

    def stream(self, request: TranslationRequest) -> AsyncGenerator[TextDelta | TextDone]:
        """Deltas of all texts as they come, each text's in order, and a `TextDone` at the end of each."""
        return streaming.stream(self._pipeline, self._planner, self._planner.jobs(request))

    async def _text(self, job: Job) -> Translation:
        if not job.wanted:
            return as_it_was(job)
        outputs = await gather_all([self._piece(job, str(n), text) for n, text in enumerate(job.wanted)])
        return assemble(job, outputs, check=not self._planner.forced_lengths)

    async def _piece(self, job: Job, part: str, text: str) -> Output:
        sequence = self._planner.sequence(job, part, text)
        completion = await self._pipeline.generate(sequence)
        retries: tuple[WarningCode, ...] = ()
        if completion.reason == "length" and (again := self._planner.with_twice_the_room(sequence)):
            completion = await self._pipeline.generate(again)
            retries = (checks.LENGTH_LIMIT,)
        output = Output.of(sequence, completion, *retries)
        if self._planner.forced_lengths:
            return output
        if not checks.line_breaks_kept(text, output.text):
            return await self._again(job, part, lines(Segment(text, translatable=True)), checks.LINE_BREAKS_LOST)
        if checks.sentences_dropped(text, output.text):
            return await self._again(job, part, self._planner.smaller(job, text), checks.SENTENCES_DROPPED)
        return output

    async def _again(self, job: Job, part: str, pieces: tuple[Segment, ...], guard: WarningCode) -> Output:
        """Smaller pieces, each alone: a model that drops lines or sentences cannot do so where there is but one."""
        wanted = [piece.text for piece in pieces if piece.translatable]
        outputs = await gather_all([self._small_piece(job, f"{part}.{n}", text) for n, text in enumerate(wanted)])
        joined = join(pieces, [output.text for output in outputs], job.source, job.request.target)
        return Output(joined, worst(outputs), used(outputs), spent(outputs), (guard, *retried(outputs)))

    async def _small_piece(self, job: Job, part: str, text: str) -> Output:
        """One small piece, as it comes; line breaks that the model puts into a single line are not the text's."""
        sequence = self._planner.sequence(job, part, text)
        output = Output.of(sequence, await self._pipeline.generate(sequence))
        if "\n" in text:
            return output
        return replace(output, text=" ".join(output.text.splitlines()))
