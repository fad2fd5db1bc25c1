"""The training stream's messages: patterns, clauses, hand-written lines and words, alone and together.

`Generator` (patterns with copied values) teaches to copy; `clauses` how words combine; the hand-written rows what people
type. A message has one to ten sentences. Sources are typed as people type: without capitals or punctuation, with a slip of
the finger; references never are. Some messages carry marks, `<g1>…</g1>` and `<x1/>`, as the server sends them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook import lines
from tools.phrasebook.corpus import Corpus
from tools.phrasebook.generator import Generator
from tools.phrasebook.lines import Lines, Row
from tools.phrasebook.render import Copied, Message
from tools.phrasebook.substitution import Substitution
from tools.phrasebook.values import stock


@dataclass(frozen=True, slots=True)
class Shares:
    """How often a sentence is drawn from each kind of data. `typed` is of the lines that people type first."""

    patterns: float
    clauses: float
    lines: float
    typed: float
    substituted: float
    words: float


ALONE = Shares(patterns=0.09, clauses=0.20, lines=0.19, typed=0.22, substituted=0.08, words=0.22)
"""Of messages of one sentence. Words are many and stand nowhere else: a smaller share leaves each hardly seen."""
TOGETHER = Shares(patterns=0.27, clauses=0.25, lines=0.28, typed=0.09, substituted=0.11, words=0.0)
"""Of messages of several. A word among sentences is read as one more sentence, which no text has."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence in every language, by the order of `LANGUAGES`. `words` are equal stretches that a mark can go around.

    A source is empty where the text means something else more often, and must not be read.
    """

    texts: tuple[str, ...]
    sources: tuple[str, ...]
    copied: tuple[Copied, ...] = ()
    words: tuple[str, ...] = ()
    is_noisy: bool = False  # its sources are already typed in a hurry


@dataclass(frozen=True, slots=True)
class Noise:
    """How a source is typed, each with its probability."""

    lower: float = 0.12
    capital: float = 0.04
    bare: float = 0.18  # without final punctuation
    half_width: float = 0.1
    slip: float = 0.05  # two letters swapped, one left out or doubled
    upper: float = 0.01
    exclaimed: float = 0.02
    spaces: float = 0.04  # Korean without spaces


SHORT = Noise(lower=0.3, capital=0.25, bare=0.45, slip=0.02, upper=0.06, exclaimed=0.15)
"""Of words and short phrases, which are mostly typed bare."""
_SHORT_WORDS = 3
_SHORT_CHARACTERS = 8

_Kinds = tuple[list[Callable[[], Sentence]], list[float]]
_LENGTHS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8, 10)
_MARK_SHARE = 0.08
_EMOJI_SHARE = 0.05
_NEWLINE_SHARE = 0.1
_ENDS = ".?!。？！…"
_SPACED = ("en", "ko")
_HALF_WIDTH = str.maketrans("？！，。", "?!,.")
_PLAIN_WORD = re.compile(r"(?<![\w@/<.{%$&-])[a-z]{4,}(?![\w@/:>}-])")


@dataclass
class Mixture:
    """Messages of the training side. Deterministic by `seed`; not shared between threads."""

    seed: int
    corpus: Corpus
    rows: Lines
    alone: Shares = ALONE
    together: Shares = TOGETHER
    noise: Noise = field(default_factory=Noise)
    short: Noise = SHORT
    typed_first: float = 0.0  # share of messages that are one of the lines typed first, beside those drawn otherwise

    def __post_init__(self) -> None:
        self._rng = Random(f"mixture {self.seed}")
        self._patterns = Generator("train", self.seed, self.corpus)
        self._substitution = Substitution(self.rows.lines, self.rows.words)
        self._clauses = Generator("train", self.seed, self.corpus, clause_share=1.0)
        self._ambiguous = lines.ambiguous_when_bare(self.rows.rows)
        self._first = [row for row in self.rows.lines if row.is_typed_first]
        self._other = [row for row in self.rows.lines if not row.is_typed_first]
        # A row of many wordings is drawn more often: each of them is to be read.
        self._first_weights = list(accumulate(max(map(len, row.sources)) ** 0.5 for row in self._first))
        self._alone, self._together = self._kinds(self.alone), self._kinds(self.together)

    def _kinds(self, shares: Shares) -> _Kinds:
        """What draws a sentence of each kind that there is data for, and its share."""
        shared = (
            (self._pattern, shares.patterns),
            (self._clause, shares.clauses),
            (self._line, shares.lines if self._other else 0.0),
            (self._typed_first, shares.typed if self._first else 0.0),
            (self._substituted, shares.substituted if self._substitution.slots else 0.0),
            (self._word, shares.words if self.rows.words else 0.0),
        )
        return [draw for draw, _ in shared], [share for _, share in shared]

    def message(self) -> Message:
        """The next message. `sources` lacks the languages in which a part of it must not be read."""
        if self.typed_first and self._first and self._rng.random() < self.typed_first:
            return self._composed([self._typed_first()])
        count = self._rng.choice(_LENGTHS)
        draws, shares = self._alone if count == 1 else self._together
        return self._composed([draw() for draw in self._rng.choices(draws, shares, k=count)])

    # ---- sentences

    def _pattern(self) -> Sentence:
        return self._generated(self._patterns)

    def _clause(self) -> Sentence:
        return self._generated(self._clauses)

    def _generated(self, generator: Generator) -> Sentence:
        message = generator.sentence()
        return Sentence(
            tuple(message.texts[language] for language in LANGUAGES),
            tuple(message.sources[language] for language in LANGUAGES),
            message.copied,
            is_noisy=True,
        )

    def _line(self) -> Sentence:
        return self._of(self._rng.choice(self._other))

    def _typed_first(self) -> Sentence:
        return self._of(self._rng.choices(self._first, cum_weights=self._first_weights)[0])

    def _word(self) -> Sentence:
        return self._of(self._rng.choice(self.rows.words))

    def _of(self, row: Row) -> Sentence:
        return Sentence(row.standard, tuple(self._rng.choice(choices) if choices else "" for choices in row.sources))

    def _substituted(self) -> Sentence:
        made = self._substitution.draw(self._rng)
        return Sentence(made.texts, made.texts, words=made.words)

    # ---- a message of them

    def _composed(self, sentences: list[Sentence]) -> Message:
        rng = self._rng
        if len(sentences) > 1 and not all(_ends(sentence) for sentence in sentences):
            joint = "\n"
        else:
            joint = rng.choice(("\n", "\n\n")) if rng.random() < _NEWLINE_SHARE else ""
        emoji = stock().pick(rng, "emoji") if rng.random() < _EMOJI_SHARE else ""
        marks = _Marks(rng, len(sentences)) if rng.random() < _MARK_SHARE else None
        texts: dict[str, str] = {}
        sources: dict[str, str] = {}
        for index, language in enumerate(LANGUAGES):
            tail = f" {emoji}" if emoji and language in _SPACED else emoji
            between = joint or (" " if language in _SPACED else "")
            written = [sentence.texts[index] for sentence in sentences]
            read = [sentence.sources[index] for sentence in sentences]
            if marks is None:
                typed = [self._typed(source, sentence, index) for source, sentence in zip(read, sentences, strict=True)]
            else:
                typed = marks.put(read, sentences, index)
                written = marks.put(written, sentences, index)
            texts[language] = between.join(written) + tail
            if all(read):
                sources[language] = between.join(typed) + tail
        copied = [copy for sentence in sentences for copy in sentence.copied]
        if emoji:
            copied.append(Copied("emoji", emoji))
        return Message(texts, sources, tuple(copied), len(sentences), novel=False)

    def _typed(self, source: str, sentence: Sentence, index: int) -> str:
        """`source` as a user might type it. Only wordings that stay clear lose their punctuation."""
        rng, language = self._rng, LANGUAGES[index]
        noise = self.short if _is_short(source, language) else self.noise
        if "<" in source:
            return source
        if sentence.is_noisy:
            return slip(source, rng) if language == "en" and rng.random() < noise.slip else source
        if rng.random() < noise.bare and self._is_clear_when_bare(source, language):
            source = source.rstrip(_ENDS) or source
        elif rng.random() < noise.exclaimed and source.endswith((".", "。")):
            source = source[:-1] + rng.choice(("!", "!!", "...", "…"))
        if language == "en":
            return self._typed_english(source, noise)
        if language == "ko":
            return source.replace(" ", "") if rng.random() < noise.spaces else source
        return source.translate(_HALF_WIDTH) if rng.random() < noise.half_width else source

    def _is_clear_when_bare(self, source: str, language: str) -> bool:
        """A question keeps its mark where its words alone say something else ("Okay?" and "Okay.")."""
        return not lines.key(source).endswith("?") or (language, lines.bare(source)) not in self._ambiguous

    def _typed_english(self, source: str, noise: Noise) -> str:
        rng, drawn = self._rng, self._rng.random()
        if drawn < noise.lower:
            source = source.lower()
        elif drawn < noise.lower + noise.capital:
            source = source[:1].upper() + source[1:]
        elif drawn < noise.lower + noise.capital + noise.upper:
            source = source.upper()
        if rng.random() < noise.slip:
            source = slip(source, rng)
        return source.replace("'", "’") if rng.random() < noise.half_width else source


def _is_short(source: str, language: str) -> bool:
    return source.count(" ") < _SHORT_WORDS if language == "en" else len(source) <= _SHORT_CHARACTERS


def _ends(sentence: Sentence) -> bool:
    return all(text.endswith(tuple(_ENDS)) for text in sentence.texts)


def slip(text: str, rng: Random) -> str:
    """`text` with one plain English word mistyped: two letters swapped, one left out, or one doubled."""
    words = list(_PLAIN_WORD.finditer(text))
    if not words:
        return text
    word = rng.choice(words)
    place = rng.randint(word.start(), word.end() - 2)
    kind = rng.randrange(3)
    if kind == 0 and text[place] != text[place + 1]:
        return text[:place] + text[place + 1] + text[place] + text[place + 2 :]
    return text[:place] + text[place + 1 :] if kind < 2 else text[:place] + text[place] + text[place:]


class _Marks:
    """One or two marks in a message, at the same places in every language and in sources and references."""

    def __init__(self, rng: Random, sentences: int) -> None:
        self._places = [(rng.randrange(sentences), rng.randrange(4)) for _ in range(rng.choice((1, 1, 2)))]

    def put(self, texts: list[str], sentences: list[Sentence], index: int) -> list[str]:
        """The sentences with marks: around a word or a sentence, before or after one."""
        marked = list(texts)
        for number, (place, kind) in enumerate(self._places, 1):
            text, words = marked[place], sentences[place].words
            if kind == 0 and words and all(map(_once, sentences[place].texts, words)) and _once(text, words[index]):
                marked[place] = text.replace(words[index], f"<g{number}>{words[index]}</g{number}>")
            elif kind <= 1:
                marked[place] = f"<g{number}>{text}</g{number}>"
            else:
                marked[place] = f"<x{number}/>{text}" if kind == 2 else f"{text}<x{number}/>"
        return marked


def _once(text: str, word: str) -> bool:
    return text.count(word) == 1


_MARK = re.compile(r"<(/?)([gx])(\d+)(/?)>")


def renumbered(source: str, target: str) -> tuple[str, str]:
    """Both with their marks numbered from 1 in the order of the source, as the server numbers them."""
    if "<" not in source:
        return source, target
    order = dict.fromkeys(match[3] for match in _MARK.finditer(source))
    numbers = {old: str(new) for new, old in enumerate(order, 1)}

    def renumber(text: str) -> str:
        return _MARK.sub(lambda m: f"<{m[1]}{m[2]}{numbers.get(m[3], m[3])}{m[4]}>", text)

    return renumber(source), renumber(target)
