"""Results of a load test: conditions, load levels with their repeats, raw records and summaries.

Rows of records and samples are stored by column, so that a file of 10,000 requests stays near a megabyte.
`read_results(write_results(r)) == r`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from dragoman.wire import LengthBand
from dragoman_bench.bench.measurement import Machine, ResultsFile, elements, members

LoadKind = Literal["closed", "constant", "poisson", "replay"]
LOAD_KINDS: tuple[LoadKind, ...] = get_args(LoadKind)
ErrorKind = Literal[
    "refused",  # 429: admission control
    "unavailable",  # 503
    "rejected",  # any other 4xx
    "server_error",  # any other 5xx, or an error event inside a stream
    "timeout",  # no whole answer within the time limit, counted from the intended send
    "connect",  # no connection
    "disconnect",  # the connection ended before the answer did
    "bad_reply",  # an answer that is not in the API's format
    "unfinished",  # the run was stopped while it was in flight
]


@dataclass(frozen=True, slots=True)
class Load:
    """A load level. `closed` has clients; `constant` and `poisson` a rate; `replay` the times of a trace."""

    kind: LoadKind
    clients: int | None = None
    rate_rps: float | None = None

    @property
    def open(self) -> bool:
        """Whether requests are sent at scheduled times, independent of the server's answers."""
        return self.kind != "closed"

    @property
    def order(self) -> tuple[int, float]:
        """Return a sort key: by kind, lowest first."""
        return LOAD_KINDS.index(self.kind), self.clients or self.rate_rps or 0.0

    @property
    def label(self) -> str:
        if self.kind == "closed":
            return f"{self.clients} clients" if self.clients != 1 else "1 client"
        return "replay" if self.kind == "replay" else f"{self.rate_rps:g} req/s {self.kind}"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request from its intended send time to its end. Latency is `done_s - intended_s`, even if it was sent late."""

    index: int  # its place in the plan
    text: int  # which text of the workload
    intended_s: float
    sent_s: float | None  # None: it ended before it could be sent
    first_token_s: float | None  # streams only
    done_s: float
    source_tokens: int
    band: LengthBand
    output_tokens: int | None = None  # as the server reports it
    status: int | None = None  # HTTP
    error: ErrorKind | None = None  # None: completed
    finish_reason: str | None = None
    retry_after_s: float | None = None
    itl_count: int = 0  # gaps between streamed events; a server may put several tokens in one event
    itl_mean_s: float | None = None
    itl_max_s: float | None = None  # unknown in files of earlier versions

    @property
    def completed(self) -> bool:
        return self.error is None

    @property
    def e2e_s(self) -> float:
        return self.done_s - self.intended_s

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_token_s is None else self.first_token_s - self.intended_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first (vLLM's TPOT); None if it is not known."""
        if self.first_token_s is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.done_s - self.first_token_s) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class ServerSample:
    """Values that the server reported at `t_s`; None if it does not report them. Counters count since the server's start."""

    t_s: float
    running: int | None = None
    waiting: int | None = None
    kv_cache_usage: float | None = None  # 0..1
    preemptions: int | None = None
    busy_s: float | None = None
    itl_sum_s: float | None = None  # of all inter-token latencies of the engine's own
    itl_count: int | None = None


@dataclass(frozen=True, slots=True)
class GpuSample:
    """A GPU at `t_s`, from NVML: utilisation is the percentage of time in which a kernel ran."""

    t_s: float
    gpu: int
    utilisation_percent: float
    memory_mib: float


@dataclass(frozen=True, slots=True)
class ClientUse:
    """Resources of the load generator. `cpu_share`: of one core, by its busiest process."""

    processes: int
    cpu_share: float
    lag_p99_s: float  # how late requests left: sent minus intended, connection limit included


