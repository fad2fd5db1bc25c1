"""After the model: what sequences gave becomes a text's translation, with a warning wherever it may not be whole."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field, replace

from dragoman.sequence import Completion, Sequence, Timings
from dragoman.service.jobs import Job
from dragoman.text import guards
from dragoman.text.segments import join
from dragoman.translation import FinishReason, Translation, Usage

INCOMPLETE: dict[FinishReason, str] = {
    "length": "The output reached its length limit twice; the translation may be incomplete.",
    "repetition": "The model began to repeat itself and was stopped; the translation may be incomplete.",
}
UNSURE = "The source language could not be detected; the text is returned as it is. Name it with `source`."


@dataclass(frozen=True, slots=True)
class Output:
    """One piece's translation."""

    text: str
    reason: FinishReason
    usage: Usage
    timings: tuple[Timings, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, sequence: Sequence, completion: Completion) -> Output:
        """White space around a piece belongs to the text, not to the piece: what the model adds is dropped."""
        usage = Usage(0, completion.prompt_tokens, completion.completion_tokens, sequence.source_tokens)
        timings = (completion.timings,) if completion.timings else ()
        return cls(completion.text.strip(), completion.reason, usage, timings)


def worst(outputs: Many[Output]) -> FinishReason:
    """The reason that a reader must know of."""
    reasons = {output.reason for output in outputs}
    return "repetition" if "repetition" in reasons else "length" if "length" in reasons else "stop"


def used(outputs: Many[Output]) -> Usage:
    """What the pieces cost together."""
    return sum((output.usage for output in outputs), Usage())


def spent(outputs: Many[Output]) -> tuple[Timings, ...]:
    """How the engine spent its time on the pieces."""
    return tuple(timings for output in outputs for timings in output.timings)


def as_it_was(job: Job) -> Translation:
    """The answer for a text with nothing in it to translate."""
    warnings = (UNSURE,) if job.unsure else ()
    return Translation(job.text, job.source, job.detected, "unchanged", warnings, Usage(characters=len(job.text)))


def assemble(job: Job, outputs: Many[Output], *, check: bool = True) -> Translation:
    """The text put together again. `check` off: random weights, whose output no guard has anything to say about."""
    target = job.request.target
    text = join(job.pieces, [output.text for output in outputs], job.source, target)
    reason = worst(outputs)
    warnings = (INCOMPLETE[reason],) if reason in INCOMPLETE else ()
    if check:
        warnings += tuple(guards.warnings(job.text, text, job.source, target))
    usage = replace(used(outputs), characters=len(job.text))
    return Translation(text, job.source, job.detected, reason, warnings, usage, spent(outputs))
