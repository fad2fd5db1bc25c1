"""A text's way through the model: detect, cut into pieces, prompt, submit all at once, check, put together.

Holds no queue and no state between calls; the engine schedules. Nothing is passed off as whole that is not: what ends for
want of room is tried once more with twice the room, and then marked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from dragoman import languages
from dragoman.errors import UnsupportedLanguage
from dragoman.pipelines.contract import Pipeline
from dragoman.prompts.encode import PromptEncoder
from dragoman.prompts.lengths import LengthTable
from dragoman.sequence import Completion, Delta, Sequence
from dragoman.service.together import all_of
from dragoman.text import guards
from dragoman.text.detect import Detector
from dragoman.text.segments import Piece, cut, join, lines
from dragoman.translation import FinishReason, TextDelta, TextDone, Translation, TranslationRequest, Usage

INCOMPLETE: dict[FinishReason, str] = {
    "length": "The output reached its length limit twice; the translation may be incomplete.",
    "repetition": "The model began to repeat itself and was stopped; the translation may be incomplete.",
}


@dataclass(frozen=True, slots=True)
class _Job:
    """One text, ready for the model."""

    index: int
    text: str
    source: str
    detected: bool
    request: TranslationRequest
    pieces: tuple[Piece, ...]

    @property
    def unchanged(self) -> bool:
        return not any(piece.translatable for piece in self.pieces)

    def sequence_id(self, part: str) -> str:
        return f"{self.request.request_id}.{self.index}.{part}"


@dataclass(frozen=True, slots=True)
class _Output:
    """One piece's translation."""

    text: str
    reason: FinishReason
    usage: Usage


