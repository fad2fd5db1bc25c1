"""What one measurement observes, raw: requests, server samples, GPU samples. The rows of a results file.

Every time is in seconds since the measured phase began, on one monotonic clock. Knows nothing of statistics (`summary`)
or of files (`results`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LoadKind = Literal["closed", "constant", "poisson", "ramp", "replay"]
Band = Literal["short", "medium", "long"]
ErrorKind = Literal[
    "refused",  # 429: the server protects itself
    "unavailable",  # 503
    "rejected",  # any other 4xx
    "server_error",  # any other 5xx, or an error told inside a stream
    "timeout",  # no whole answer within the time limit, counted from the intended send
    "connect",  # no connection
    "disconnect",  # the connection ended before the answer did
    "bad_reply",  # an answer that is not what the API promises
    "unfinished",  # the run was stopped while it was in flight
]

SHORT_TOKENS = 50
MEDIUM_TOKENS = 120


def band_of(source_tokens: int) -> Band:
    """short: up to 50 source tokens; medium: up to 120; long: more."""
    if source_tokens <= SHORT_TOKENS:
        return "short"
    return "medium" if source_tokens <= MEDIUM_TOKENS else "long"


@dataclass(frozen=True, slots=True)
class Load:
    """A load level. `closed` has clients; `constant` and `poisson` a rate; `ramp` a rate that ends at `to_rate_rps`."""

    kind: LoadKind
    clients: int | None = None
    rate_rps: float | None = None
    to_rate_rps: float | None = None
    time_scale: float = 1.0  # of a replay: 0.5 plays a trace in half its time

    @property
    def open(self) -> bool:
        """Whether requests are sent at times of their own, whatever the server does."""
        return self.kind != "closed"

    @property
    def label(self) -> str:
        if self.kind == "closed":
            return f"{self.clients} clients" if self.clients != 1 else "1 client"
        if self.kind == "ramp":
            return f"{self.rate_rps:g} to {self.to_rate_rps:g} req/s"
        if self.kind == "replay":
            return "replay" if self.time_scale == 1 else f"replay ×{self.time_scale:g} time"
        return f"{self.rate_rps:g} req/s {self.kind}"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request from its intended send to its end. Latency is `done_s - intended_s`, whenever it was really sent."""

    index: int  # its place in the plan
    text: int  # which text of the workload
    intended_s: float
    sent_s: float | None  # None: it ended before it could be sent
    first_token_s: float | None  # streams only
    done_s: float
    source_tokens: int
    source_characters: int
    band: Band
    output_tokens: int | None = None  # as the server reports it
    output_characters: int = 0
    status: int | None = None  # HTTP
    error: ErrorKind | None = None  # None: completed
    finish_reason: str | None = None
    retry_after_s: float | None = None
    itl_count: int = 0  # gaps between streamed events; a server may put several tokens in one event
    itl_mean_s: float | None = None
    itl_p95_s: float | None = None
    itl_max_s: float | None = None

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
        """Mean time per output token after the first (vLLM's TPOT); None where it cannot be known."""
        if self.first_token_s is None or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.done_s - self.first_token_s) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class ServerSample:
    """What the server said of itself at `t_s`; None where it does not say. Counters count since the server's start."""

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
    """One GPU at `t_s`, as NVML counts: utilisation is the share of time in which a kernel ran, in percent."""

    t_s: float
    gpu: int
    utilisation_percent: float
    memory_mib: float


@dataclass(frozen=True, slots=True)
class ClientUse:
    """What the load generator itself used. `cpu_share` is that of one core, of its busiest process."""

    processes: int
    cpu_share: float
    lag_p99_s: float  # how late requests left: sent minus intended, connection limit included
    maximum_rps: float | None = None  # of this client against a server that does nothing, if it was measured
