"""The demand that a tune is for: how long texts are, how many are in flight, and how many tokens that makes.

It comes from a trace (JSONL, a line a text, as `dragoman traffic export` writes it) or is stated. A text takes its prompt and
its output; a long text is served in segments, each with a prompt of its own, all at the same time. Sums over many texts are
simulated. Among the texts that are in flight long ones are more frequent than among those that arrive, as they stay longer.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice, pairwise
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import members, number, whole
from dragoman_bench.bench.summary import nearest_rank
from dragoman_bench.bench.workload import (
    FileOptions,
    GeneratedWorkload,
    Item,
    OutputRatio,
    Pair,
    PhrasebookTexts,
    Texts,
    TokensOf,
    Workload,
    parse_pairs,
    read_workload,
    token_counter,
)
from dragoman_bench.journey.measure import CachedWorkload
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.outcome import Concurrency, DemandSummary, Draw, Lengths

ROUNDS = 2000
"""Of the simulation: the largest of so many draws is beyond its 99.9th percentile."""
UNKNOWN_RATIO = 1.5
"""Output tokens for each source token until it is measured: more than most directions take."""
LONG_SHARE = 0.1
"""The longest tenth of texts is what "long" means."""
SAMPLED = 400  # texts of a stated workload, for its lengths
FEW_TEXTS = 2000
_STRATA = 20
_LENGTH_ONLY = "\0"  # begins a text of which only the length is recorded


@dataclass(frozen=True, slots=True)
class PromptShape:
    """What the server makes of a text. `overhead`: prompt tokens around it; `segment_tokens`: source tokens of the longest
    segment, None: texts are never cut; `window`: tokens that a prompt and its output share."""

    overhead: int = 0
    segment_tokens: int | None = None
    window: int | None = None

    def segments(self, source_tokens: int) -> int:
        return 1 if self.segment_tokens is None else max(1, ceil(source_tokens / self.segment_tokens))


@dataclass(frozen=True, slots=True)
class Demand:
    """Texts with their lengths, and concurrency. `outputs`: expected output tokens of each text."""

    description: str
    items: tuple[Item, ...]
    outputs: tuple[int, ...]
    levels: Concurrency
    shape: PromptShape
    workloads: Mapping[Draw, Workload]
    seed: int = 0
    output_estimated: bool = False
    notes: tuple[str, ...] = ()

    @property
    def prompts(self) -> list[int]:
        """Prompt tokens of each text, all its segments together."""
        return [
            item.source_tokens + self.shape.overhead * self.shape.segments(item.source_tokens) for item in self.items
        ]

    @property
    def totals(self) -> list[int]:
        """Prompt and output tokens of each text."""
        return [prompt + output for prompt, output in zip(self.prompts, self.outputs, strict=True)]

    @property
    def digest(self) -> str:
        """Of texts and lengths: distinguishes two demands of one description."""
        items = [(item.text, *item.pair, item.source_tokens, item.output_tokens) for item in self.items]
        content = json.dumps([items, self.outputs], ensure_ascii=False)
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def sequences(self, texts: int) -> int:
        """How many sequences so many texts are, at most in 99 of 100 draws."""
        segments = [self.shape.segments(item.source_tokens) for item in self.items]
        return texts if max(segments) == 1 else ceil(np.percentile(self._sums(segments, self._in_flight(), texts), 99))

    def peak_tokens(self, texts: int) -> int:
        """The most tokens that so many texts took in any of the draws, each at its full length."""
        return int(self._sums(self.totals, self._in_flight(), texts).max())

    def prompt_tokens(self, texts: int) -> int:
        """The most prompt tokens of so many texts that arrive together: what one step could hold."""
        return int(self._sums(self.prompts, None, texts).max())

    def long_tokens(self, texts: int) -> int:
        """The most tokens that so many texts take while they are served, half of those sent being of the longest tenth:
        the prompt of each, and a part of its output between nothing and all."""
        tail = longest(self.totals)
        sent = np.full(len(self.items), 1 / len(self.items))
        sent[tail] += 1 / len(tail)
        random = np.random.default_rng(self.seed)
        chosen = random.choice(len(self.items), (ROUNDS, texts), p=_normalised(sent * self._in_flight()))
        held = np.asarray(self.prompts)[chosen] + np.asarray(self.outputs)[chosen] * random.random((ROUNDS, texts))
        return int(held.sum(axis=1).max())

    def measured(self, output_ratio: float | None, overhead: int | None) -> Demand:
        """With what was measured: output tokens for each source token (recorded outputs are kept), prompt overhead."""
        outputs = self.outputs
        if output_ratio is not None and self.output_estimated:
            outputs = tuple(max(1, round(output_ratio * item.source_tokens)) for item in self.items)
        shape = self.shape if overhead is None else replace(self.shape, overhead=overhead)
        return replace(self, outputs=outputs, shape=shape)

    def summary(self) -> DemandSummary:
        totals = self.totals
        return DemandSummary(
            description=self.description,
            texts=len(self.items),
            source=_lengths([item.source_tokens for item in self.items]),
            output=_lengths(self.outputs),
            levels=self.levels,
            prompt_overhead=self.shape.overhead,
            longest_sequence=max(totals),
            peak_tokens_drawn=self.peak_tokens(self.levels.peak),
            peak_tokens_worst=self.levels.peak * max(totals),
            output_estimated=self.output_estimated,
            notes=self.notes,
        )

    def _in_flight(self) -> np.ndarray:
        """The share of each text among those in flight: one of twice the output stays twice as long."""
        return _normalised(np.asarray(self.outputs, dtype=float))

    def _sums(self, sizes: Sequence[int], shares: np.ndarray | None, texts: int) -> np.ndarray:
        return np.random.default_rng(self.seed).choice(np.asarray(sizes), (ROUNDS, texts), p=shares).sum(axis=1)


def parse_clients(text: str) -> Concurrency:
    """`2-25`: usually 2 texts at once, 25 at busy times; `25`: always. Raises ConfigError."""
    low, dash, high = text.partition("-")
    numbers = [int(part) if part.strip().isdigit() else 0 for part in ((low, high) if dash else (low, low))]
    if not 1 <= numbers[0] <= numbers[1]:
        raise ConfigError(f"clients {text!r} are not like 2-25 (usually, at busy times) or 25", param="clients")
    return Concurrency(numbers[0], numbers[1], numbers[1], stated=True)


def prompt_shape(subject: Subject) -> PromptShape:
    """What is known before a server runs. A model that takes short texts only has them cut to its limit; others cut where
    prompt and output would not fit the window. The prompt's overhead is measured on the ladder's server."""
    window = whole(subject.dragoman.get("max-model-len"))
    longest_uncut = subject.lengths["variable"][1]
    if window is None:
        return PromptShape()
    if longest_uncut < 200:  # the subject's texts are 200 tokens long unless the model takes less
        return PromptShape(0, longest_uncut, window)
    return PromptShape(0, max(1, round(window / (1 + UNKNOWN_RATIO))), window)


def stated_demand(subject: Subject, shape: PromptShape, levels: Concurrency) -> Demand:
    """Variable texts, as `dragoman journey` sends them. Raises ConfigError where the tokenizer cannot be read."""
    tokens_of, tokens_are = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    pairs, texts = parse_pairs(subject.pairs), partial(PhrasebookTexts, tokens_of=tokens_of)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    low, high = subject.lengths["variable"]
    mix = GeneratedWorkload("variable", low, high, pairs, texts, tokens_of, tokens_are, subject.seed, ratio)
    # Lengths are log-evenly distributed, and so is their longest tenth.
    tail_low = round(low * (high / low) ** (1 - LONG_SHARE))
    tail = replace(mix, name="the longest tenth", low=tail_low, seed=subject.seed + 1)
    items = mix.items(SAMPLED, 0)
    outputs, estimated = _expected_outputs(items)
    workloads = _both(mix, Mixed(f"{mix.name}, long", mix, tail))
    return Demand(mix.description, items, outputs, levels, shape, workloads, subject.seed, estimated)


def trace_demand(path: Path, subject: Subject, shape: PromptShape, levels: Concurrency | None = None) -> Demand:
    """A trace; `levels` in place of the concurrency that it records. Raises ConfigError where it cannot be read, or records
    no concurrency and none is stated.

    A line has `in_flight` (texts in flight when this one arrived, itself included) or `at_s` with `e2e_s`. Recorded output
    lengths size the KV cache; they are forced only on a server of random weights.
    """
    if path.suffix not in (".jsonl", ".ndjson"):
        raise ConfigError(f"the trace {path} is not a .jsonl file", param="trace")
    tokens_of, _ = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    lines = _lines(path)
    languages = tuple({str(line["source"]) for line in lines if line.get("source") not in (None, "auto")})
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    placeholder = _Placeholder(languages)
    reading = FileOptions(
        parse_pairs(subject.pairs), partial(_tokens, tokens_of), lambda _: placeholder, subject.seed, ratio
    )
    recorded = read_workload(path, reading).recorded
    outputs, estimated = _expected_outputs(recorded)
    sent = recorded if subject.forced else tuple(replace(item, output_tokens=None) for item in recorded)
    sizes = tuple(item.source_tokens + output for item, output in zip(recorded, outputs, strict=True))
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    lengths_only = any(item.text.startswith(_LENGTH_ONLY) for item in recorded)

    def over(places: Sequence[int], name: str) -> Workload:
        items, its_sizes = tuple(sent[place] for place in places), tuple(sizes[place] for place in places)
        if lengths_only:
            return Written(name, items, its_sizes, texts, tokens_of, subject.seed)
        return Drawn(name, items, its_sizes, subject.seed)

    mix = over(range(len(sent)), path.name)
    long = Mixed(f"{path.name}, long", mix, over(longest(sizes), "the longest tenth"))
    return Demand(
        description=f"{path.name}: {len(recorded)} recorded texts",
        items=recorded,
        outputs=outputs,
        levels=levels or _concurrency(path, lines),
        shape=shape,
        workloads=_both(mix, long),
        seed=subject.seed,
        output_estimated=estimated,
        notes=tuple(_notes(recorded, lengths_only, texts(subject.seed).languages)),
    )


def counted(in_flight: Sequence[int]) -> Concurrency:
    """Median, 95th percentile and maximum of the texts in flight when each arrived, itself included."""
    ordered = sorted(in_flight)
    median, busy = (round(nearest_rank(ordered, percent)) for percent in (50, 95))
    return Concurrency(median, busy, ordered[-1])


def in_flight(intervals_s: Sequence[tuple[float, float]]) -> list[int]:
    """Texts in flight at each arrival, itself included, of texts that arrived and ended then."""
    arrivals, ends = sorted(begin for begin, _ in intervals_s), sorted(end for _, end in intervals_s)
    return [place + 1 - bisect_right(ends, arrival) for place, arrival in enumerate(arrivals)]


def stratified(sizes: Sequence[int], random: Random) -> Iterator[int]:
    """Places in `sizes`, without end: of any twenty in a row one is from each twentieth by size.

    A measurement lasts for some hundred texts; drawn freely, their mean length moves by several percent, and with it every
    rate.
    """
    ordered = sorted(range(len(sizes)), key=lambda place: sizes[place])
    count = min(_STRATA, len(ordered))
    edges = [len(ordered) * stratum // count for stratum in range(count + 1)]
    strata = [ordered[low:high] for low, high in pairwise(edges)]
    left: list[list[int]] = [[] for _ in strata]
    while True:
        run: list[int] = []
        for stratum, unused in zip(strata, left, strict=True):
            if not unused:
                unused.extend(random.sample(stratum, len(stratum)))
            run.append(unused.pop())
        random.shuffle(run)
        yield from run


def longest(sizes: Sequence[int]) -> list[int]:
    """Places of the longest tenth, one at least."""
    ordered = sorted(range(len(sizes)), key=lambda place: sizes[place])
    return ordered[-max(1, round(len(ordered) * LONG_SHARE)) :]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Recorded texts in a drawn order, another one for each variation; they repeat when all were sent."""

    name: str
    recorded: tuple[Item, ...]
    sizes: tuple[int, ...]  # by item: what the draw is stratified by
    seed: int = 0

    @property
    def description(self) -> str:
        return f"{self.name}: drawn from {len(self.recorded)} texts"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        places = stratified(self.sizes, Random(f"{self.seed}/{variation}"))
        return tuple(self.recorded[place] for place in islice(places, count))

    def samples(self) -> tuple[Item, ...]:
        return tuple({item.pair: item for item in reversed(self.recorded)}.values())


