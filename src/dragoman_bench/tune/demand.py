"""The demand of a tune: the lengths of texts, how many are in flight, and how many tokens they need.

It is read from a trace (JSONL, a line for each text, from `dragoman traffic export`) or specified by the user. A text needs
tokens for its prompt and its output; the segments of a long text, each with its own prompt, run at the same time. Sums over
many texts are simulated. Long texts are more frequent among those in flight than among arrivals, because they take longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import islice, zip_longest
from math import ceil
from pathlib import Path
from random import Random
from statistics import median

import numpy as np

from dragoman.errors import ConfigError
from dragoman_bench.bench.measurement import whole
from dragoman_bench.bench.summary import nearest_rank, percentiles
from dragoman_bench.bench.workload import (
    GeneratedWorkload,
    Item,
    OutputRatio,
    Pair,
    PhrasebookTexts,
    TextLine,
    Texts,
    TokensOf,
    Workload,
    choose,
    parse_pairs,
    read_trace,
    token_counter,
)
from dragoman_bench.journey.measure import CachedWorkload
from dragoman_bench.journey.steps import Subject
from dragoman_bench.tune.outcome import Concurrency, DemandSummary, Draw, Lengths, Trial

ROUNDS = 2000
"""Of the simulation: the largest of so many draws is beyond its 99.9th percentile."""
UNKNOWN_RATIO = 1.5
"""Output tokens for each source token until it is measured: more than most directions take."""
LONG_SHARE = 0.1
"""The longest tenth of texts is what "long" means."""
_STATED_TEXTS = 400  # drawn for the lengths of a stated workload
_FEW_TEXTS = 2000
_STRATA = 20


@dataclass(frozen=True, slots=True)
class PromptShape:
    """How the server makes prompts of a text. `overhead`: prompt tokens around it; `segment_tokens`: source tokens of the
    longest segment, None: texts are never split; `window`: tokens that a prompt and its output share."""

    overhead: int = 0
    segment_tokens: int | None = None
    window: int | None = None

    def segments(self, source_tokens: int) -> int:
        return 1 if self.segment_tokens is None else max(1, ceil(source_tokens / self.segment_tokens))


@dataclass(frozen=True, slots=True)
class Demand:
    """Texts with their lengths, and their concurrency. `outputs`: expected output tokens of each text."""

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
    def prompts(self) -> np.ndarray:
        """Return the prompt tokens of each text, with all its segments."""
        sources = [item.source_tokens for item in self.items]
        return np.array([source + self.shape.overhead * self.shape.segments(source) for source in sources])

    @property
    def totals(self) -> np.ndarray:
        """Return the prompt and output tokens of each text."""
        return self.prompts + np.array(self.outputs)

    @property
    def digest(self) -> str:
        """Return a digest of texts and lengths, to distinguish two demands with the same description."""
        items = [(item.text, *item.pair, item.source_tokens, item.output_tokens) for item in self.items]
        content = json.dumps([items, self.outputs], ensure_ascii=False)
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def sequences(self, texts: int) -> int:
        """Return how many sequences this number of texts needs, at most in 99 of 100 draws."""
        segments = np.array([self.shape.segments(item.source_tokens) for item in self.items])
        if segments.max() == 1:
            return texts
        drawn: list[int] = segments[self._in_flight(texts)].sum(axis=1).tolist()
        return round(nearest_rank(drawn, 99))

    def peak_tokens(self, texts: int) -> int:
        """Return the most tokens that this number of texts needs in any draw, each at its full length."""
        return int(self.totals[self._in_flight(texts)].sum(axis=1).max())

    def prompt_tokens(self, texts: int) -> int:
        """Return the most prompt tokens of this number of texts that arrive together, an upper bound of a step."""
        chosen = np.random.default_rng(self.seed).choice(len(self.items), (ROUNDS, texts))
        return int(self.prompts[chosen].sum(axis=1).max())

    def long_tokens(self, texts: int) -> int:
        """Return the most tokens that this number of texts needs while they are served, if half of them are of the longest
        tenth: the prompt of each, and a random part of its output."""
        tail = longest(self.totals)
        sent = np.full(len(self.items), 1 / len(self.items))
        sent[tail] += 1 / len(tail)
        chosen = self._in_flight(texts, sent)
        part = np.random.default_rng(self.seed + 1).random(chosen.shape)
        return int((self.prompts[chosen] + np.array(self.outputs)[chosen] * part).sum(axis=1).max())

    def measured(self, trial: Trial) -> Demand:
        """Return the demand with measured values: output tokens per source token (recorded outputs are kept), overhead."""
        ratios = [one.output_tokens_s / one.rps for one in trial.results if one.output_tokens_s and one.rps]
        sources, outputs, shape = [item.source_tokens for item in self.items], self.outputs, self.shape
        if ratios and self.output_estimated:
            ratio = median(ratios) / (sum(sources) / len(sources))
            outputs = tuple(max(1, round(ratio * source)) for source in sources)
        if trial.prompt_overhead is not None:
            shape = replace(shape, overhead=trial.prompt_overhead)
        return replace(self, outputs=outputs, shape=shape)

    def summary(self) -> DemandSummary:
        return DemandSummary(
            description=self.description,
            texts=len(self.items),
            source=_lengths([item.source_tokens for item in self.items]),
            output=_lengths(self.outputs),
            levels=self.levels,
            prompt_overhead=self.shape.overhead,
            output_estimated=self.output_estimated,
            notes=self.notes,
        )

    def _in_flight(self, texts: int, sent: float | np.ndarray = 1.0) -> np.ndarray:
        """Draws of so many texts in flight, by place. `sent`: how often each is sent; one of twice the output stays twice as
        long."""
        weights = np.array(self.outputs, dtype=float) * sent
        random = np.random.default_rng(self.seed)
        return random.choice(len(self.items), (ROUNDS, texts), p=weights / weights.sum())


def prompt_shape(subject: Subject) -> PromptShape:
    """Return the prompt shape before a server runs. Texts are split at the model's own limit, if it has one, else where
    prompt and output would exceed the window. The prompt's overhead is measured later, on the ladder's server."""
    window = whole(subject.dragoman.get("max-model-len"))
    longest_uncut = subject.lengths["variable"][1]
    if window is None:
        return PromptShape()
    if longest_uncut < 200:  # the subject's texts are 200 tokens long unless the model takes less
        return PromptShape(0, longest_uncut, window)
    return PromptShape(0, max(1, round(window / (1 + UNKNOWN_RATIO))), window)


def stated_demand(subject: Subject, levels: Concurrency) -> Demand:
    """Make a demand with the lengths of `dragoman journey`'s variable texts. Raises ConfigError for a bad tokenizer."""
    tokens_of, tokens_are = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    texts, ratio = (
        partial(PhrasebookTexts, tokens_of=tokens_of),
        OutputRatio(*subject.forced) if subject.forced else None,
    )
    low, high = subject.lengths["variable"]
    pairs = parse_pairs(subject.pairs)
    mix = GeneratedWorkload("variable", low, high, pairs, texts, tokens_of, tokens_are, subject.seed, ratio)
    return _demand(mix.description, mix.items(_STATED_TEXTS, 0), levels, subject, tokens_of, texts)


