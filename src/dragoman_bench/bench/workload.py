"""Workloads: texts with their languages and lengths, generated (`uniform`, `variable`) or read from a file.

A workload returns the items of a measurement. With the same seed all measurements have the same lengths, pairs and order, so
that load levels can be compared. A generated workload has different texts for each measurement, so that neither a translation
memory nor a prefix cache answers instead of the engine. The texts of a file are always the same.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, resources
from math import exp, log
from pathlib import Path
from random import Random
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import first_fault, read_text

TokensOf = Callable[[str], int]
LANGUAGES = ("en", "ja", "ko", "zh")
"""Languages of the sentences, in the order of the file."""
_DATA = resources.files("dragoman") / "phrasebook"  # data alone: nothing of the server is imported
_TRIES = 100
_AT_HAND = 24  # sentences to choose the best fitting one from
WARMUP_VARIATION = 1_000_000
"""Variations of warm-ups begin here: they are other texts than those measured, with which they must not fill the caches."""
_CACHED_WARMUP_TEXTS = 100
_SPACED = frozenset({"en", "ko"})


class Texts(Protocol):
    """Generates texts of about a given length, in `languages`."""

    @property
    def languages(self) -> tuple[str, ...]: ...

    def make(self, language: str, tokens: int) -> str: ...


class PhrasebookTexts:
    """Generates messages on which the phrasebook's model was not trained; the same seed gives the same messages.

    Every sentence is used once before any is used again.
    """

    def __init__(self, seed: int, tokens_of: TokensOf) -> None:
        self.languages = LANGUAGES
        self._random = Random(seed)
        self._tokens_of = tokens_of
        self._at_hand: dict[str, list[tuple[int, str]]] = {}
        self._unused: dict[str, list[str]] = {}
        self._made: set[str] = set()

    def make(self, language: str, tokens: int) -> str:
        """Make a text of at least one sentence; add sentences while the length gets closer to `tokens`. No text twice."""
        text = ""
        for _ in range(_TRIES):  # short sentences with nothing to vary come up again
            text = self._text(language, tokens)
            if text not in self._made:
                break
        self._made.add(text)
        return text

    def _text(self, language: str, missing: int) -> str:
        chosen: list[str] = []
        while True:
            at_hand = self._sentences_at_hand(language)
            average = sum(size for size, _ in at_hand) / len(at_hand)
            if missing > 2 * average:  # any, as long as much is missing; the closest fit for the end
                place = self._random.randrange(len(at_hand))
            else:
                place = min(range(len(at_hand)), key=lambda place: abs(missing - at_hand[place][0]))
            size, sentence = at_hand[place]
            if chosen and abs(missing - size) >= abs(missing):
                return (" " if language in _SPACED else "").join(chosen)
            del at_hand[place]
            chosen.append(sentence)
            missing -= size

    def _sentences_at_hand(self, language: str) -> list[tuple[int, str]]:
        at_hand = self._at_hand.setdefault(language, [])
        unused = self._unused.setdefault(language, [])
        while len(at_hand) < _AT_HAND:
            if not unused:
                unused.extend(_sentences()[language])
                self._random.shuffle(unused)
            sentence = unused.pop()
            at_hand.append((self._tokens_of(sentence), sentence))
        return at_hand


@cache
def _sentences() -> dict[str, list[str]]:
    with (_DATA / "sentences.jsonl.gz").open("rb") as packed, gzip.open(packed, "rt", encoding="utf-8") as lines:
        aligned = [json.loads(line) for line in lines]
    return {language: [texts[index] for texts in aligned] for index, language in enumerate(LANGUAGES)}


def token_counter(tokenizer: Path | None = None) -> tuple[TokensOf, str]:
    """Return a token counter and its name for the conditions: of the given tokenizer.json, else of the phrasebook.

    Raises ConfigError if the file is not a tokenizer.
    """
    path = tokenizer or Path(str(_DATA / "weights" / "tokenizer.json"))
    library = import_module("tokenizers")  # loaded only where tokens are counted
    try:
        loaded = library.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception for every fault of the file
        raise ConfigError(f"cannot load the tokenizer {path}: {error}", param="tokenizer") from error
    name = "phrasebook tokenizer" if tokenizer is None else path.name

    def tokens_of(text: str) -> int:
        return len(loaded.encode(text, add_special_tokens=False).ids)

    return tokens_of, name


SUBSTITUTE = "en"
"""The language of texts that are generated for one in which none can be."""
_TAG = r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*"
_PAIR = re.compile(rf"(?:(auto|[A-Za-z]{{2,3}})-([A-Za-z]{{2,3}})|({_TAG}|auto)>({_TAG}))(?::(\d*\.?\d+))?")


@dataclass(frozen=True, slots=True)
class Pair:
    """A direction and its weight in a mix; `source` None: the server detects it."""

    source: str | None
    target: str
    weight: float = 1.0

    @property
    def label(self) -> str:
        return f"{self.source or 'auto'}-{self.target}"


def parse_pairs(text: str) -> tuple[Pair, ...]:
    """Parse `source-target[:weight],...`, as in `en-ja:3,zh-en:1`; write tags with regions as `zh-Hant>en`.

    Raises ConfigError.
    """
    pairs: list[Pair] = []
    for term in (term.strip() for term in text.split(",") if term.strip()):
        match = _PAIR.fullmatch(term)
        source, target, weight = (match[1] or match[3], match[2] or match[4], match[5]) if match else ("", "", "")
        if source == target or float(weight or 1) <= 0:
            message = (
                f"language pair {term!r} is not like en-ja:3 (or zh-Hant>en:3): two languages and a weight above 0"
            )
            raise ConfigError(message, param="pairs")
        pairs.append(Pair(None if source == "auto" else source, target, float(weight or 1)))
    if not pairs:
        raise ConfigError("no language pairs: specify for example en-ja:3,zh-en:1", param="pairs")
    return tuple(pairs)


def choose(pairs: tuple[Pair, ...], random: Random) -> Pair:
    """Choose a pair by weight."""
    return random.choices(pairs, weights=[pair.weight for pair in pairs])[0]


def describe(pairs: tuple[Pair, ...]) -> str:
    """Format pairs as text."""
    return ",".join(f"{pair.label}:{pair.weight:g}" for pair in pairs)


@dataclass(frozen=True, slots=True)
class Item:
    """A text to translate. `source_tokens` is measured; `wanted_tokens` is the length that the generator aimed at."""

    text: str
    source: str | None
    target: str
    source_tokens: int
    wanted_tokens: int | None = None
    output_tokens: int | None = None  # forced: with dummy weights the model's own lengths mean nothing
    at_s: float | None = None  # traces only

    @property
    def pair(self) -> tuple[str | None, str]:
        return self.source, self.target


class Workload(Protocol):
    """A workload. `items` returns `count` items for the measurement `variation`; the same ones when called again."""

    @property
    def description(self) -> str: ...

    @property
    def size(self) -> int | None:
        """The number of items before they repeat; None: they do not repeat."""
        ...

    def items(self, count: int, variation: int) -> tuple[Item, ...]: ...

    def samples(self) -> tuple[Item, ...]:
        """Return an item of each language pair."""
        ...


@dataclass(frozen=True, slots=True)
class OutputRatio:
    """Forced output lengths: source tokens times a ratio from a uniform distribution over `low..high`."""

    low: float
    high: float

    def draw(self, source_tokens: int, random: Random) -> int:
        return max(1, round(source_tokens * random.uniform(self.low, self.high)))


@dataclass(frozen=True, slots=True)
class GeneratedWorkload:
    """Generated texts whose lengths have a log-uniform distribution over `low..high` tokens: as many of 10 to 20 as of 100 to
    200, as in messages. `low == high` is the uniform workload."""

    name: str
    low: int
    high: int
    pairs: tuple[Pair, ...]
    texts: Callable[[int], Texts]  # by seed
    tokens_of: TokensOf
    tokens_are: str
    seed: int = 0
    ratio: OutputRatio | None = None

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ConfigError(f"token lengths {self.low}..{self.high} are not a range", param="tokens")

    @property
    def description(self) -> str:
        lengths = f"{self.low}" if self.low == self.high else f"{self.low}..{self.high}"
        forced = f", outputs forced to {self.ratio.low:g}..{self.ratio.high:g} × source" if self.ratio else ""
        return f"{self.name}: {lengths} source tokens ({self.tokens_are}), {describe(self.pairs)}{forced}"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        texts = self._texts(Random(f"{self.seed}/{variation}").getrandbits(32))
        shape = Random(self.seed)  # lengths, pairs and ratios: the same in every variation
        return tuple(self._item(texts, shape) for _ in range(count))

    def samples(self) -> tuple[Item, ...]:
        texts, forced = self._texts(self.seed), 8 if self.ratio else None
        made = [(pair, texts.make(str(pair.source), self.low)) for pair in self.pairs]
        return tuple(Item(text, p.source, p.target, self.tokens_of(text), self.low, forced) for p, text in made)

    def _item(self, texts: Texts, shape: Random) -> Item:
        pair = choose(self.pairs, shape)
        wanted = round(exp(shape.uniform(log(self.low), log(self.high))))
        text = texts.make(str(pair.source), wanted)
        tokens = self.tokens_of(text)
        ratio_seed = Random(shape.getrandbits(32))  # drawn always, so that forced lengths change no text
        output = self.ratio.draw(tokens, ratio_seed) if self.ratio else None
        return Item(text, pair.source, pair.target, tokens, wanted, output)

    def _texts(self, seed: int) -> Texts:
        texts = self.texts(seed)
        for pair in self.pairs:
            if pair.source not in texts.languages:
                known = ", ".join(texts.languages)
                raise ConfigError(
                    f"cannot generate texts for the pair {pair.label}: sources are {known}", param="pairs"
                )
        return texts


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """The texts of a file, in its order, never more than it has. `note`: a remark for the conditions."""

    name: str
    recorded: tuple[Item, ...]
    note: str = ""

    @property
    def description(self) -> str:
        return f"{self.name}: {len(self.recorded)} texts" + (f" ({self.note})" if self.note else "")

    @property
    def size(self) -> int:
        return len(self.recorded)

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        return self.recorded[:count]

    def samples(self) -> tuple[Item, ...]:
        return tuple({item.pair: item for item in reversed(self.recorded)}.values())


def read_workload(path: Path, tokens_of: TokensOf, texts: Texts) -> RecordedWorkload:
    """Read a JSONL file (`.jsonl`, also compressed, `.jsonl.gz`). Raises ConfigError with the bad line.

    A line is {"text", "source"?, "target", "output_tokens"?, "at_s"?}; with `at_s` the file is a trace, sorted by it. A line
    may hold a length instead of a text ({"source_tokens", "source", "target", "at_s"}), as `dragoman traffic export` writes
    it: a text of that length is then generated, in English where the language has no sentences, which the description
    reports. Other keys are ignored.
    """
    items: list[Item] = []
    substituted: Counter[str] = Counter()
    for place, line in _read_lines(path, "workload"):
        source, text = None if line.source == "auto" else line.source, line.text or ""
        if line.target is None:
            raise ConfigError(f"{path}:{place}: no target", param="workload")
        if not text.strip():
            if source is None:
                raise ConfigError(f"{path}:{place}: no source to generate a text in", param="workload")
            language = source if source in texts.languages else SUBSTITUTE
            substituted[source] += language != source
            text = texts.make(language, line.source_tokens or 1)
        items.append(Item(text, source, line.target, tokens_of(text), None, line.output_tokens, line.at_s))
    timed = sum(item.at_s is not None for item in items)
    if 0 < timed < len(items):
        raise ConfigError(f"{path}: {timed} of {len(items)} lines have at_s: all or none must", param="workload")
    items.sort(key=lambda item: item.at_s or 0.0)
    counts = ", ".join(f"{count} of {language}" for language, count in sorted((+substituted).items()))
    return RecordedWorkload(path.name, tuple(items), f"English in place of texts: {counts}" if counts else "")


class TextLine(BaseModel):
    """A line of a JSONL workload or trace: a text, or only its length. `in_flight`: texts in flight when it arrived, including
    itself."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)
    text: str | None = None
    source: str | None = None
    target: str | None = None
    source_tokens: int | None = Field(default=None, ge=1)
    source_characters: int | None = Field(default=None, ge=1)
    output_tokens: int | None = Field(default=None, ge=1)
    in_flight: int | None = Field(default=None, ge=1)
    at_s: float | None = Field(default=None, ge=0)
    kind: str | None = None  # "document": a segment of a file


