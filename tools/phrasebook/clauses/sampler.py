"""Draws sentences from the frames, as patterns that the generator fills and renders like its own.

A sentence is held out by the hash of its English text: one in ten is never drawn for training. Sources may be written in
another register (plain Japanese, casual or formal Korean, English without contractions), targets never.
"""

from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.clauses import english, japanese, korean
from tools.phrasebook.clauses.frames import Frame, Library, english_sentence, library
from tools.phrasebook.clauses.lexicon import CANONICAL, Style, Unit
from tools.phrasebook.corpus import Pattern, parse
from tools.phrasebook.split import Split, sentence_held_out

_VARIANT_SHARE = 0.35
_EXPLICIT_SHARE = 0.3
_TRIES = 200


class Clauses:
    """A stream of sentences of one side of the split, deterministic by `rng`."""

    def __init__(self, split: Split, rng: Random, source: Library | None = None) -> None:
        self._held_out = split == "heldout"
        self._rng = rng
        self._library = source or library()
        self._weights = [frame.weight for frame in self._library.frames]

    def sample(self) -> Pattern:
        """One sentence. Its source-only variants are drawn with it."""
        for _ in range(_TRIES):
            frame = self._rng.choices(self._library.frames, self._weights)[0]
            pattern = self.fill(frame)
            if pattern.held_out == self._held_out:
                return pattern
        raise RuntimeError("no clause of this side of the split was found")

    def fill(self, frame: Frame) -> Pattern:
        """`frame` with units drawn for its slots, on either side of the split."""
        units = self._library.units(frame, self._rng)
        texts = {language: _canonical(frame, language, units) for language in LANGUAGES}
        sources = {language: self._source(frame, language, units, texts[language]) for language in LANGUAGES}
        return Pattern(
            topic="clauses",
            templates=tuple(parse(texts[language]) for language in LANGUAGES),
            droppable=tuple(_droppable(language, sources[language]) for language in LANGUAGES),
            sources=tuple(parse(sources[language]) for language in LANGUAGES),
            held_out=sentence_held_out(texts["en"]),
        )

    def _source(self, frame: Frame, language: str, units: dict[str, Unit], canonical: str) -> str:
        """What a user might write for it: mostly the canonical text."""
        rng = self._rng
        if rng.random() >= _VARIANT_SHARE:
            return canonical
        cell, *variants = frame.cells[language]
        if variants and rng.random() < 0.6:
            cell = rng.choice(variants)
        style = Style(plain=language == "ja" and rng.random() < 0.5, explicit=rng.random() < _EXPLICIT_SHARE)
        text = cell.fill(language, units, style)
        if language == "en":
            return english_sentence(english.expanded(text) if rng.random() < 0.7 else text)
        if language == "ja":
            return (japanese.plain(text) if style.plain else text) or canonical
        if language == "ko":
            register = korean.casual if rng.random() < 0.5 else korean.formal
            return register(text) or text
        return text


def _canonical(frame: Frame, language: str, units: dict[str, Unit]) -> str:
    text = frame.cells[language][0].fill(language, units, CANONICAL)
    return english_sentence(text) if language == "en" else text


def _droppable(language: str, text: str) -> bool:
    """Whether the sentence is the same without its final mark. Korean and plain Japanese questions are not."""
    if text[-1] in ".。":
        return True
    return language == "en" or text.endswith(("か？", "吗？", "呢？"))