def trace_demand(paths: Sequence[Path], subject: Subject, levels: Concurrency | None = None) -> Demand:
    """Read traces of one server, or of replicas that each recorded their own texts in flight. `levels` replaces the recorded
    concurrency. Raises ConfigError if a trace cannot be read, or if there is neither a recorded nor a specified concurrency.

    Segments of documents are left out: all of a file arrive at once, and the server lets them wait. Recorded output lengths
    determine the size of the KV cache; they are forced only on a server with random weights. If a line has no text, texts are
    generated for all lines.
    """
    recorded = [line for path in paths for line in read_trace(path)]
    lines = [line for line in recorded if line.kind != "document"]
    if not lines:
        raise ConfigError("the trace has segments of documents alone: specify one with texts of calls", param="trace")
    tokens_of, _ = token_counter(Path(subject.tokenizer) if subject.tokenizer else None)
    texts = partial(PhrasebookTexts, tokens_of=tokens_of)
    pairs, random = parse_pairs(subject.pairs), Random(subject.seed)
    ratio = OutputRatio(*subject.forced) if subject.forced else None
    items: list[Item] = []
    for line in lines:
        source = None if line.source == "auto" else line.source
        pair = Pair(source, line.target) if line.target else choose(pairs, random)
        tokens = tokens_of(line.text) if line.text else line.source_tokens or 1
        output = line.output_tokens or (ratio.draw(tokens, random) if ratio else None)
        items.append(Item(line.text or "", pair.source, pair.target, tokens, None, output))
    lengths_only = not all(line.text for line in lines)
    found = _demand(
        f"{', '.join(path.name for path in paths)}: {len(items)} recorded texts",
        tuple(items),
        levels or concurrency(lines),
        subject,
        tokens_of,
        texts if lengths_only else None,
    )
    note = f"the trace's {len(items)} texts are sent more than once: a prefix cache may answer part of them"
    if lengths_only:
        note = "the trace holds lengths, not texts: texts are made up at those lengths"
        known = texts(subject.seed).languages
        if any(item.source not in known for item in items):
            note += f", in {', '.join(known)}"
    notes = [note] if lengths_only or len(items) < _FEW_TEXTS else []
    if left_out := len(recorded) - len(lines):
        notes.append(
            f"{left_out} segments of documents are left out: they wait for their turn, and use what calls leave"
        )
    return replace(found, notes=tuple(notes))


