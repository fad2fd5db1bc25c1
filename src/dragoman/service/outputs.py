"""After the model: what sequences gave becomes a text's translation, with a warning wherever it may not be whole."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, field, replace

from dragoman.service.planner import Job
from dragoman.text import checks
from dragoman.text.segments import join
from dragoman.types import (
    Completion,
    FinishReason,
    Sequence,
    Timings,
    Translation,
    TranslationWarning,
    Usage,
    WarningCode,
)

INCOMPLETE: dict[FinishReason, WarningCode] = {"length": checks.LENGTH_LIMIT, "repetition": checks.REPETITION}


@dataclass(frozen=True, slots=True)
class Output:
    """One piece's translation."""

    text: str
    reason: FinishReason
    usage: Usage
    timings: tuple[Timings, ...] = field(default=(), compare=False)
    retries: tuple[WarningCode, ...] = ()  # the checks because of which it was tried again

    @classmethod
    def of(cls, sequence: Sequence, completion: Completion, *retries: WarningCode) -> Output:
        """White space around a piece belongs to the text, not to the piece: what the model adds is dropped."""
        usage = Usage(0, completion.prompt_tokens, completion.completion_tokens, sequence.source_tokens)
        timings = (completion.timings,) if completion.timings else ()
        return cls(completion.text.strip(), completion.reason, usage, timings, retries)


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


def retried(outputs: Many[Output]) -> tuple[WarningCode, ...]:
    """Why pieces were tried again."""
    return tuple(guard for output in outputs for guard in output.retries)


def as_it_was(job: Job) -> Translation:
    """The answer for a text with nothing in it to translate."""
    found = (checks.warning(checks.LANGUAGE_UNDETERMINED),) if job.unsure else ()
    usage = Usage(characters=len(job.text))
    return _warned(Translation(job.text, job.source, job.detected, "unchanged", usage=usage), found)


def assemble(job: Job, outputs: Many[Output], *, check: bool = True) -> Translation:
    """The text put together again. `check` off: random weights, whose output no guard has anything to say about."""
    target = job.request.target
    text = join(job.pieces, [output.text for output in outputs], job.source, target)
    reason = worst(outputs)
    found = [checks.warning(INCOMPLETE[reason])] if reason in INCOMPLETE else []
    if check:
        checked = checks.TextChecks(job.source, target)
        for source, output in zip(job.wanted, outputs, strict=True):
            checked.add(source, output.text)
        found += [one for one in checked.warnings() if one not in found]
    usage = replace(used(outputs), characters=len(job.text))
    translation = Translation(
        text, job.source, job.detected, reason, usage=usage, retries=retried(outputs), timings=spent(outputs)
    )
    return _warned(translation, found)


def _warned(translation: Translation, found: Many[TranslationWarning]) -> Translation:
    return replace(translation, warnings=tuple(found))
