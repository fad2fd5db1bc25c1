"""The engine's nouns: what is handed to an engine and what comes back, whatever runs it. Knows no language and no vLLM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.sampling import Sampling

CompletionReason = Literal["stop", "length", "repetition"]


@dataclass(frozen=True, slots=True)
class Sequence:
    """One prompt for the engine. `max_tokens` bounds the output; `forced` makes it exactly that long, ignoring EOS."""

    id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    sampling: Sampling = field(default_factory=Sampling)
    forced: bool = False
    source_tokens: int = 0  # of the prompt, those that are the user's text; the engine does not look
    priority: int = 0  # lower goes first, where the engine schedules by priority


@dataclass(frozen=True, slots=True)
class Timings:
    """How the engine spent its time on one sequence, in seconds of the engine's clock. None: the engine does not tell."""

    queue_s: float  # from submission to the first step that it took part in
    prefill_s: float | None = None  # from there to its first token
    decode_s: float | None = None  # from the first token to the last

    @property
    def ttft_s(self) -> float | None:
        """Time to first token, from submission."""
        return None if self.prefill_s is None else self.queue_s + self.prefill_s


@dataclass(frozen=True, slots=True)
class Delta:
    """The next piece of a streamed sequence's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished sequence. `text` is the whole output, streamed or not."""

    text: str
    reason: CompletionReason
    prompt_tokens: int
    completion_tokens: int
    timings: Timings | None = field(default=None, compare=False)  # two equal answers may take different times
