"""What is sent: texts with their languages and lengths, generated or read from a file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, log
from pathlib import Path
from random import Random
from typing import Any, Protocol

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import members, number, whole
from dragoman_bench.bench.texts import Texts, TokensOf

_TAG = r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*"
_SIMPLE = re.compile(r"(?P<source>[A-Za-z]{2,3}|auto)-(?P<target>[A-Za-z]{2,3})")
_ARROW = re.compile(rf"(?P<source>{_TAG}|auto)>(?P<target>{_TAG})")


@dataclass(frozen=True, slots=True)
class Pair:
    """A direction; `source` None: the server detects it."""

    source: str | None
    target: str
    weight: float = 1.0

    @property
    def label(self) -> str:
        return f"{self.source or 'auto'}-{self.target}"


def parse_pairs(text: str) -> tuple[Pair, ...]:
    """`source-target[:weight],...`; tags with regions are written `zh-Hant>en`. Raises ConfigError."""
    pairs = tuple(_pair(term.strip()) for term in text.split(",") if term.strip())
    if not pairs:
        raise ConfigError("no language pairs: say for example en-ja:3,zh-en:1", param="pairs")
    return pairs


def choose(pairs: tuple[Pair, ...], random: Random) -> Pair:
    return random.choices(pairs, weights=[pair.weight for pair in pairs])[0]


def describe(pairs: tuple[Pair, ...]) -> str:
    return ",".join(f"{pair.label}:{pair.weight:g}" for pair in pairs)


def _pair(term: str) -> Pair:
    direction, colon, weight_text = term.partition(":")
    match = _SIMPLE.fullmatch(direction) or _ARROW.fullmatch(direction)
    if match is None:
        raise ConfigError(f"language pair {term!r} is not like en-ja:3 (or zh-Hant>en)", param="pairs")
    try:
        weight = float(weight_text) if colon else 1.0
    except ValueError:
        weight = 0.0
    if not 0 < weight < float("inf"):
        raise ConfigError(f"language pair {term!r}: the weight is a number above 0", param="pairs")
    source = None if match["source"] == "auto" else match["source"]
    if source == match["target"]:
        raise ConfigError(f"language pair {term!r} translates a language into itself", param="pairs")
    return Pair(source, match["target"], weight)


@dataclass(frozen=True, slots=True)
class Item:
    """One text to translate. `source_tokens` is measured; `wanted_tokens` what the generator was asked for."""

    text: str
    source: str | None
    target: str
    source_tokens: int
    wanted_tokens: int | None = None
    output_tokens: int | None = None  # forced: with dummy weights, lengths mean nothing
    at_s: float | None = None  # traces only

    @property
    def pair(self) -> tuple[str | None, str]:
        return self.source, self.target


class Workload(Protocol):
    """`items` gives `count` of them for the measurement numbered `variation`; asked again, the same ones."""

    @property
    def description(self) -> str: ...

    @property
    def size(self) -> int | None:
        """How many items there are before they repeat; None: as many as asked for."""
        ...

    def items(self, count: int, variation: int) -> tuple[Item, ...]: ...

    def samples(self) -> tuple[Item, ...]:
        """One item of each language pair."""
        ...


@dataclass(frozen=True, slots=True)
class OutputRatio:
    """Forced output lengths: source tokens times a ratio drawn evenly from `low..high`."""

    low: float
    high: float

    def draw(self, source_tokens: int, random: Random) -> int:
        return max(1, round(source_tokens * random.uniform(self.low, self.high)))


@dataclass(frozen=True, slots=True)
class MadeUp:
    """Generated texts whose lengths lie log-evenly in `low..high` tokens: as many of 10 to 20 as of 100 to 200, so
    short and long are mixed as in messages. `low == high` is uniform."""

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
        texts = self.texts(Random(f"{self.seed}/{variation}").getrandbits(32))
        self._check_languages(texts)
        shape = Random(self.seed)  # lengths, pairs and ratios: the same in every variation
        return tuple(self._item(texts, shape) for _ in range(count))

    def samples(self) -> tuple[Item, ...]:
        texts = self.texts(self.seed)
        self._check_languages(texts)
        return tuple(self._sample(pair, texts.make(str(pair.source), self.low)) for pair in self.pairs)

    def _sample(self, pair: Pair, text: str) -> Item:
        return Item(text, pair.source, pair.target, self.tokens_of(text), self.low, 8 if self.ratio else None)

    def _item(self, texts: Texts, shape: Random) -> Item:
        pair = choose(self.pairs, shape)
        wanted = round(exp(shape.uniform(log(self.low), log(self.high))))
        text = texts.make(str(pair.source), wanted)
        tokens = self.tokens_of(text)
        ratio_seed = Random(shape.getrandbits(32))  # drawn always, so that forcing changes no text
        output = self.ratio.draw(tokens, ratio_seed) if self.ratio else None
        return Item(text, pair.source, pair.target, tokens, wanted, output)

    def _check_languages(self, texts: Texts) -> None:
        for pair in self.pairs:
            if pair.source not in texts.languages:
                known = ", ".join(texts.languages)
                raise ConfigError(f"no made-up texts for the pair {pair.label}: sources are {known}", param="pairs")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Texts of a file, in its order; never more than it has. `note`: what must be known of them."""

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


