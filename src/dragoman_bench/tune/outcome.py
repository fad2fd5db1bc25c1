"""The data of a tune: engine settings, measurements, ladder, memory, final, recommendation; and `tune.json`.

Everything is frozen and made of plain types: `read_tuning` returns what `write_tuning` was given.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman_bench.bench.results import Machine, Verdict, elements, members
from dragoman_bench.bench.tables import write_text

SCHEMA = 2
FINALIST = "finalist"
"""The candidate of the final that the search found."""

Draw = Literal["mix", "long"]
"""What a measurement sends. mix: texts as in the workload; long: half of them from the longest tenth."""
Phase = Literal["ladder", "slots", "batched_tokens", "memory", "optional", "final", "recommended"]
"""Why a trial is made. `memory` checks the sized KV cache; `recommended` measures, after the final, a baseline that is
recommended, with the memory that it will be served with."""
Outcome = Literal["measured", "did_not_start", "failed_under_load", "skipped", "interrupted"]
"""failed_under_load: the server crashed, or the memory check found preemptions or failed requests."""
Metric = Literal["goodput_rps", "rps"]
"""What decides: goodput, or requests a second where no SLO is given or nothing meets it."""
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Knobs:
    """Engine settings that a tune may decide, named as in the server's `[engine]` table. None: the server's default."""

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_cudagraph_capture_size: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_bytes: int | None = None
    enable_prefix_caching: bool | None = None
    scheduling_policy: Literal["fcfs", "priority"] | None = None
    quantization: str | None = None
    data_parallel_size: int | None = None

    @property
    def settings(self) -> dict[str, Value]:
        """Those that are set, by name."""
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


def with_choices(choices: Choices, *changed: Choice) -> Choices:
    """`choices` with those in `changed` in place of the same settings, or added."""
    made = {choice.name: choice for choice in (*choices, *changed)}
    return tuple(made[name] for name in (member.name for member in fields(Knobs)) if name in made)


@dataclass(frozen=True, slots=True)
class Setup:
    """How a server is started, beside the model and its limits."""

    knobs: Knobs
    kind: Literal["dragoman", "vllm"] = "dragoman"

    @property
    def flags(self) -> dict[str, Value]:
        """By flag name. `dragoman serve` takes true or false after a switch, `vllm serve` a `no-` form."""
        flags = {name.replace("_", "-"): value for name, value in self.knobs.settings.items()}
        if self.kind == "vllm":
            return flags
        return {name: str(value).lower() if isinstance(value, bool) else value for name, value in flags.items()}


@dataclass(frozen=True, slots=True)
class Hardware:
    """Where servers run. `memory_bytes`: of one GPU, or of the machine where there is none."""

    device: Literal["cuda", "cpu"]
    memory_bytes: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class LoadLevel:
    """A closed loop of `clients`; with `cap`, at most so many of their requests are at the server at once."""

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
    """As a running server reports it: capacity in tokens, and bytes of one token."""

    tokens: int
    bytes_per_token: float | None = None


@dataclass(frozen=True, slots=True)
class LevelResult:
    """One measurement of a trial at a level. None: not known, or no SLO given."""

    level: LoadLevel
    repeat: int
    window_s: float
    requests: int
    completed: int
    failed: int  # with an error other than `unfinished`
    rps: float
    output_tokens_s: float | None = None
    goodput_rps: float | None = None
    attained_share: float | None = None
    slo_met: bool | None = None
    verdicts: tuple[Verdict, ...] = ()
    e2e_p50_s: float | None = None
    e2e_p95_s: float | None = None
    e2e_p99_s: float | None = None
    ttft_p95_s: float | None = None
    itl_p95_s: float | None = None
    decode_s_per_token: float | None = None  # the server's mean inter-token latency over the measurement
    mean_running: float | None = None
    mean_waiting: float | None = None
    peak_waiting: int | None = None
    peak_kv_cache_usage: float | None = None  # 0..1
    preemptions: int | None = None  # during the measurement
    gpu_mean_percent: float | None = None
    gpu_memory_mib: float | None = None  # at most, of all processes
    file: str = ""  # of the raw results, relative to the tune's folder


Results = tuple[LevelResult, ...]
"""Repeats of one level on one server."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One server start (none where skipped), what was measured on it and how it ended.

    `why` it was made; `reason`: of any outcome but measured, in a line.
    """

    name: str
    phase: Phase
    setup: Setup
    why: str
    outcome: Outcome = "measured"
    reason: str = ""
    results: Results = ()
    start_s: float | None = None
    kv_cache: KvCache | None = None
    gpu_memory_utilization: float | None = None  # as the server reports it
    engine: Mapping[str, Any] = field(
        default_factory=dict[str, Any]
    )  # the engine's settings as the server reports them
    prompt_overhead: int | None = None  # prompt tokens around a text, measured

    def at(self, level: LoadLevel) -> Results:
        """All repeats of a level."""
        return tuple(result for result in self.results if result.level == level)

    @property
    def ending(self) -> str:
        """`did not start: CUDA out of memory`."""
        outcome = self.outcome.replace("_", " ")
        return f"{outcome}: {self.reason}" if self.reason else outcome


@dataclass(frozen=True, slots=True)
class Measure:
    """A measurement that a search wants. `why` the trial is made; `note` why this measurement is repeated.

    `repeat` counts the measurements of this level in this trial from 0; it decides which texts are sent.
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

