"""A simulated engine and a driver over it, for tests of searches: real schedules of steps, no servers and no clock.

Steps decode every running sequence and give what room is left to prompts (chunked prefill, decodes first); a step takes a
base time, a time for each token, and more where its tokens exceed the graph ceiling. The KV cache is handed out in blocks;
where it runs out the youngest sequence is preempted and computed again. Summaries are the bench's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import exp
from random import Random
from typing import TypeVar
from zlib import crc32

from dragoman.bench import histogram
from dragoman.bench.records import ClientUse, RequestRecord, ServerSample, band_of
from dragoman.bench.results import Measurement
from dragoman.bench.slo import Slo
from dragoman.bench.summary import Observed, summarise
from dragoman.bench.workload import Item
from dragoman.tune.demand import Demand, PromptShape
from dragoman.tune.draws import longest, stratified
from dragoman.tune.meter import seen_of
from dragoman.tune.outcome import Levels
from dragoman.tune.points import Ask, Knobs, KvCache, Level, Outcome, Place, Seen, Steps, Trial

GIB = 1 << 30
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Model:
    """What a machine and a model on it cost. Times in seconds."""

    place: Place
    base_s: float
    decode_s: float  # for each sequence that decodes in a step
    prompt_s: float  # for each prompt token in a step
    crowd_s: float = 0.0  # more for each sequence beyond `crowd`: more at once can be worse
    crowd: int = 1 << 30
    eager_s: float = 0.0  # of a step with more tokens than the graph ceiling
    weights_bytes: int = 8 * GIB
    bytes_per_token: int = 147_456
    window: int = 2048
    block: int = 16
    default_cache_bytes: int = 4 * GIB  # on a CPU

    def cache_tokens(self, knobs: Knobs) -> int:
        """What is left for the cache; below nought where the weights do not fit."""
        if self.place.device == "cpu":
            return (knobs.kv_cache_memory_bytes or self.default_cache_bytes) // self.bytes_per_token
        activations = (knobs.max_num_batched_tokens or 2048) * 200_000
        given = (knobs.gpu_memory_utilization or 0.9) * self.place.memory_bytes
        return int((given - self.weights_bytes - activations) // self.bytes_per_token)

    def ceiling(self, knobs: Knobs) -> int:
        return knobs.max_cudagraph_capture_size or min(2 * (knobs.max_num_seqs or 256), 512)


GPU = Model(Place("cuda", 140 * GIB, 1), base_s=0.0144, decode_s=0.00012, prompt_s=0.00005, eager_s=0.009)
CPU = Model(Place("cpu", 24 * GIB), 0.012, 0.0022, 0.00018, weights_bytes=GIB, bytes_per_token=12_288, block=128)


@dataclass(slots=True, eq=False)
class _Sequence:
    index: int
    client: int
    intended_s: float
    source: int
    prompt: int
    output: int
    blocks: int = 0
    computed: int = 0  # prompt tokens, and after a preemption output tokens too, that are in the cache
    made: int = 0
    first_s: float | None = None
    gaps: list[float] = field(default_factory=list[float])
    last_s: float = 0.0

    @property
    def target(self) -> int:
        return self.prompt + self.made

    @property
    def decoding(self) -> bool:
        return self.made > 0 and self.computed >= self.target - 1


@dataclass(slots=True)
class Simulation:
    """One measurement: a closed loop of clients on an engine."""

    model: Model
    knobs: Knobs
    level: Level
    sizes: Iterator[tuple[int, int, int]]  # source, prompt, output
    slowness: float = 1.0
    duration_s: float = 12.0
    now_s: float = 0.0
    preemptions: int = 0
    free: int = 0  # blocks
    least_free: int = 0
    count: int = 0
    all_gaps: list[float] = field(default_factory=list[float])
    outside: deque[_Sequence] = field(default_factory=deque[_Sequence])
    waiting: deque[_Sequence] = field(default_factory=deque[_Sequence])
    running: list[_Sequence] = field(default_factory=list[_Sequence])
    records: list[RequestRecord] = field(default_factory=list[RequestRecord])

    def run(self) -> None:
        self.free = self.least_free = self.blocks
        for client in range(self.level.clients):
            self._send(client)
        while self.waiting or self.running:
            self._step()

    @property
    def blocks(self) -> int:
        return self.model.cache_tokens(self.knobs) // self.model.block

    def _send(self, client: int) -> None:
        if self.now_s >= self.duration_s:
            return
        source, prompt, output = next(self.sizes)
        self.outside.append(_Sequence(self.count, client, self.now_s, source, prompt, output))
        self.count += 1
        self._enter()

    def _enter(self) -> None:
        """The cap in front of the engine."""
        cap = self.level.cap or self.level.clients
        while self.outside and len(self.waiting) + len(self.running) < cap:
            self.waiting.append(self.outside.popleft())

    def _step(self) -> None:
        room = self.knobs.max_num_batched_tokens or 2048
        decodes = [one for one in self.running if one.decoding]
        grown = [(one, 1) for one in decodes[:room] if self._hold(one, 1)]
        left = room - len(grown)
        for one in [one for one in self.running if not one.decoding]:
            chunk = min(left, one.target - one.computed)
            if chunk and self._hold(one, chunk):
                grown.append((one, chunk))
                left -= chunk
        while self.waiting and left and len(self.running) < (self.knobs.max_num_seqs or 256):
            one = self.waiting[0]
            if self.free < self._blocks(one.target):
                break
            chunk = min(left, one.target)
            self.running.append(self.waiting.popleft())
            self._hold(one, chunk)
            grown.append((one, chunk))
            left -= chunk
        self._pass(len(decodes), room - left - len(decodes))
        self._grow([(one, chunk) for one, chunk in grown if one.blocks])

    def _pass(self, decodes: int, prompts: int) -> None:
        model = self.model
        taken = model.base_s + decodes * model.decode_s + prompts * model.prompt_s
        taken += max(0, decodes - model.crowd) * model.crowd_s
        if decodes + prompts > model.ceiling(self.knobs):
            taken += model.eager_s
        self.now_s += taken * self.slowness

    def _grow(self, grown: list[tuple[_Sequence, int]]) -> None:
        for one, chunk in grown:
            one.computed += chunk
            if one.computed < one.target:
                continue
            one.made += 1
            if one.first_s is None:
                one.first_s = self.now_s
            else:
                one.gaps.append(self.now_s - one.last_s)
                self.all_gaps.append(one.gaps[-1])
            one.last_s = self.now_s
        self.least_free = min(self.least_free, self.free)
        for one in [one for one in self.running if one.made >= one.output]:
            self.running.remove(one)
            self._release(one)
            self.records.append(self._record(one))
            self._send(one.client)
        self._enter()

    def _hold(self, one: _Sequence, tokens: int) -> bool:
        """Room for so many more of it; the youngest go where there is none."""
        if one not in self.running:
            return False
        more = self._blocks(one.computed + tokens) - one.blocks
        while self.free < more:
            youngest = self.running.pop()
            self._release(youngest)
            youngest.computed = 0
            self.waiting.appendleft(youngest)
            self.preemptions += 1
            if youngest is one:
                return False
        self.free -= more
        one.blocks += more
        return True

    def _release(self, one: _Sequence) -> None:
        self.free += one.blocks
        one.blocks = 0

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.model.block)

    def _record(self, one: _Sequence) -> RequestRecord:
        gaps = sorted(one.gaps)
        return RequestRecord(
            index=one.index,
            text=one.index,
            intended_s=one.intended_s,
            sent_s=one.intended_s,
            first_token_s=one.first_s,
            done_s=self.now_s,
            source_tokens=one.source,
            source_characters=4 * one.source,
            band=band_of(one.source),
            output_tokens=one.made,
            status=200,
            itl_count=len(gaps),
            itl_mean_s=sum(gaps) / len(gaps) if gaps else None,
            itl_p95_s=gaps[int(0.95 * len(gaps))] if gaps else None,
            itl_max_s=gaps[-1] if gaps else None,
        )


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
        observed = Observed(records, run.duration_s, "finished", histogram.count(run.all_gaps), samples)
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