STAND_IN = "en"


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading a file needs beside the file. `texts` makes up the texts of a trace that holds none."""

    pairs: tuple[Pair, ...] | None
    tokens_of: TokensOf
    texts: Callable[[int], Texts]
    seed: int = 0
    ratio: OutputRatio | None = None


def read_workload(path: Path, reading: Reading) -> Recorded:
    """By suffix: `.jsonl` and `.ndjson` are JSONL, everything else plain text. Raises ConfigError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the workload {path}: {error}", param="workload") from error
    numbered = [(place, line.strip()) for place, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ConfigError(f"the workload {path} is empty", param="workload")
    read = _jsonl if path.suffix in (".jsonl", ".ndjson") else _plain
    return read(path, numbered, reading)


def _plain(path: Path, lines: list[tuple[int, str]], reading: Reading) -> Recorded:
    pairs = reading.pairs
    if not pairs or len({pair.source for pair in pairs}) != 1:
        raise ConfigError(f"{path}: a text file needs --pairs with one source language", param="pairs")
    random = Random(reading.seed)
    items = (_item(text, choose(pairs, random), None, None, reading, random) for _, text in lines)
    return Recorded(path.name, tuple(items))


def _jsonl(path: Path, lines: list[tuple[int, str]], reading: Reading) -> Recorded:
    random = Random(reading.seed)
    made_up = _MadeUpTexts(reading)
    items: list[Item] = []
    for place, line in lines:
        try:
            items.append(_from_json(json.loads(line), reading, random, made_up))
        except json.JSONDecodeError as error:
            raise ConfigError(f"{path}:{place}: not JSON: {error.msg}", param="workload") from error
        except ValueError as error:
            raise ConfigError(f"{path}:{place}: {error}", param="workload") from error
    with_times = sum(item.at_s is not None for item in items)
    if 0 < with_times < len(items):
        raise ConfigError(f"{path}: {with_times} of {len(items)} lines have at_s: all or none", param="workload")
    if with_times:
        items.sort(key=lambda item: item.at_s or 0.0)
    return Recorded(path.name, tuple(items), made_up.note)


class _MadeUpTexts:
    """One generator, made only when a line needs it; it remembers which languages it had to stand in for."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._texts: Texts | None = None
        self._stood_in: Counter[str] = Counter()

    def make(self, source: str | None, tokens: int) -> str:
        """Raises ValueError where no language is told."""
        if source is None:
            raise ValueError("no source: a text of no language cannot be made up")
        self._texts = self._texts or self._reading.texts(self._reading.seed)
        if source in self._texts.languages:
            return self._texts.make(source, tokens)
        self._stood_in[source] += 1
        return self._texts.make(STAND_IN, tokens)

    @property
    def note(self) -> str:
        told = ", ".join(f"{count} of {language}" for language, count in sorted(self._stood_in.items()))
        return f"English in place of texts: {told}" if told else ""


def _from_json(value: Any, reading: Reading, random: Random, made_up: _MadeUpTexts) -> Item:
    """Raises ValueError."""
    line = members(value)
    if not line:
        raise ValueError("not a JSON object")
    pair = _pair_of(line, reading, random)
    text = line.get("text")
    if text is None and "source_tokens" in line:
        text = made_up.make(pair.source, _whole(line, "source_tokens"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError("no text (nor source_tokens)")
    forced = _whole(line, "output_tokens") if line.get("output_tokens") is not None else None
    return _item(text, pair, forced, _time(line), reading, random)


def _pair_of(line: dict[str, Any], reading: Reading, random: Random) -> Pair:
    if line.get("target") is None:
        if not reading.pairs:
            raise ValueError("no target, and no --pairs to choose one from")
        return choose(reading.pairs, random)
    source, target = line.get("source"), line["target"]
    if not isinstance(target, str) or not isinstance(source, str | None):
        raise ValueError("source and target are language tags")
    return Pair(None if source == "auto" else source, target)


def _item(text: str, pair: Pair, forced: int | None, at_s: float | None, reading: Reading, random: Random) -> Item:
    tokens = reading.tokens_of(text)
    if forced is None and reading.ratio is not None:
        forced = reading.ratio.draw(tokens, random)
    return Item(text, pair.source, pair.target, tokens, None, forced, at_s)


def _whole(line: dict[str, Any], key: str) -> int:
    value = whole(line[key])
    if value is None or value < 1:
        raise ValueError(f"{key} is a whole number above 0")
    return value


def _time(line: dict[str, Any]) -> float | None:
    if line.get("at_s") is None:
        return None
    value = number(line["at_s"])
    if value is None or not 0 <= value < inf:
        raise ValueError("at_s is a time in seconds, 0 or more")
    return value