Stopped = Literal["finished", "interrupted"]
_ROWS = ("records", "server", "gpu")


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a run, with everything that is necessary to repeat it."""

    started_at: str  # ISO 8601, UTC
    machine: Machine
    server_is_local: bool
    python: str
    packages: dict[str, str]  # in the client's environment
    git_commit: str | None
    url: str
    target: str
    model: str | None
    server: dict[str, Any]  # the settings that the server reports
    workload: str
    loads: tuple[Load, ...]
    slo: str | None
    seed: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])  # everything else that was chosen


@dataclass(frozen=True, slots=True)
class Distribution:
    """Nearest-rank percentiles, which are observed values."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a limit of the SLO. `measured_s` None: too many requests did not complete for this percentile."""

    limit: str
    measured_s: float | None
    met: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """The numbers of a measurement, which `summary.summarise` computes."""

    requests: int
    completed: int
    errors: dict[ErrorKind, int]
    rps: float
    output_tokens_s: float | None  # None: the server does not report tokens
    e2e: Distribution | None
    ttft: Distribution | None
    itl: Distribution | None
    tpot: Distribution | None
    goodput_rps: float | None = None  # None: no SLO was stated
    attained_share: float | None = None  # of all requests, those within the per-request limits
    verdicts: tuple[Verdict, ...] = ()
    slo_met: bool | None = None
    engine_busy_share: float | None = None
    mean_running: float | None = None
    mean_waiting: float | None = None
    peak_kv_cache_usage: float | None = None
    preemptions: int | None = None
    decode_s_per_token: float | None = None  # as the engine saw it: its mean inter-token latency over the measurement
    gpu_mean_percent: float | None = None
    gpu_share_below_10: float | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """The raw data of a measurement. Rates are over `window_s`; requests that end later still count as requests and for
    latencies."""

    records: tuple[RequestRecord, ...]
    window_s: float
    stopped: Stopped = "finished"
    itl_histogram: dict[int, int] = field(default_factory=dict[int, int])  # see `summary.bucket_counts`
    server: tuple[ServerSample, ...] = ()
    gpu: tuple[GpuSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(Observed):
    """A repeat of a point."""

    repeat: int
    started_at: str
    distinct_texts: int
    client: ClientUse
    summary: Summary


@dataclass(frozen=True, slots=True)
class Spread:
    """The range of a metric over the repeats of a point."""

    median: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True, slots=True)
class Point:
    """A load level: its repeats and, by metric name, how they spread."""

    load: Load
    repeats: tuple[Repeat, ...]
    spreads: dict[str, Spread]


@dataclass(frozen=True, slots=True)
class Results:
    conditions: Conditions
    points: tuple[Point, ...]
    partial: bool = False  # stopped by hand: what was measured is kept


def _columnar(document: dict[str, Any]) -> None:
    for repeat in _repeats(document):
        for name in _ROWS:
            found: list[dict[str, Any]] = repeat[name]
            columns = list(found[0]) if found else []
            repeat[name] = {"columns": columns, "rows": [list(row.values()) for row in found]}


def _rows(document: dict[str, Any]) -> None:
    for repeat in _repeats(document):
        for name in _ROWS:
            table = members(repeat.get(name))
            if not {"columns", "rows"} <= set(table):
                raise ValueError(f"{name} without columns and rows")
            repeat[name] = [dict(zip(table["columns"], row, strict=True)) for row in elements(table["rows"])]


def _repeats(document: dict[str, Any]) -> list[dict[str, Any]]:
    points = elements(document.get("points"))
    return [members(repeat) for point in points for repeat in elements(members(point).get("repeats"))]


_BESIDE = ": those are beside it, in versus.NAME.json for each server"
RESULTS = ResultsFile("bench", Results, columnar=_columnar, rows=_rows, indent=None, elsewhere={"versus": _BESIDE})
read_results, write_results = RESULTS.read, RESULTS.write


def without_rows(results: Results) -> dict[str, Any]:
    """Return results as JSON types, without records, samples and histograms."""
    document = RESULTS.document(results)
    for repeat in _repeats(document):
        for name in (*_ROWS, "itl_histogram"):
            del repeat[name]
    return document


def notes_of(results: Results, command: str) -> dict[str, Any]:
    """Return the notes of a command in the conditions."""
    return members(results.conditions.options.get(command))


def without_path(conditions: Conditions, model_path: str | None, **options: Any) -> Conditions:
    """Return conditions with these options and without the model's folder, which a server may report."""
    server = {name: value for name, value in conditions.server.items() if value != model_path}
    return replace(conditions, server=server, options=conditions.options | options)
