"""A results file: the conditions, every point (load level) with its repeats, raw records and summaries, as JSON.

The contract between the load generator and all that reads its numbers (tables, charts, tune). Knows neither how the
numbers come about (`runner`, `summary`) nor how they are drawn. Rows of records and samples are stored by column, so
that a file of 10,000 requests stays near a megabyte. `read_results(write_results(r)) == r`.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from dragoman.errors import ConfigError
from dragoman.telemetry.gpu import Gpu
from dragoman_bench.bench.jsons import elements, members
from dragoman_bench.bench.records import Band, ClientUse, ErrorKind, GpuSample, Load, RequestRecord, ServerSample

SCHEMA = 1
Stopped = Literal["finished", "saturated", "interrupted"]
_ROWS = ("records", "server", "gpu")


@dataclass(frozen=True, slots=True)
class Machine:
    """The load generator's machine, which is the server's too where `server_is_local`."""

    system: str
    architecture: str
    cpu: str
    cores: int
    memory_gib: float
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that is needed to run it again."""

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
    """Percentiles are nearest-rank: values that were really observed."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class BandSummary:
    """Requests of one length band."""

    requests: int
    completed: int
    e2e: Distribution | None
    ttft: Distribution | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """One limit of the SLO. `measured_s` None: there is no such percentile, as too many requests did not complete."""

    limit: str
    measured_s: float | None
    met: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """One measurement in numbers; `summary.summarise` says how each is computed."""

    requests: int
    completed: int
    errors: dict[ErrorKind, int]
    rps: float
    output_tokens_s: float | None  # None: the server does not report tokens
    output_characters_s: float
    mean_in_flight: float
    e2e: Distribution | None
    ttft: Distribution | None
    itl: Distribution | None
    tpot: Distribution | None
    bands: dict[Band, BandSummary]
    goodput_rps: float | None = None  # None: no SLO was stated
    attained_share: float | None = None  # of all requests, those within the per-request limits
    verdicts: tuple[Verdict, ...] = ()
    slo_met: bool | None = None
    engine_busy_share: float | None = None
    mean_running: float | None = None
    mean_waiting: float | None = None
    peak_waiting: int | None = None
    peak_kv_cache_usage: float | None = None
    preemptions: int | None = None
    decode_s_per_token: float | None = None  # as the engine saw it: its mean inter-token latency over the measurement
    gpu_mean_percent: float | None = None
    gpu_share_below_10: float | None = None
    gpu_share_above_80: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One repeat of one point. Rates are over `window_s`; what ends later still counts as a request and a latency."""

    repeat: int
    started_at: str
    window_s: float
    stopped: Stopped
    distinct_texts: int
    records: tuple[RequestRecord, ...]
    itl_histogram: dict[int, int]  # see `histogram`: every gap between streamed events
    server: tuple[ServerSample, ...]
    gpu: tuple[GpuSample, ...]
    client: ClientUse
    summary: Summary


@dataclass(frozen=True, slots=True)
class Spread:
    """One metric over the repeats of a point."""

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


def write_results(results: Results, path: Path) -> None:
    """Compressed where the name ends in .gz. Raises ConfigError where the file cannot be written."""
    content = (json.dumps(to_document(results), ensure_ascii=False, separators=(",", ":")) + "\n").encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}", param="out") from error


def read_results(path: Path) -> Results:
    """Raises ConfigError on a file that is missing, not a results file, or of another schema version."""
    try:
        content = path.read_bytes()
        return from_document(json.loads(gzip.decompress(content) if path.suffix == ".gz" else content))
    except (gzip.BadGzipFile, EOFError) as error:
        raise ConfigError(f"{path} is not a results file: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{path} is not a results file: {where}: {first['msg']}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a results file: {error}") from error


def to_document(results: Results, *, rows: bool = True) -> dict[str, Any]:
    """JSON-ready; `rows=False` leaves out records, samples and histograms: conditions and summaries only."""
    document = _ADAPTER.dump_python(results, mode="json")
    for measurement in _measurements(document):
        for name in _ROWS:
            packed = _pack(measurement.pop(name))
            if rows:
                measurement[name] = packed
        if not rows:
            del measurement["itl_histogram"]
    return document


def from_document(document: Any) -> Results:
    """The inverse of `to_document` with rows. Raises ValueError (pydantic's ValidationError is one)."""
    schema = members(document).get("schema")
    if schema != SCHEMA:
        raise ValueError(f"schema {schema}, this version reads {SCHEMA}")
    for measurement in _measurements(members(document)):
        for name in _ROWS:
            measurement[name] = _unpack(measurement.get(name))
    return _ADAPTER.validate_python(document)


def _measurements(document: dict[str, Any]) -> list[dict[str, Any]]:
    points = elements(document.get("points"))
    return [members(repeat) for point in points for repeat in elements(members(point).get("repeats"))]


def _pack(rows: list[dict[str, Any]]) -> dict[str, Any]:
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [list(row.values()) for row in rows]}


def _unpack(packed: Any) -> list[dict[str, Any]]:
    table = members(packed)
    if not {"columns", "rows"} <= set(table):
        raise ValueError("records without columns and rows")
    return [dict(zip(table["columns"], row, strict=True)) for row in elements(table["rows"])]