A trial name stands for one server; measurements of one name follow one another. A server that does not start or crashes, an
interrupt and a time limit are outcomes of the trial that is sent.
"""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of the workload's texts: nearest-rank percentiles."""

    mean: float
    p50: int
    p95: int
    p99: int
    longest: int


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Texts in flight: usually (median), at busy times (95th percentile), at most."""

    low: int
    busy: int
    peak: int
    stated: bool = False  # by the user, not counted in a trace


@dataclass(frozen=True, slots=True)
class DemandSummary:
    """What the tune is for. Token sums are prompts and outputs together, of `peak` texts at once."""

    description: str
    texts: int
    source: Lengths
    output: Lengths | None
    levels: Concurrency
    prompt_overhead: int  # prompt tokens around a text
    longest_sequence: int  # prompt and output
    peak_tokens_drawn: int  # the largest sum in a seeded simulation
    peak_tokens_worst: int  # peak × longest
    output_estimated: bool = False  # outputs are not recorded: a ratio stands for them
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rung:
    """One cap of the ladder, compared with the cap below; `skipped` says why it was not measured."""

    cap: int
    results: Results
    verdict: Literal["first", "higher", "equal", "lower", "not measured"] = "first"
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Ladder:
    """`best`: the cap with the highest metric of those that meet the SLO; `knee`: the smallest of these that is equal to it
    within the spread. None: nothing was measured."""

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
    margin: float
    wanted_tokens: int  # with margin
    capacity_tokens: int | None  # of the server it was computed from
    bytes_per_token: float | None
    setting: Literal["gpu_memory_utilization", "kv_cache_memory_bytes"]
    value: float | int | None  # None: cannot be computed, the server's own size is kept
    saved_bytes: int | None  # against the server it was computed from; negative: it needs more
    because: str
    checked: Literal["held", "did not hold", "not checked"] = "not checked"
    trials: tuple[str, ...] = ()  # names of the checks, in order

    @property
    def choice(self) -> Choice | None:
        """The setting with its reason; None where the server's own size is kept."""
        checked = {
            "held": "it held under 1.5 times the peak with longer texts",
            "did not hold": "it did not hold under 1.5 times the peak with longer texts",
            "not checked": "not checked under load",
        }
        if self.value is None:
            return None
        return Choice(self.setting, self.value, f"{self.because}; {checked[self.checked]}")


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What the search ended with. `best_trial`: the trial whose measurements belong to these settings."""

    choices: Choices
    memory: Memory | None
    best_trial: str | None

    @property
    def knobs(self) -> Knobs:
        return knobs_of(self.choices)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration in the final. `alone`: its settings where it need not share memory with the others."""

    name: str  # finalist, vllm-serve, embedder or story
    title: str
    setup: Setup
    alone: Knobs
    simplicity: int = 0  # of two that are equal, the lower one is recommended


@dataclass(frozen=True, slots=True)
class FinalEntry:
    """A candidate's measurements in the final. `verdict`: of the finalist against it, on the deciding metric."""

    candidate: Candidate
    outcome: Outcome
    reason: str
    busy: Results
    low: Results
    start_s: float | None = None
    kv_cache: KvCache | None = None
    gpu_memory_mib: float | None = None
    verdict: Literal["itself", "higher", "equal", "lower", "not measured"] = "not measured"
    because: str = ""


