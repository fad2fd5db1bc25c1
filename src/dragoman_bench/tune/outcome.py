"""The data of a tune: engine settings, measurements, ladder, memory, final, recommendation; and `tune.json`.

All classes are frozen and have plain types, so that `read_tuning` returns exactly what `write_tuning` wrote.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from dragoman_bench.bench.measurement import Machine, ResultsFile
from dragoman_bench.bench.results import Verdict

SCHEMA = 2
FINALIST = "finalist"
"""The candidate of the final that the search found."""

Draw = Literal["mix", "long"]
"""What a measurement sends. mix: texts as in the workload; long: half of them from the longest tenth."""
Phase = Literal["ladder", "slots", "batched_tokens", "memory", "final", "recommended"]
"""Why a trial is made, in order. `memory` checks the sized KV cache. `recommended`: of an earlier version, which measured a
recommended baseline by itself."""
Outcome = Literal["measured", "did_not_start", "failed_under_load", "skipped", "interrupted"]
"""failed_under_load: the server crashed, or the memory check found preemptions or failed requests. skipped: by an earlier
version, which had a time limit."""
Metric = Literal["goodput_rps", "rps"]
"""What decides: goodput, or requests a second where no SLO is given or nothing meets it."""
Value = str | int | float


@dataclass(frozen=True, slots=True)
class Knobs:
    """Engine settings that a tune may decide, named as in the server's `[engine]` table. None: the server's default."""

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_cudagraph_capture_size: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None

    @property
    def settings(self) -> dict[str, Value]:
        """Return the settings that have a value, by name."""
        values = {member.name: getattr(self, member.name) for member in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def label(self) -> str:
        """`max_num_seqs 16, max_num_batched_tokens 8192`, or `its own defaults`."""
        return ", ".join(f"{name} {value}" for name, value in self.settings.items()) or "its own defaults"


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of one engine setting and the reason for this value."""

    name: str
    value: Value
    reason: str


Choices = tuple[Choice, ...]


def knobs_of(choices: Choices) -> Knobs:
    values: dict[str, Any] = {choice.name: choice.value for choice in choices}
    return Knobs(**values)


def choices_of(knobs: Knobs, reason: str) -> Choices:
    """Return a choice for each setting of `knobs`, with the same reason."""
    return tuple(Choice(name, value, reason) for name, value in knobs.settings.items())


def with_choices(choices: Choices, *changed: Choice) -> Choices:
    """Return `choices` with those in `changed` replaced or added."""
    made = {choice.name: choice for choice in (*choices, *changed)}
    return tuple(made[member.name] for member in fields(Knobs) if member.name in made)


@dataclass(frozen=True, slots=True)
class Setup:
    """The flags with which a server is started, besides the model and its limits."""

    knobs: Knobs
    kind: Literal["dragoman", "vllm"] = "dragoman"

    @property
    def flags(self) -> dict[str, Value]:
        """Return the flags by name."""
        return {name.replace("_", "-"): value for name, value in self.knobs.settings.items()}


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """A closed loop of `clients`; `cap`: the limit of their requests at the server at the same time."""

    clients: int
    cap: int | None = None
    draw: Draw = "mix"

    @property
    def label(self) -> str:
        label = f"{self.clients} client{'s' if self.clients != 1 else ''}"
        label += f", at most {self.cap} at once" if self.cap is not None else ""
        return f"{label}, long texts" if self.draw == "long" else label


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache that a server reports: capacity in tokens, and bytes per token."""

    tokens: int
    bytes_per_token: float | None = None


@dataclass(frozen=True, slots=True)
class LevelResult:
    """A measurement of a trial at a level. None: unknown, or no SLO. The numbers are those of the bench's `Summary`."""

    level: LoadLevel
    repeat: int
    window_s: float
    requests: int
    completed: int
    failed: int  # with an error other than `unfinished`
    rps: float
    output_tokens_s: float | None = None
    goodput_rps: float | None = None
    slo_met: bool | None = None
    verdicts: tuple[Verdict, ...] = ()
    e2e_p50_s: float | None = None
    e2e_p95_s: float | None = None
    e2e_p99_s: float | None = None
    itl_p95_s: float | None = None
    decode_s_per_token: float | None = None
    mean_running: float | None = None
    mean_waiting: float | None = None
    peak_kv_cache_usage: float | None = None  # 0..1
    preemptions: int | None = None
    gpu_mean_percent: float | None = None
    file: str = ""  # of the raw results, relative to the tune's folder


Results = tuple[LevelResult, ...]
"""Repeats of one level on one server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Facts that a running server reports; None or empty if it does not report them."""

    start_s: float | None = None
    kv_cache: KvCache | None = None
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])  # its settings
    prompt_overhead: int | None = None  # prompt tokens around a text, measured


@dataclass(frozen=True, slots=True)
class Trial(ServerFacts):
    """A server start (or a skipped one), its measurements and its outcome.

    `why`: the purpose of the trial; `reason`: one line, for every outcome except measured.
    """

    name: str
    phase: Phase
    setup: Setup
    why: str
    outcome: Outcome = "measured"
    reason: str = ""
    results: Results = ()

    def at(self, level: LoadLevel) -> Results:
        """Return all repeats of a level."""
        return tuple(result for result in self.results if result.level == level)

    @property
    def failed(self) -> bool:
        return self.outcome in ("did_not_start", "failed_under_load")

    @property
    def not_reached(self) -> bool:
        return self.outcome in ("skipped", "interrupted")

    @property
    def ending(self) -> str:
        """Describe how the trial ended: `did not start: CUDA out of memory`."""
        outcome = self.outcome.replace("_", " ")
        return f"{outcome}: {self.reason}" if self.reason else outcome


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement that a search requests. `why`: the purpose of the trial; `note`: the reason for a repeat.

    `repeat` counts the measurements of this level in this trial from 0, and selects the texts that are sent.
    """

    trial: str
    phase: Phase
    setup: Setup
    level: LoadLevel
    why: str
    repeat: int = 0
    note: str = ""


_R = TypeVar("_R")
Search = Generator[Measure | Trial, Trial, _R]
"""Yields a `Measure` (a measurement that it wants) or a `Trial` to record, and is sent the trial as it then stands.

