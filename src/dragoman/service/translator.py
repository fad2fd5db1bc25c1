"""A text's way through the model: plan it, submit all its pieces at once, check each, put it together.

Holds no queue and no state between calls; the engine schedules. Nothing is passed off as whole that is not: what ends for
want of room is tried once more with twice the room, and then marked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from dragoman.pipelines.contract import Pipeline
from dragoman.service import streaming
from dragoman.service.jobs import Job, Planner
from dragoman.service.outputs import Output, as_it_was, assemble, used, worst
from dragoman.service.together import all_of
from dragoman.text import guards
from dragoman.text.segments import Piece, join, lines
from dragoman.translation import TextDelta, TextDone, Translation, TranslationRequest


class Translator:
    """Translates with one model, over any pipeline that has started."""

    def __init__(self, pipeline: Pipeline, planner: Planner) -> None:
        self._pipeline = pipeline
        self._planner = planner

    async def translate(self, request: TranslationRequest) -> list[Translation]:
        """All texts, concurrently in the engine. Raises `InvalidRequest` before any work, or the engine's errors."""
        return await all_of([self._text(job) for job in self._planner.jobs(request)])

    def stream(self, request: TranslationRequest) -> AsyncIterator[TextDelta | TextDone]:
        """Deltas of all texts as they come, each text's in order, and a `TextDone` at the end of each."""
        return streaming.stream(self._pipeline, self._planner, self._planner.jobs(request))

    async def _text(self, job: Job) -> Translation:
        if not job.wanted:
            return as_it_was(job)
        outputs = await all_of([self._piece(job, str(n), text) for n, text in enumerate(job.wanted)])
        return assemble(job, outputs, check=not self._planner.forced_lengths)

    async def _piece(self, job: Job, part: str, text: str) -> Output:
        sequence = self._planner.sequence(job, part, text)
        completion = await self._pipeline.generate(sequence)
        if completion.reason == "length" and (again := self._planner.with_twice_the_room(sequence)):
            completion = await self._pipeline.generate(again)
        output = Output.of(completion)
        if self._planner.forced_lengths or guards.line_breaks_kept(text, output.text):
            return output
        return await self._line_by_line(job, part, text)

    async def _line_by_line(self, job: Job, part: str, text: str) -> Output:
        """Each line alone: a model that dropped or moved line breaks cannot do so with none in sight."""
        pieces = lines(Piece(text, translatable=True))
        wanted = [piece.text for piece in pieces if piece.translatable]
        outputs = await all_of([self._line(job, f"{part}.{n}", line) for n, line in enumerate(wanted)])
        joined = join(pieces, [output.text for output in outputs], job.source, job.request.target)
        return Output(joined, worst(outputs), used(outputs))

    async def _line(self, job: Job, part: str, line: str) -> Output:
        """One line; line breaks that the model puts into it are not the text's."""
        sequence = self._planner.sequence(job, part, line)
        output = Output.of(await self._pipeline.generate(sequence))
        return Output(" ".join(output.text.split()), output.reason, output.usage)