def concurrency(lines: Sequence[TextLine]) -> Concurrency:
    """Return 95th percentile and maximum of the texts in flight at each arrival. Raises ConfigError if a line does not record
    them."""
    counts = [line.in_flight for line in lines if line.in_flight is not None]
    if len(counts) < len(lines):
        text = "the trace has lines without in_flight, the texts in flight when each arrived: specify --clients"
        raise ConfigError(text, param="clients")
    return Concurrency(round(nearest_rank(counts, 95)), max(counts))


@dataclass(frozen=True, slots=True)
class DrawnTexts:
    """A workload of recorded texts in random order, another order for each variation; they repeat when all were sent.

    With `texts` (by seed) they are generated at the recorded lengths: every variation has the same lengths in the same
    order, and different texts. For a source language in which no texts can be generated another language is used.
    """

    description: str
    recorded: tuple[Item, ...]
    sizes: tuple[int, ...]  # by item: what the draw is stratified by
    tokens_of: TokensOf
    texts: Callable[[int], Texts] | None = None
    seed: int = 0
    tail: frozenset[int] = frozenset()  # with it, every second text is one of these places

    @property
    def size(self) -> None:
        return None

    def items(self, count: int, variation: int) -> tuple[Item, ...]:
        order = Random(f"{self.seed}/{variation}" if self.texts is None else str(self.seed))
        places = stratified(self.sizes, order)
        if self.tail:
            tail = sorted(self.tail)
            long = (tail[place] for place in stratified([self.sizes[place] for place in tail], order))
            places = (place for both in zip(places, long, strict=True) for place in both)
        chosen = [self.recorded[place] for place in islice(places, count)]
        return self._with_texts(chosen, Random(f"{self.seed}/{variation}").getrandbits(32))

    def samples(self) -> tuple[Item, ...]:
        return self._with_texts(list({item.pair: item for item in reversed(self.recorded)}.values()), self.seed)

    def _with_texts(self, items: list[Item], seed: int) -> tuple[Item, ...]:
        if self.texts is None:
            return tuple(items)
        texts, made = self.texts(seed), list[Item]()
        for item in items:
            others = (language for language in texts.languages if language != item.target)
            source = item.source if item.source in texts.languages else next(others)
            text, wanted = texts.make(source, item.source_tokens), item.source_tokens
            tokens = self.tokens_of(text)
            made.append(replace(item, text=text, source=source, source_tokens=tokens, wanted_tokens=wanted))
        return tuple(made)


def stratified(sizes: Sequence[int], random: Random) -> Iterator[int]:
    """Yield indexes of `sizes` without end, so that any twenty in a row have one from each twentieth by size.

    A measurement has some hundred texts. With free draws their mean length would vary by several percent, and so would all
    rates.
    """
    ordered = np.argsort(sizes, kind="stable")
    strata: list[list[int]] = [part.tolist() for part in np.array_split(ordered, min(_STRATA, len(ordered)))]
    while True:
        for stratum in strata:
            random.shuffle(stratum)
        for together in zip_longest(*strata):
            run = [place for place in together if place is not None]
            random.shuffle(run)
            yield from run


def longest(sizes: Sequence[int] | np.ndarray) -> list[int]:
    """Return the indexes of the longest tenth, at least one."""
    return np.argsort(sizes, kind="stable")[-max(1, round(len(sizes) * LONG_SHARE)) :].tolist()


def _demand(
    description: str,
    recorded: tuple[Item, ...],
    levels: Concurrency,
    subject: Subject,
    tokens_of: TokensOf,
    texts: Callable[[int], Texts] | None,
) -> Demand:
    """Every server is sent the same texts, which are made once. Where only some output lengths are recorded, their ratio to
    the source stands for the others."""
    known = [(item.source_tokens, item.output_tokens) for item in recorded if item.output_tokens is not None]
    ratio = sum(output for _, output in known) / sum(source for source, _ in known) if known else UNKNOWN_RATIO
    outputs = tuple(item.output_tokens or max(1, round(ratio * item.source_tokens)) for item in recorded)
    sent = recorded if subject.forced else tuple(replace(item, output_tokens=None) for item in recorded)
    sizes = tuple(item.source_tokens + output for item, output in zip(recorded, outputs, strict=True))
    name = f"{description}, drawn" if texts is None else f"{description}, texts made up at their lengths"
    mix = DrawnTexts(name, sent, sizes, tokens_of, texts, subject.seed)
    long = replace(mix, description=f"{name}, half of the longest tenth", tail=frozenset(longest(sizes)))
    return Demand(
        description=description,
        items=recorded,
        outputs=outputs,
        levels=levels,
        shape=prompt_shape(subject),
        workloads={"mix": CachedWorkload(mix), "long": CachedWorkload(long)},
        seed=subject.seed,
        output_estimated=not known,
    )


def _lengths(tokens: Sequence[int]) -> Lengths:
    p50, p95, p99 = (round(found) for found in percentiles(tokens, 50, 95, 99))
    return Lengths(p50, p95, p99, max(tokens))
