"""The nouns of measuring: knobs and servers, what a search asks, what was seen. (`outcome` has the whole result.)

A search (`ladder.climb`, `knobs.search`) is a generator. It yields an `Ask` (measure this), or a `Trial` to put on record:
one that it skips, or one that it judges to have failed under a load. It is sent the trial as it then stands: for an `Ask`
with all that has been seen of that trial so far, for a record the same trial. Asks with the same trial name follow one
another, and mean the same server: a driver starts one when the name is new and may stop it when another name comes. A
driver that cannot or will not do what is asked (a server that does not start or dies, no time left) sends the trial with
that outcome and its reason, and the search goes on without it. Everything is frozen, made of plain types, and
goes to JSON and back. Knows neither how a search decides nor how anything is measured or told.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from dragoman_bench.bench.results import Verdict

Kind = Literal["dragoman", "vllm"]  # as journey's steps: whose server it is
Device = Literal["cuda", "cpu"]
Draw = Literal["mix", "long"]
"""What a measurement sends. mix: texts as the demand has them; long: half of them from its longest tenth."""
Phase = Literal["ladder", "slots", "batched_tokens", "memory", "optional", "final", "recommended"]
"""Why a trial is made. `memory` is the check of the sized KV cache under more than the peak load; `recommended` shows, after
the final, a simpler setup that is recommended in the finalist's place."""
Outcome = Literal["measured", "did_not_start", "failed_under_load", "skipped", "interrupted"]
"""measured: so far, all that was asked of it. failed_under_load: the server died, or the check found preemptions or
failed requests. skipped: never asked (`Trial.reason` says why). interrupted: stopped by hand; what was seen is kept."""
Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Knobs:
    """Engine settings that a tune may decide, named as in `settings.EngineSettings`. None: left to the server."""

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
        """By setting name, those that are decided."""
        values = {member.name: getattr(self, member.name) for member in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def label(self) -> str:
        """For people: `max_num_seqs 16, max_num_batched_tokens 8192`; `its own defaults` where nothing is decided."""
        return ", ".join(f"{name} {value}" for name, value in self.settings.items()) or "its own defaults"


@dataclass(frozen=True, slots=True)
class Setup:
    """A server as it is to be started, beside what the subject says."""

    knobs: Knobs
    kind: Kind = "dragoman"

    @property
    def flags(self) -> dict[str, Value]:
        """By flag name without dashes in front. dragoman's switches take a value, vLLM's are flags with a `no-` form."""
        told = {name.replace("_", "-"): value for name, value in self.knobs.settings.items()}
        if self.kind == "vllm":
            return told
        return {name: str(value).lower() if isinstance(value, bool) else value for name, value in told.items()}


@dataclass(frozen=True, slots=True)
class Place:
    """Where servers run. `memory_bytes`: of one GPU, or of the machine where there is none."""

    device: Device
    memory_bytes: int
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """A closed loop of `clients`; with `cap`, at most so many requests at the server at once (the plan's connections)."""

    clients: int
    cap: int | None = None
    draw: Draw = "mix"

    @property
    def label(self) -> str:
        clients = f"{self.clients} client{'s' if self.clients != 1 else ''}"
        told = f"{clients}, at most {self.cap} at once" if self.cap is not None else clients
        return f"{told}, long texts" if self.draw == "long" else told


@dataclass(frozen=True, slots=True)
class Ask:
    """One measurement that a search wants. `why` is the trial's reason, `note` this measurement's where it has its own
    (a repeat). `repeat` counts the measurements of this level in this trial from 0: it decides which texts are sent."""

    trial: str
    phase: Phase
    setup: Setup
    level: Level
    why: str
    repeat: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class KvCache:
    """What a running server says of its KV cache: capacity in tokens, and bytes that one of them takes."""

    tokens: int
    bytes_per_token: float | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Every number of one measurement of a trial at a level. None: not known, or no SLO stated."""

    level: Level
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
    file: str = ""  # of its raw results, relative to the tune's folder


@dataclass(frozen=True, slots=True)
class Trial:
    """One server start (or none: skipped), all that was seen of it, and how it ended. `reason`: of any outcome but
    measured, for people: for a start that failed, its log's telling line."""

    name: str
    phase: Phase
    setup: Setup
    why: str
    outcome: Outcome = "measured"
    reason: str = ""
    seen: tuple[Seen, ...] = ()
    start_s: float | None = None
    kv_cache: KvCache | None = None
    gpu_memory_utilization: float | None = None  # as the server says it runs with
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])  # the engine's settings as the server says them

    @property
    def started(self) -> bool:
        return self.outcome not in ("did_not_start", "skipped")

    def at(self, level: Level) -> tuple[Seen, ...]:
        """All repeats of a level."""
        return tuple(seen for seen in self.seen if seen.level == level)


_R = TypeVar("_R")
Steps = Generator[Ask | Trial, Trial, _R]
"""A search: yields what to measure or to record, is sent the trial as it stands, returns its finding."""


def by_name(trials: Iterable[Trial]) -> dict[str, Trial]:
    """The last word on each trial, in the order in which they first came."""
    found: dict[str, Trial] = {}
    for trial in trials:
        found[trial.name] = trial
    return found
