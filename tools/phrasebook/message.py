"""The nouns of generated text: a message in every language and what in it must be copied exactly."""

from dataclasses import dataclass

from dragoman.phrasebook import LANGUAGES

DIRECTIONS = tuple((source, target) for source in LANGUAGES for target in LANGUAGES if source != target)
"""Every (source language, target language)."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A stretch of text that every translation repeats letter by letter; `kind` is a slot kind, "tag" or "emoji"."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message by language. `texts` are canonical, and so the references; `sources` are what a user might type:
    the same, or written carelessly. `novel` is false if training may contain this very message."""

    texts: dict[str, str]
    sources: dict[str, str]
    copied: tuple[Copied, ...]
    sentences: int
    novel: bool
