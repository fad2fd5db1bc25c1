"""Several replicas behind one address: what an app asks of the others, and how their answers become one.

Each replica is a whole server with an engine of its own. A request that an operator sends to the common address reaches any
of them, so that one asks all and adds up. Which replicas there are and how they are reached is the deployment's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from dragoman.wire import (
    CacheStats,
    KvCacheSize,
    MetricsTarget,
    Percentiles,
    RecorderState,
    Stats,
    Traffic,
    TrafficPercentiles,
)


class Replicas(Protocol):
    """All replicas that serve one address, the asked one included.

    A replica that does not answer in time is reported as such (`unreachable_stats`, `unreachable_traffic`), never left out:
    sums without it would look like a smaller load.
    """

    async def stats(self) -> list[Stats]:
        """Each replica's own `GET /v1/stats`, with its name in `replica`."""
        ...

    async def traffic(self) -> list[Traffic]:
        """Each replica's own `GET /v1/traffic`, with its name in `replica`."""
        ...

    async def targets(self) -> list[MetricsTarget]:
        """Where each replica's own `/metrics` are; the label `replica` is its name."""
        ...

    async def reload(self) -> None:
        """Have each read keys, limits and usage now. Raises `Unavailable`, with the names, where one was not reached;
        the others have read them by then."""
        ...


def unreachable_stats(replica: str) -> Stats:
    """What is reported of a replica that did not answer."""
    return Stats(
        state="unreachable",
        replica=replica,
        model="",
        profile="",
        pipeline="",
        device="",
        running=0,
        waiting=0,
        kv_cache_usage=0.0,
    )


def unreachable_traffic(replica: str) -> Traffic:
    """What is reported of a replica that did not answer."""
    nothing = TrafficPercentiles()
    return Traffic(
        replica=replica,
        unreachable=True,
        records=0,
        window_s=0.0,
        in_flight=nothing,
        source_tokens=nothing,
        output_tokens=nothing,
        queue_s=nothing,
        ttft_s=nothing,
        e2e_s=nothing,
        arrivals_per_s=0.0,
        peak_tokens=None,
        outcomes={},
        recorder=RecorderState(state="off"),
    )


_STATES = ("serving", "restarting", "starting", "draining", "unreachable")  # what a caller finds comes first
_ADDED = (
    *("running", "waiting", "peak_running", "preemptions", "restarts", "steps", "finished", "prompt_tokens"),
    *("completion_tokens", "in_flight", "in_flight_characters", "max_in_flight_characters", "refused", "busy_s"),
    *("inter_token_latency_sum_s", "inter_token_latency_count"),
)


def sum_stats(replicas: Sequence[Stats]) -> Stats:
    """All replicas as one server, as `Stats` says, with each of them under `replicas`. At least one is given."""
    ordered = sorted(replicas, key=lambda one: one.replica)
    known = [one for one in ordered if one.state != "unreachable"] or ordered
    longest = max(known, key=lambda one: one.uptime_s)
    return longest.model_copy(
        update={
            "state": min((one.state for one in ordered), key=_STATES.index),
            "replica": "",
            "version": _joined(one.version for one in known),
            "device": _joined(one.device for one in known),
            **{name: sum(getattr(one, name) for one in known) for name in _ADDED},
            "kv_cache_usage": _cache_usage(known),
            "kv_cache": KvCacheSize(
                tokens=_sum_of_known(one.kv_cache.tokens for one in known),
                bytes_per_token=longest.kv_cache.bytes_per_token,
            ),
            "ttft_s": _largest_latencies(one.ttft_s for one in known),
            "inter_token_latency_s": _largest_latencies(one.inter_token_latency_s for one in known),
            "cache": CacheStats(
                **{name: sum(getattr(one.cache, name) for one in known) for name in CacheStats.model_fields}
            ),
            "last_minute": _last_minute(known),
            "replicas": ordered,
        }
    )


def _joined(values: Iterable[str]) -> str:
    """`0.4.0`, or while replicas differ, as in a rolling update, `0.4.0, 0.5.0`."""
    return ", ".join(sorted(set(values)))


def _sum_of_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _cache_usage(replicas: Sequence[Stats]) -> float:
    """The share in use of all caches together; where an engine does not report its size, each counts the same."""
    sizes = [one.kv_cache.tokens or 0 for one in replicas]
    weights = sizes if all(sizes) else [1] * len(replicas)
    return sum(one.kv_cache_usage * weight for one, weight in zip(replicas, weights, strict=True)) / sum(weights)


def _largest_latencies(found: Iterable[Percentiles]) -> Percentiles:
    latencies = list(found)
    return Percentiles(**{name: _largest(getattr(one, name) for one in latencies) for name in Percentiles.model_fields})


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _last_minute(replicas: Sequence[Stats]) -> dict[str, object]:
    """Rates are added up; of the percentiles, the largest."""
    found: dict[str, object] = {}
    for name in dict.fromkeys(name for one in replicas for name in one.last_minute):
        values = [one.last_minute[name] for one in replicas if name in one.last_minute]
        if all(isinstance(value, dict) for value in values):
            ranks = dict.fromkeys(rank for value in values for rank in value)
            found[name] = {rank: _largest(value.get(rank) for value in values) for rank in ranks}
        else:
            found[name] = sum(values)
    return found


def sum_traffic(replicas: Sequence[Traffic]) -> Traffic:
    """All replicas as one server, as `Traffic` says, with each of them under `replicas`. At least one is given."""
    ordered = sorted(replicas, key=lambda one: one.replica)
    known = [one for one in ordered if not one.unreachable]
    distributions = ("in_flight", "source_tokens", "output_tokens", "queue_s", "ttft_s", "e2e_s")
    outcomes: dict[str, int] = {}
    for one in known:
        for outcome, texts in one.outcomes.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + texts
    return ordered[0].model_copy(
        update={
            "replica": "",
            "unreachable": not known,
            "records": sum(one.records for one in known),
            "window_s": max((one.window_s for one in known), default=0.0),
            **{name: _largest_of_traffic(getattr(one, name) for one in known) for name in distributions},
            "arrivals_per_s": sum(one.arrivals_per_s for one in known),
            "peak_tokens": max((one.peak_tokens for one in known if one.peak_tokens is not None), default=None),
            "outcomes": dict(sorted(outcomes.items(), key=lambda item: -item[1])),
            "recorder": _recorders([one.recorder for one in known]),
            "replicas": ordered,
        }
    )


def _largest_of_traffic(found: Iterable[TrafficPercentiles]) -> TrafficPercentiles:
    ranks = list(found)
    return TrafficPercentiles(
        **{name: _largest(getattr(one, name) for one in ranks) for name in TrafficPercentiles.model_fields}
    )


def _recorders(recorders: Sequence[RecorderState]) -> RecorderState:
    """Failing where one is; on where one is."""
    states = {one.state for one in recorders}
    return RecorderState(
        state="failing" if "failing" in states else "on" if "on" in states else "off",
        written=sum(one.written for one in recorders),
        lost=sum(one.lost for one in recorders),
    )