class Translator:
    """Translates with one model, over any pipeline. Usable once the pipeline has started."""

    def __init__(
        self,
        pipeline: Pipeline,
        prompts: PromptEncoder,
        lengths: LengthTable,
        *,
        forced_lengths: bool = False,
    ) -> None:
        self._pipeline = pipeline
        self._prompts = prompts
        self._lengths = lengths
        self._forced_lengths = forced_lengths
        self.served = tuple(prompts.profile.languages)
        self._detector = Detector(self.served)

    # ---- a call

    async def translate(self, request: TranslationRequest) -> list[Translation]:
        """All texts, concurrently in the engine. Raises `UnsupportedLanguage` before any work, or the engine's errors."""
        return await all_of([self._translate(job) for job in self._jobs(request)])

    async def stream(self, request: TranslationRequest) -> AsyncIterator[TextDelta | TextDone]:
        """Deltas of all texts as they come, each text's in order, and a `TextDone` at the end of each."""
        jobs = self._jobs(request)
        events: asyncio.Queue[TextDelta | TextDone] = asyncio.Queue()
        work = asyncio.create_task(all_of([self._stream_job(job, events) for job in jobs]))
        done = 0
        try:
            while done < len(jobs):
                event = await _next_event(events, work)
                done += isinstance(event, TextDone)
                yield event
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    def served_tag(self, tag: str, param: str) -> str:
        """The model's own tag for a language that a caller named. Raises `UnsupportedLanguage`."""
        found = languages.match(languages.normalise(tag), self.served)
        if found is None:
            raise UnsupportedLanguage(
                f"the model does not serve {tag!r}; it serves {', '.join(self.served)}", param=param
            )
        return found

    # ---- before the model

    def _jobs(self, request: TranslationRequest) -> list[_Job]:
        target = self.served_tag(request.target, "target")
        source = self.served_tag(request.source, "source") if request.source else None
        request = replace(request, target=target, source=source)
        return [self._job(index, text, request) for index, text in enumerate(request.texts)]

    def _job(self, index: int, text: str, request: TranslationRequest) -> _Job:
        source = request.source or self._detector.detect(text).language
        detected = request.source is None
        if source is None or source == request.target:
            return _Job(index, text, source or "und", detected, request, ())
        if not self._prompts.profile.serves(source, request.target):
            raise UnsupportedLanguage(f"the model does not translate from {source} to {request.target}", param="target")
        pieces = cut(text, source, self._budget(source, request), self._prompts.count)
        return _Job(index, text, source, detected, request, pieces)

    def _budget(self, source: str, request: TranslationRequest) -> int:
        """Source tokens that fit a prompt together with the output they may need."""
        window = self._pipeline.max_model_len - self._prompts.overhead(source, request.target, request.context)
        per_token = 1 + 2 * self._lengths.ratio(source, request.target)
        budget = int((window - self._lengths.margin) / per_token)
        return max(min(budget, self._prompts.profile.max_source_tokens or budget), 16)

    # ---- the model

    async def _translate(self, job: _Job) -> Translation:
        if job.unchanged:
            return _as_it_was(job)
        wanted = [piece for piece in job.pieces if piece.translatable]
        outputs = await all_of([self._piece(job, str(n), piece.text) for n, piece in enumerate(wanted)])
        return self._assemble(job, outputs)

    async def _piece(self, job: _Job, part: str, text: str) -> _Output:
        sequence, source_tokens = self._sequence(job, part, text)
        completion = await self._pipeline.generate(sequence)
        if completion.reason == "length" and not sequence.forced:
            completion = await self._with_twice_the_room(sequence, completion)
        output = _output(text, completion)
        if "\n" in text and not self._forced_lengths and not guards.line_breaks_kept(text, output.text):
            return await self._line_by_line(job, part, text)
        return output

    async def _with_twice_the_room(self, sequence: Sequence, first: Completion) -> Completion:
        room = self._pipeline.max_model_len - len(sequence.prompt_token_ids)
        more = min(2 * sequence.max_tokens, room)
        if more <= sequence.max_tokens:
            return first
        return await self._pipeline.generate(replace(sequence, id=f"{sequence.id}.again", max_tokens=more))

    async def _line_by_line(self, job: _Job, part: str, text: str) -> _Output:
        """Each line alone: a model that dropped or moved line breaks cannot do so with none in sight."""
        pieces = lines(text)
        wanted = [piece.text for piece in pieces if piece.translatable]
        outputs = await all_of([self._piece(job, f"{part}.{n}", line) for n, line in enumerate(wanted)])
        joined = join(pieces, [one.text for one in outputs], job.source, job.request.target)
        usage = sum((one.usage for one in outputs), Usage())
        return _Output(joined, _worst([one.reason for one in outputs]), usage)

    def _sequence(self, job: _Job, part: str, text: str, *, room_factor: int = 1) -> tuple[Sequence, int]:
        request = job.request
        prompt = self._prompts.encode(text, job.source, request.target, request.context)
        room = self._pipeline.max_model_len - len(prompt.token_ids)
        if self._forced_lengths:
            max_tokens = self._forced(job, prompt.source_tokens, room)
        else:
            bound = self._lengths.max_tokens(job.source, request.target, prompt.source_tokens, room)
            max_tokens = min(bound * room_factor, room)
        return (
            Sequence(
                job.sequence_id(part),
                prompt.token_ids,
                max(max_tokens, 1),
                self._prompts.sampling,
                forced=self._forced_lengths,
            ),
            prompt.source_tokens,
        )

    def _forced(self, job: _Job, source_tokens: int, room: int) -> int:
        """With dummy weights: the caller's length, shared among pieces by size; else what the language pair would take."""
        if job.request.forced_output_tokens is None:
            return min(round(source_tokens * self._lengths.ratio(job.source, job.request.target)), room)
        total = sum(len(piece.text) for piece in job.pieces if piece.translatable)
        pieces = sum(piece.translatable for piece in job.pieces)
        wanted = job.request.forced_output_tokens[job.index]
        return min(wanted if pieces == 1 else round(wanted * source_tokens / max(total, 1)), room)

    # ---- streaming

    async def _stream_job(self, job: _Job, events: asyncio.Queue[TextDelta | TextDone]) -> None:
        if job.unchanged:
            events.put_nowait(TextDone(job.index, _as_it_was(job)))
            return
        wanted = [piece for piece in job.pieces if piece.translatable]
        turns = [asyncio.Event() for _ in range(len(wanted) + 1)]
        turns[0].set()
        literals = _literals(job)
        outputs = await all_of(
            [
                self._stream_piece(job, n, piece.text, literals[n], turns[n], turns[n + 1], events)
                for n, piece in enumerate(wanted)
            ]
        )
        if literals[-1]:
            events.put_nowait(TextDelta(job.index, literals[-1]))
        events.put_nowait(TextDone(job.index, self._assemble(job, outputs)))

    async def _stream_piece(
        self,
        job: _Job,
        number: int,
        text: str,
        before: str,
        turn: asyncio.Event,
        next_turn: asyncio.Event,
        events: asyncio.Queue[TextDelta | TextDone],
    ) -> _Output:
        """Decode at once; speak when those before have spoken. What came earlier is said in one delta."""
        # A delta cannot be taken back, so a stream cannot be tried again: it gets twice the room from the start.
        sequence, _ = self._sequence(job, str(number), text, room_factor=2)
        held = before
        async for item in self._pipeline.stream(sequence):
            if isinstance(item, Completion):
                break
            held += item.text
            if turn.is_set() and held:
                events.put_nowait(TextDelta(job.index, held))
                held = ""
        else:  # pragma: no cover - the contract promises a Completion
            raise AssertionError("a stream ended without a completion")
        await turn.wait()
        if held:
            events.put_nowait(TextDelta(job.index, held))
        next_turn.set()
        return _output(text, item)

    # ---- after the model

    def _assemble(self, job: _Job, outputs: list[_Output]) -> Translation:
        target = job.request.target
        text = join(job.pieces, [output.text for output in outputs], job.source, target)
        reason = _worst([output.reason for output in outputs])
        warnings = [INCOMPLETE[reason]] if reason in INCOMPLETE else []
        if not self._forced_lengths:
            warnings += guards.warnings(job.text, text, job.source, target)
        usage = replace(sum((output.usage for output in outputs), Usage()), characters=len(job.text))
        return Translation(text, job.source, job.detected, reason, tuple(warnings), usage)


async def _next_event(
    events: asyncio.Queue[TextDelta | TextDone], work: asyncio.Task[list[None]]
) -> TextDelta | TextDone:
    """The next event, or the error that the work ended with."""
    getter = asyncio.create_task(events.get())
    try:
        await asyncio.wait({getter, work}, return_when=asyncio.FIRST_COMPLETED)
        if not getter.done() and work.done():
            work.result()  # raises what went wrong
        return await getter
    finally:
        getter.cancel()


def _as_it_was(job: _Job) -> Translation:
    return Translation(job.text, job.source, job.detected, "unchanged", usage=Usage(characters=len(job.text)))


def _output(text: str, completion: Completion) -> _Output:
    usage = Usage(len(text), completion.prompt_tokens, completion.completion_tokens)
    return _Output(completion.text.strip(), completion.reason, usage)


def _worst(reasons: list[FinishReason]) -> FinishReason:
    """The reason that a reader must know of."""
    for reason in ("repetition", "length"):
        if reason in reasons:
            return reason
    return "stop"
