"""The nouns of a whole tune: demand, ladder, knee, memory, final, recommendation; what report, JSON and dragoman.toml are
made from.

Frozen, of plain types: to JSON and back with pydantic. Knows neither how a search decides nor how its outcome is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman_bench.bench.results import Machine
from dragoman_bench.tune.points import Knobs, KvCache, Outcome, Place, Seen, Setup, Trial, Value

Metric = Literal["goodput_rps", "rps"]
"""What decides: goodput, or requests a second where no SLO is stated or nothing attains it."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of the demand's texts: nearest-rank percentiles."""

    mean: float
    p50: int
    p95: int
    p99: int
    longest: int


@dataclass(frozen=True, slots=True)
class Levels:
    """How many clients there are at once: usually, at busy times, at worst."""

    low: int
    busy: int
    peak: int
    stated: bool = False  # by the user, not counted in a trace


@dataclass(frozen=True, slots=True)
class DemandSummary:
    """What the tune is for. Token sums are prompts and outputs together, of `peak` sequences at once."""

    description: str
    texts: int
    source: Lengths
    output: Lengths | None  # None: not known before it was measured
    levels: Levels
    prompt_overhead: int  # tokens of the prompt around a text
    longest_sequence: int  # prompt and output
    peak_tokens_drawn: int  # the largest sum in a seeded simulation of draws
    peak_tokens_worst: int  # peak × longest
    output_estimated: bool = False  # outputs are not recorded: a ratio stands for them
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rung:
    """One cap of the ladder. `verdict` compares it with the rung below; `skipped` (then nothing is seen) says why not
    measured."""

    cap: int
    seen: tuple[Seen, ...]
    verdict: Literal["first", "higher", "equal", "lower", "not measured"] = "first"
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Ladder:
    """The climb. `metric` names the number that decided (`goodput_rps`, or `rps` where no rung attains the SLO or none
    is stated); `knee` is the smallest cap that is equal to the best within the spread; None: nothing was measured."""

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
    """The KV cache that the demand needs, and the setting that gives it. Bytes of all layers."""

    needed_tokens: int  # without margin
    margin: float
    wanted_tokens: int  # with margin
    capacity_tokens: int | None  # of the server it was computed from
    bytes_per_token: float | None
    setting: Literal["gpu_memory_utilization", "kv_cache_memory_bytes"]
    value: float | int | None  # None: cannot be computed; the server's own is kept
    saved_bytes: int | None  # against the server it was computed from; negative: it needs more
    because: str
    checked: Literal["held", "did not hold", "not checked"] = "not checked"
    trials: tuple[str, ...] = ()  # names of the checks, in order; the last is the one that held, if any did

    @property
    def told(self) -> str:
        """Why this size, and whether it was shown to hold."""
        checked = {
            "held": "; it held under 1.5 times the peak with longer texts",
            "did not hold": "; it did not hold under 1.5 times the peak with longer texts",
            "not checked": "; not checked under load",
        }
        return self.because + checked[self.checked]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a search of the knobs ended with: the best knobs, and for each setting why it is what it is."""

    knobs: Knobs
    reasons: Mapping[str, str]  # by setting name
    memory: Memory | None
    best_trial: str | None  # name of the trial whose numbers speak for these knobs


@dataclass(frozen=True, slots=True)
class Contender:
    """A configuration in the final. `alone`: what it asks for by itself, where the comparison gives it other memory."""

    name: str  # finalist, embedder, vllm-serve, story
    title: str
    setup: Setup
    alone: Knobs
    simplicity: int = 0  # of two that are equal, the lower is recommended


@dataclass(frozen=True, slots=True)
class Standing:
    """A contender's numbers in the final. `verdict`: of the finalist against it, on the deciding metric."""

    contender: Contender
    outcome: Outcome
    reason: str
    busy: tuple[Seen, ...]
    low: tuple[Seen, ...]
    start_s: float | None = None
    kv_cache: KvCache | None = None
    gpu_memory_mib: float | None = None
    verdict: Literal["itself", "higher", "equal", "lower", "not measured"] = "not measured"
    because: str = ""


@dataclass(frozen=True, slots=True)
class Final:
    """`together`: all servers were up and measured in turn; else one after another, round by round."""

    standings: tuple[Standing, ...]
    rounds: int
    together: bool
    memory_told: str  # how memory was shared for the comparison
    metric: Metric


@dataclass(frozen=True, slots=True)
class Choice:
    """One setting of the recommendation; `path` as `settings` has it (`engine.max_num_seqs`)."""

    path: str
    value: Value
    why: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`contender` names whose knobs these are: the finalist's, or a simpler one's where the finalist is not better. `memory`:
    theirs. `seen`: a simpler one's by itself, at the busy level, with that memory; empty where it was not measured so."""

    contender: str
    knobs: Knobs
    choices: tuple[Choice, ...]
    headline: str  # one sentence
    because: str  # the numbers that decided
    better: bool  # than every baseline that was measured, beyond the spread
    caveats: tuple[str, ...] = ()
    memory: Memory | None = None
    seen: tuple[Seen, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuning:
    """The whole outcome: what report, JSON and dragoman.toml are made from. Parts that were not reached are None."""

    started_at: str  # ISO 8601, UTC
    model: str
    machine: Machine
    place: Place
    packages: Mapping[str, str]
    demand: DemandSummary
    slo: str | None
    ladder: Ladder | None = None
    trials: tuple[Trial, ...] = ()  # in the order they were made or skipped; the ladder's is the first
    finding: Finding | None = None
    final: Final | None = None
    recommendation: Recommendation | None = None
    estimate_s: float | None = None  # told before the first start
    took_s: float | None = None
    partial: bool = False
    partial_because: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # everything else that was chosen

    @property
    def memory(self) -> Memory | None:
        """Of what is recommended; before that, of what was found."""
        told = self.recommendation.memory if self.recommendation else None
        return told or (self.finding.memory if self.finding else None)

    @property
    def starts(self) -> int:
        """How many times an engine was started for the search."""
        return sum(trial.outcome != "skipped" and trial.phase != "recommended" for trial in self.trials)