@dataclass(frozen=True, slots=True)
class Final:
    """`together`: all servers were up and measured in turn; else one after another, round by round."""

    entries: tuple[FinalEntry, ...]
    rounds: int
    together: bool
    memory_note: str  # how memory was shared for the comparison
    metric: Metric


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`candidate`: whose settings these are. `results`: of a recommended baseline, measured by itself at the busy level."""

    candidate: str
    choices: Choices
    headline: str  # one sentence
    because: str  # the measurements that decided
    better: bool  # than every baseline that was measured, beyond the spread
    caveats: tuple[str, ...] = ()
    memory: Memory | None = None
    results: Results = ()

    @property
    def knobs(self) -> Knobs:
        return knobs_of(self.choices)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The whole outcome. Parts that were not reached are None."""

    started_at: str  # ISO 8601, UTC
    model: str
    machine: Machine
    hardware: Hardware
    packages: Mapping[str, str]
    demand: DemandSummary
    slo: str | None
    ladder: Ladder | None = None
    trials: tuple[Trial, ...] = ()  # in the order they were made or skipped
    finding: SearchResult | None = None
    final: Final | None = None
    recommendation: Recommendation | None = None
    estimate_s: float | None = None  # before the first start
    took_s: float | None = None
    partial: bool = False
    partial_because: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])  # everything else that was chosen

    @property
    def memory(self) -> Memory | None:
        """Of what is recommended; before that, of what was found."""
        recommended = self.recommendation.memory if self.recommendation else None
        return recommended or (self.finding.memory if self.finding else None)

    @property
    def choices(self) -> Choices:
        """What to serve with: recommended, else the best found so far, else the ladder's settings; empty: none measured."""
        if self.recommendation is not None:
            return self.recommendation.choices
        if self.finding is not None:
            return self.finding.choices
        if self.ladder is None or self.ladder.knee is None:
            return ()
        reason = "as the ladder was measured with; the search did not get further"
        return tuple(Choice(name, value, reason) for name, value in self.ladder.setup.knobs.settings.items())

    @property
    def starts(self) -> int:
        """Engine starts of the search."""
        return sum(trial.outcome != "skipped" and trial.phase != "recommended" for trial in self.trials)


def by_name(trials: Iterable[Trial]) -> dict[str, Trial]:
    """The last state of each trial, in the order in which they began."""
    return {trial.name: trial for trial in trials}


_ADAPTER = TypeAdapter(Tuning)


def write_tuning(tuning: Tuning, path: Path) -> None:
    """Raises ConfigError where the file cannot be written."""
    document = {"schema": SCHEMA, **_ADAPTER.dump_python(tuning, mode="json")}
    write_text(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n", "out")


def read_tuning(path: Path) -> Tuning:
    """Reads files of schema 1 too. Raises ConfigError on a file that is missing or is not a tune's outcome."""
    try:
        document = dict(members(json.loads(path.read_text(encoding="utf-8"))))
        schema = document.pop("schema", None)
        if schema not in (1, SCHEMA):
            raise ValueError(f"schema {schema}, this version reads 1 and {SCHEMA}")
        return _ADAPTER.validate_python(_upgraded(document) if schema == 1 else document)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path} is not a tune's outcome: {where}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a tune's outcome: {error}") from error


_SCHEMA_1 = {  # words: off
    "place": "hardware",
    "seen": "results",
    "standings": "entries",
    "contender": "candidate",
    "memory_told": "memory_note",
}  # words: on


def _upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 as schema 2: other names, and each value together with its reason."""
    upgraded = members(_renamed(document))
    if finding := members(upgraded.get("finding")):
        reasons, knobs = members(finding.pop("reasons", None)), members(finding.pop("knobs", None))
        values = {name: value for name, value in knobs.items() if value is not None}
        finding["choices"] = [
            {"name": name, "value": value, "reason": reasons.get(name, "")} for name, value in values.items()
        ]
    if recommendation := members(upgraded.get("recommendation")):
        recommendation.pop("knobs", None)
        recommendation["choices"] = [
            {"name": str(one["path"]).partition(".")[2], "value": one["value"], "reason": one["why"]}
            for one in map(members, elements(recommendation.get("choices")))
        ]
    return upgraded


def _renamed(value: object) -> Any:
    if isinstance(value, list):
        return [_renamed(one) for one in elements(cast(object, value))]
    if isinstance(value, dict):
        return {_SCHEMA_1.get(name, name): _renamed(one) for name, one in members(cast(object, value)).items()}
    return value
