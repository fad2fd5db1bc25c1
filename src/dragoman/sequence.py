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
    priority: int = 0  # lower goes first, where the engine schedules by priority


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