A trial name stands for one server; measurements of one name follow one another. A server that does not start or crashes and an
interrupt are outcomes of the trial that is sent.
"""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Nearest-rank percentiles of the tokens of the workload's texts."""

    p50: int
    p95: int
    p99: int
    longest: int


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Texts in flight: at busy times (95th percentile), and the maximum."""

    busy: int
    peak: int
    stated: bool = False  # by the user, not counted in a trace

    @property
    def label(self) -> str:
        return f"{self.busy} texts at once when busy, {self.peak} at most"


@dataclass(frozen=True, slots=True)
class DemandSummary:
    """The traffic for which the tune is made."""

    description: str
    texts: int
    source: Lengths
    output: Lengths | None
    levels: Concurrency
    prompt_overhead: int  # prompt tokens around a text
    output_estimated: bool = False  # outputs are not recorded: a ratio stands for them
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rung:
    """A cap of the ladder, compared with the next lower one; `skipped`: why it was not measured."""

    cap: int
    results: Results
    verdict: Literal["first", "higher", "equal", "lower", "not measured"] = "first"
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The result of the ladder. `best`: the cap with the highest metric of those that meet the SLO; `knee`: the smallest of
    these that is equal to it within the spread. None: nothing was measured."""

    clients: int
    setup: Setup
    rungs: tuple[Rung, ...]
    metric: Metric
    knee: int | None
    best: int | None
    ended: str  # why the climb ended where it did
    because: str  # why this knee


@dataclass(frozen=True, slots=True)
class Memory:
    """The KV cache that the workload needs, and the setting that gives it. Bytes of all layers."""

    needed_tokens: int  # without margin
    wanted_tokens: int  # with margin
    capacity_tokens: int | None  # of the server it was computed from
    bytes_per_token: float | None
    setting: Literal["gpu_memory_utilization", "kv_cache_memory_bytes"]
    value: float | int | None  # None: cannot be computed, the server's own size is kept
    because: str
    checked: Literal["held", "did not hold", "not checked"] = "not checked"
    trials: tuple[str, ...] = ()  # names of the checks, in order

    @property
    def choice(self) -> Choice | None:
        """Return the setting with its reason; None if the server's own size is kept."""
        if self.value is None:
            return None
        under = "not checked under load"
        if self.checked != "not checked":
            under = f"it {self.checked} under 1.5 times the peak with longer texts"
        return Choice(self.setting, self.value, f"{self.because}; {under}")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of the search. `best_trial`: the trial whose measurements belong to these settings."""

    choices: Choices
    memory: Memory | None
    best_trial: str | None

    @property
    def knobs(self) -> Knobs:
        return knobs_of(self.choices)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration in the final. `alone`: the settings with which dragoman serves in the same way."""

    name: str  # finalist, vllm-serve, embedder or story
    title: str
    setup: Setup
    alone: Knobs


@dataclass(frozen=True, slots=True)
class FinalEntry:
    """A candidate's measurements in the final; none if it failed. `verdict`: how the finalist compares with it by the
    deciding metric."""

    candidate: Candidate
    outcome: Outcome
    reason: str
    busy: Results
    verdict: Literal["itself", "higher", "equal", "lower", "not measured"] = "not measured"


@dataclass(frozen=True, slots=True)
class Final:
    entries: tuple[FinalEntry, ...]
    rounds: int
    memory_note: str  # what of the machine's memory the servers had
    metric: Metric

    @property
    def measured(self) -> list[FinalEntry]:
        return [entry for entry in self.entries if entry.busy]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The recommended settings. `candidate`: whose settings they are. `memory`: None if it was not sized."""

    candidate: str
    choices: Choices
    headline: str  # one sentence
    because: str  # the measurements that decided
    caveats: tuple[str, ...] = ()
    memory: Memory | None = None

    @property
    def knobs(self) -> Knobs:
        return knobs_of(self.choices)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The outcome of a tune. Parts that were not reached are None."""

    started_at: str  # ISO 8601, UTC
    model: str
    machine: Machine
    packages: Mapping[str, str]
    demand: DemandSummary
    slo: str | None
    ladder: Ladder | None = None
    trials: tuple[Trial, ...] = ()  # in the order they were made or skipped
    finding: SearchResult | None = None
    final: Final | None = None
    recommendation: Recommendation | None = None
    took_s: float | None = None
    partial: bool = False
    partial_because: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # everything else that was chosen

    @property
    def memory(self) -> Memory | None:
        """The memory of the recommended settings, or of those that the search found."""
        found = self.recommendation or self.finding
        return found.memory if found else None

    @property
    def choices(self) -> Choices:
        """The recommended settings, else the best so far, else the ladder's; empty if nothing was measured."""
        if found := self.recommendation or self.finding:
            return found.choices
        if self.ladder is None or self.ladder.knee is None:
            return ()
        return choices_of(self.ladder.setup.knobs, "as the ladder was measured with; the search did not get further")


_FILE = ResultsFile("tune", Tuning, SCHEMA)
read_tuning, write_tuning = _FILE.read, _FILE.write
