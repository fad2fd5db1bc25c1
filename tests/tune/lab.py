"""A driver over a simulated engine, for tests of searches. Summaries are the bench's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import exp
from random import Random
from typing import TypeVar
from zlib import crc32

from dragoman_bench.bench.results import ClientUse, Measurement, ServerSample
from dragoman_bench.bench.summary import Observed, Slo, bucket_counts, summarise
from dragoman_bench.bench.workload import Item
from dragoman_bench.tune.demand import Demand, PromptShape
from dragoman_bench.tune.draws import longest, stratified
from dragoman_bench.tune.extras import Extra
from dragoman_bench.tune.knobs import search
from dragoman_bench.tune.ladder import climb
from dragoman_bench.tune.meter import seen_of
from dragoman_bench.tune.outcome import Finding, Ladder, Levels
from dragoman_bench.tune.points import Ask, Knobs, KvCache, Level, Outcome, Place, Seen, Steps, Trial
from tests.tune.simulation import Model, Simulation

R = TypeVar("R")

Fault = Callable[[Knobs, Level | None], str]
"""Why a server does not start (no level), or dies at a level; empty where it does not."""


def sound(knobs: Knobs, level: Level | None) -> str:
    return ""


@dataclass(slots=True)
class Lab:
    """Answers a search's questions by simulation. `noise`: of a measurement and, half of it, of a start."""

    model: Model
    demand: Demand
    slo: Slo | None
    noise: float = 0.0
    seed: int = 0
    fault: Fault = sound
    trials: dict[str, Trial] = field(default_factory=dict[str, Trial])
    asked: list[Ask] = field(default_factory=list[Ask])
    up: str = ""

    def drive(self, steps: Steps[R], most: int = 200) -> R:
        """The search to its end; AssertionError where it asks too much."""
        try:
            step = next(steps)
            for _ in range(most):
                step = steps.send(self._answered(step))
        except StopIteration as end:
            return end.value
        raise AssertionError("the search does not end")

    @property
    def starts(self) -> int:
        return sum(trial.outcome != "skipped" for trial in self.trials.values())

    @property
    def skipped(self) -> dict[str, str]:
        return {name: trial.reason for name, trial in self.trials.items() if trial.outcome == "skipped"}

    def truth(self, knobs: Knobs, level: Level | None = None, repeats: int = 3) -> float:
        """Goodput (requests a second without an SLO) without noise, over several draws."""
        level = level or Level(self.demand.levels.busy)
        quiet = replace(self, noise=0.0)
        seen = [quiet.measure(knobs, level, repeat) for repeat in range(repeats)]
        return sum(one.rps if self.slo is None else one.goodput_rps or 0.0 for one in seen) / repeats

    def measure(self, knobs: Knobs, level: Level, repeat: int, trial: str = "") -> Seen:
        random = Random(f"{self.seed}/{trial}/{level.label}/{repeat}")
        start = Random(f"{self.seed}/{trial}").gauss(0.0, self.noise / 2)
        slowness = exp(random.gauss(0.0, self.noise) + start)
        run = Simulation(self.model, knobs, level, _sizes(self.demand, level, repeat), slowness)
        run.run()
        usage = 1 - run.least_free / run.blocks
        samples = (
            ServerSample(0.0, 0, 0, 0.0, 0, 0.0, 0.0, 0),
            ServerSample(run.duration_s, 1, 0, usage, run.preemptions, 0.0, sum(run.all_gaps), len(run.all_gaps)),
        )
        records = tuple(sorted(run.records, key=lambda record: record.index))
        observed = Observed(records, run.duration_s, "finished", bucket_counts(run.all_gaps), samples)
        summary = summarise(observed, self.slo)
        use = ClientUse(1, 0.1, 0.001)
        whole = Measurement(
            repeat,
            "2025-01-01T00:00:00+00:00",
            run.duration_s,
            "finished",
            run.count,
            records,
            {},
            samples,
            (),
            use,
            summary,
        )
        return seen_of(whole, level)

    def _answered(self, step: Ask | Trial) -> Trial:
        trial = step if isinstance(step, Trial) else self._made(step)
        self.trials[trial.name] = trial
        return trial

    def _made(self, ask: Ask) -> Trial:
        self.asked.append(ask)
        known, knobs = self.trials.get(ask.trial), ask.setup.knobs
        assert ask.trial == self.up or known is None, f"{ask.trial} would be started a second time"
        self.up = ask.trial
        trial = known or Trial(ask.trial, ask.phase, ask.setup, ask.why)
        assert trial.setup == ask.setup
        assert ask.repeat == len(trial.at(ask.level))
        if known is None and (reason := self._start_fault(knobs)):
            return _ended(trial, "did_not_start", reason)
        if reason := self.fault(knobs, ask.level):
            return _ended(trial, "failed_under_load", reason)
        seen = self.measure(knobs, ask.level, ask.repeat, ask.trial)
        return replace(
            trial,
            seen=(*trial.seen, seen),
            start_s=30.0,
            kv_cache=KvCache(self.model.cache_tokens(knobs), self.model.bytes_per_token),
            gpu_memory_utilization=(knobs.gpu_memory_utilization or 0.9) if self.model.place.device == "cuda" else None,
            engine={"max_model_len": self.model.window},
        )

    def _start_fault(self, knobs: Knobs) -> str:
        if self.model.cache_tokens(knobs) < self.model.window:
            return "No available memory for the cache blocks"
        return self.fault(knobs, None)


def demand(
    clients: str | tuple[int, int, int] = (2, 25, 25),
    *,
    lengths: tuple[int, int] = (10, 200),
    overhead: int = 40,
    long: tuple[int, int] | None = None,
    shape: PromptShape | None = None,
) -> Demand:
    """Texts of log-even lengths; `long`: so many of them have so many tokens instead."""
    random = Random(5)
    low, high = lengths
    sources = [round(low * (high / low) ** random.random()) for _ in range(600)]
    if long is not None:
        count, tokens = long
        sources[:count] = [tokens] * count
    outputs = tuple(max(1, round(tokens * random.uniform(0.8, 1.3))) for tokens in sources)
    items = tuple(Item("x", "en", "ja", tokens) for tokens in sources)
    low_clients, busy, peak = clients if isinstance(clients, tuple) else (2, 25, 25)
    levels = Levels(low_clients, busy, peak)
    return Demand("a simulation's", items, outputs, levels, shape or PromptShape(overhead), {}, 3)


def _ended(trial: Trial, outcome: Outcome, reason: str) -> Trial:
    return replace(trial, outcome=outcome, reason=reason)


def _sizes(demand: Demand, level: Level, repeat: int) -> Iterator[tuple[int, int, int]]:
    """The same texts at the same level and repeat, whatever is measured."""
    totals, prompts = demand.totals, demand.prompts
    random = Random(crc32(f"{level.label}/{repeat}".encode()))
    mix, tail = stratified(totals, random), longest(totals)
    while True:
        place = next(mix)
        yield demand.items[place].source_tokens, prompts[place], demand.outputs[place]
        if level.draw == "long":
            place = random.choice(tail)
            yield demand.items[place].source_tokens, prompts[place], demand.outputs[place]


def whole_search(
    demand: Demand, place: Place, slo: Slo | None, also: Sequence[Extra] = ()
) -> Steps[tuple[Ladder, Finding]]:
    """The ladder, then the knobs."""
    ladder, trial = yield from climb(demand, place, slo)
    return ladder, (yield from search(demand, place, slo, ladder, trial, also))