@dataclass(frozen=True, slots=True)
class Written:
    """Texts made up at recorded lengths: in every variation the same lengths in the same order, and other texts.

    For a source language in which none can be made up another stands.
    """

    name: str
    recorded: tuple[Item, ...]  # their texts are not used
    sizes: tuple[int, ...]
    texts: Callable[[int], Texts]  # by seed
    tokens_of: TokensOf
    seed: int = 0

    @property
    def description(self) -> str:
        return f"{self.name}: made up at lengths drawn from {len(self.recorded)} recorded texts"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        texts = self.texts(Random(f"{self.seed}/{variation}").getrandbits(32))
        places = stratified(self.sizes, Random(self.seed))
        return tuple(self._item(texts, self.recorded[place]) for place in islice(places, count))

    def samples(self) -> tuple[Item, ...]:
        texts = self.texts(self.seed)
        return tuple({item.pair: self._item(texts, item) for item in reversed(self.recorded)}.values())

    def _item(self, texts: Texts, item: Item) -> Item:
        source = item.source
        if source not in texts.languages:
            source = next(language for language in texts.languages if language != item.target)
        text, tokens = texts.make(source, item.source_tokens), item.source_tokens
        return replace(item, text=text, source=source, source_tokens=self.tokens_of(text), wanted_tokens=tokens)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Texts of two workloads in turn."""

    name: str
    first: Workload
    second: Workload

    @property
    def description(self) -> str:
        return f"{self.name}: half {self.first.description}; half {self.second.description}"

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        half = (count + 1) // 2
        both = zip(self.first.items(half, variation), self.second.items(half, variation), strict=True)
        return tuple(item for pair in both for item in pair)[:count]

    def samples(self) -> tuple[Item, ...]:
        return self.first.samples()


def _both(mix: Workload, long: Workload) -> dict[Draw, Workload]:
    """Every server is sent the same texts: they are made once."""
    return {"mix": CachedWorkload(mix), "long": CachedWorkload(long)}


def _expected_outputs(items: Sequence[Item]) -> tuple[tuple[int, ...], bool]:
    """Output tokens of each text, and whether all are estimates. Where some are recorded, their ratio is used."""
    known = [(item.source_tokens, item.output_tokens) for item in items if item.output_tokens is not None]
    source, output = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    ratio = output / source if source else UNKNOWN_RATIO
    return tuple(item.output_tokens or max(1, round(ratio * item.source_tokens)) for item in items), not known


@dataclass(frozen=True, slots=True)
class _Placeholder:
    """Stands for texts while a trace is read: the real ones are made for each measurement."""

    languages: tuple[str, ...]

    def make(self, language: str, tokens: int) -> str:
        return f"{_LENGTH_ONLY}{tokens}"


def _tokens(tokens_of: TokensOf, text: str) -> int:
    return int(text[1:]) if text.startswith(_LENGTH_ONLY) else tokens_of(text)


def _lines(path: Path) -> list[dict[str, Any]]:
    """What is not JSON is left to `read_workload`, which names the line."""
    found: list[dict[str, Any]] = []
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            with suppress(json.JSONDecodeError):
                found.append(members(json.loads(line)))
    return [line for line in found if line]


def _concurrency(path: Path, lines: Sequence[dict[str, Any]]) -> Concurrency:
    counts = [count for line in lines if (count := whole(line.get("in_flight"))) is not None and count >= 1]
    if counts and len(counts) == len(lines):
        return counted(counts)
    times = [(number(line.get("at_s")), number(line.get("e2e_s"))) for line in lines]
    intervals = [(at_s, at_s + e2e_s) for at_s, e2e_s in times if at_s is not None and e2e_s is not None]
    if not intervals or len(intervals) < len(lines):
        raise ConfigError(
            f"the trace {path} does not record how many texts were in flight: its lines need in_flight, or at_s and e2e_s; "
            "or specify --clients 2-25 (usually, at busy times)",
            param="clients",
        )
    return counted(in_flight(intervals))


def _notes(recorded: Sequence[Item], lengths_only: bool, languages: Sequence[str]) -> Iterator[str]:
    if lengths_only:
        yield "the trace holds lengths, not texts: texts are made up at those lengths"
        replaced = sorted({Pair(*item.pair).label for item in recorded if item.source not in languages})
        if replaced:
            yield f"made-up texts of other languages stand for {', '.join(replaced)}"
    elif len(recorded) < FEW_TEXTS:
        yield f"the trace's {len(recorded)} texts are sent more than once: a prefix cache may answer part of them"


def _lengths(tokens: Sequence[int]) -> Lengths:
    ordered = sorted(tokens)
    p50, p95, p99 = (round(nearest_rank(ordered, percent)) for percent in (50, 95, 99))
    return Lengths(sum(ordered) / len(ordered), p50, p95, p99, ordered[-1])


def _normalised(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()