def read_trace(path: Path) -> list[TextLine]:
    """Read the lines of a JSONL file from `dragoman traffic export`. Raises ConfigError with the bad line."""
    return [line for _, line in _read_lines(path, "trace")]


def _read_lines(path: Path, param: str) -> Iterator[tuple[int, TextLine]]:
    """The lines that are not empty, with their numbers."""
    if ".jsonl" not in path.suffixes:
        raise ConfigError(f"the {param} {path} is not a .jsonl file", param=param)
    text = read_text(path, param)
    if not text.strip():
        raise ConfigError(f"the {param} {path} is empty", param=param)
    for place, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        try:
            line = TextLine.model_validate_json(row)
        except ValidationError as error:
            raise ConfigError(f"{path}:{place}: {first_fault(error)}", param=param) from error
        if not (line.text or "").strip() and line.source_tokens is None:
            raise ConfigError(f"{path}:{place}: no text (nor source_tokens)", param=param)
        yield place, line


@dataclass(frozen=True, slots=True)
class CachedWorkload:
    """A workload that generates each variation once, so that several servers get the same texts.

    Another `first_variation` selects other texts of the same lengths.
    """

    workload: Workload
    first_variation: int = 0
    _made: dict[int, tuple[Item, ...]] = field(default_factory=dict[int, tuple[Item, ...]])

    @property
    def description(self) -> str:
        return self.workload.description

    @property
    def size(self) -> int | None:
        return self.workload.size

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        variation += self.first_variation
        if variation >= WARMUP_VARIATION:
            count = min(count, _CACHED_WARMUP_TEXTS)
        if len(self._made.get(variation, ())) < count:
            self._made[variation] = self.workload.items(count, variation)
        return self._made[variation][:count]

    def samples(self) -> tuple[Item, ...]:
        return self.workload.samples()
