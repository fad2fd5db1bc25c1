"""A whole run, decided: what is measured, with which load levels, how often. Frozen, checked once.

Knows the parts by their types; doing it is `runner`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.errors import ConfigError
from dragoman_bench.bench.arrivals import schedule
from dragoman_bench.bench.records import Load
from dragoman_bench.bench.slo import Slo
from dragoman_bench.bench.targets import STREAMING, TargetOptions
from dragoman_bench.bench.workload import Item, Workload


@dataclass(frozen=True, slots=True)
class Warmup:
    """Sent before each measurement and not counted. Neither: none."""

    requests: int | None = None
    duration_s: float | None = None

    @property
    def wanted(self) -> bool:
        return bool(self.requests or self.duration_s)


@dataclass(frozen=True, slots=True)
class Plan:
    url: str
    target: TargetOptions
    workload: Workload
    loads: tuple[Load, ...]
    requests: int | None = None  # of each measurement
    duration_s: float | None = None
    warmup: Warmup = Warmup(requests=10)
    repeats: int = 1
    timeout_s: float = 60.0
    slo: Slo | None = None
    seed: int = 0
    texts: int = 1000  # made up for a closed loop over a duration, whose number of requests nobody knows before
    processes: int = 1
    connections: int | None = None
    stats: str | None = "auto"  # None: the server is not asked; else where to ask
    gpus: frozenset[int] | None = None  # None: those in use, if the server is on this machine; empty: none
    sample_every_s: float = 0.1
    saturation_after_s: float | None = 20.0  # None: an open loop runs to its end whatever happens
    client_maximum_rps: float | None = None

    def __post_init__(self) -> None:
        if not self.loads:
            raise ConfigError("no load level: say for example --concurrency 8 or --rate 5")
        if self.requests is None and self.duration_s is None and any(load.kind != "replay" for load in self.loads):
            raise ConfigError("how long? say --requests or --duration", param="duration")
        if self.slo and self.slo.needs_stream and not (self.target.stream and self.target.kind in STREAMING):
            raise ConfigError("an SLO on ttft, itl or tpot needs --stream", param="slo")
        for load in self.loads:
            _check_clients(load, self.processes)

    def schedule(self, load: Load, variation: int) -> tuple[float, ...] | None:
        """Intended send times of an open loop; None of a closed one."""
        if not load.open:
            return None
        recorded = [item.at_s for item in self._all_recorded() if item.at_s is not None]
        if load.kind == "replay" and len(recorded) < (self.workload.size or 0):
            recorded = []
        return schedule(
            load,
            requests=self.requests,
            duration_s=self.duration_s,
            recorded_s=recorded,
            seed=self.seed * 1009 + variation,
        )

    def items(self, times: tuple[float, ...] | None, variation: int) -> tuple[Item, ...]:
        """The texts of one measurement."""
        count = len(times) if times is not None else self.requests or self.texts
        return self.workload.items(count, variation)

    def window_s(self, load: Load, last_done_s: float, stopped_s: float | None) -> float:
        """What rates are over: until the stop, the end of sending or, where only a count ends it, the last answer."""
        if stopped_s is not None:
            return stopped_s
        if self.requests is not None or self.duration_s is None or load.kind == "replay":
            return last_done_s
        return self.duration_s

    def _all_recorded(self) -> tuple[Item, ...]:
        return self.workload.items(self.workload.size, 0) if self.workload.size else ()


def _check_clients(load: Load, processes: int) -> None:
    if load.kind == "closed" and (load.clients or 0) < 1:
        raise ConfigError("a closed loop needs at least one client", param="concurrency")
    if load.kind == "closed" and (load.clients or 0) < processes:
        raise ConfigError(f"{processes} client processes cannot share {load.label}", param="client_processes")
