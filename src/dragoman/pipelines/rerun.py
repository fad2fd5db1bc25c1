"""What a second run means for one sequence: how often it may die with its engine, and what of a stream was said before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import monotonic

from dragoman.errors import EngineDead, EngineFailed
from dragoman.types import Completion, Delta, Sequence

_CRASHES_SURVIVED = 1


@dataclass(eq=False, slots=True)
class Fate:
    """One sequence through the engine's lives."""

    submitted_s: float = field(default_factory=monotonic)
    waited_s: float = 0.0  # until the present life took it
    crashes: int = 0  # of engines, with this sequence in flight

    def bear(self, death: EngineDead) -> None:
        """One more death. Raises `EngineDead` when it is one too many."""
        self.crashes += 1
        if self.crashes > _CRASHES_SURVIVED:
            raise EngineDead("the engine died with this sequence in flight, as it had before; others go on") from death

    def told(self, completion: Completion) -> Completion:
        """The completion, with what it lost to deaths counted as waiting."""
        timings = completion.timings
        if timings is None or not self.waited_s:
            return completion
        return replace(completion, timings=replace(timings, queue_s=timings.queue_s + self.waited_s))


@dataclass(eq=False, slots=True)
class Speech:
    """What a stream has given its caller, who cannot be asked to give it back, and what the present run says.

    Greedy decoding says the same again, but for near ties between tokens, which another batch may break the other way.
    """

    sequence: Sequence
    given: str = ""
    run: str = ""

    def begin(self) -> None:
        """A run begins. Raises `EngineFailed` when it cannot be expected to repeat what was given."""
        if self.given and self.sequence.sampling.temperature > 0:
            raise EngineFailed("the engine died in the middle of this stream, which is sampled: send the text again")
        self.run = ""

    def heard(self, delta: Delta) -> Delta | None:
        """What is new in it. Raises `EngineFailed` when the run departs from what was given."""
        self.run += delta.text
        if self.run[: len(self.given)] != self.given[: len(self.run)]:
            raise self._departed()
        fresh = self.run[len(self.given) :]
        self.given += fresh
        return Delta(fresh) if fresh else None

    def ended(self, whole: Completion) -> Completion:
        """The run is whole. Raises `EngineFailed` when it ends before all that was given."""
        if not whole.text.startswith(self.given):
            raise self._departed()
        return whole

    def _departed(self) -> EngineFailed:
        return EngineFailed(
            "the engine died in the middle of this stream, and its new run differs: send the text again"
        )
