"""The domain's nouns: what is asked for and what comes back, free of any wire format and of any engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dragoman.sequence import Timings

FinishReason = Literal["stop", "length", "repetition", "unchanged"]
"""Why a translation ended. `stop`: the model said it was done. `length`, `repetition`: it did not, and the text may be
incomplete. `unchanged`: there was nothing to translate (no letters, or the target is the source's language)."""


@dataclass(frozen=True, slots=True)
class TranslationRequest:
    """One call: texts that share a target and options. Languages are normalised tags (`dragoman.languages`)."""

    texts: tuple[str, ...]
    target: str
    source: str | None = None  # None: detected for each text
    context: str | None = None  # said around the text; informs the translation, is not translated
    forced_output_tokens: tuple[int, ...] | None = (
        None  # one per text; only for dummy weights, whose lengths mean nothing
    )
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a translation cost. Characters are those of the source."""

    characters: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    source_tokens: int = 0  # of the prompt tokens, those of the text itself

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.characters + other.characters,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.source_tokens + other.source_tokens,
        )


@dataclass(frozen=True, slots=True)
class Translation:
    """One text's result. `warnings` are for the caller's user: each says what may be wrong with `text`."""

    text: str
    source: str
    detected: bool
    finish_reason: FinishReason
    warnings: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    checks: tuple[str, ...] = ()  # the check that each of `warnings` is from
    retries: tuple[str, ...] = ()  # the check that each second try of a piece is owed to
    # One for each piece that the engine translated, where it tells.
    timings: tuple[Timings, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text `index`'s translation, in order; the pieces' concatenation is the translation's text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class TextDone:
    """Text `index` is whole."""

    index: int
    translation: Translation
