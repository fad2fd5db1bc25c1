"""When requests are meant to be sent.

Open loops (`constant`, `poisson`, `ramp`, `replay`) have a schedule that is computed before the first request leaves: a
server that stalls gets its requests all the same, and every latency counts from the scheduled time. That is what keeps
coordinated omission out (Gil Tene, "How NOT to Measure Latency"; wrk2): a client that waits for a stalled server before
it sends the next request measures one long latency where its users had many.

A closed loop has no schedule: each of its clients means to send when its previous answer has come. It measures a system
with that many users, who do wait; it does not measure latency at a rate. Its intended time is the moment the client
became free.

Knows nothing of what is sent, nor of servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count as count_from
from itertools import takewhile
from math import sqrt
from random import Random

from dragoman.errors import ConfigError
from dragoman_bench.bench.records import Load


def schedule(
    load: Load,
    *,
    requests: int | None = None,
    duration_s: float | None = None,
    recorded_s: Sequence[float] = (),
    seed: int = 0,
) -> tuple[float, ...]:
    """Intended send times of an open loop, ascending, in seconds from its start; bounded by count, duration or both.

    Raises ConfigError where nothing bounds it, or nothing would be sent.
    """
    if load.kind == "replay":
        times = replayed(recorded_s, load.time_scale)
    elif load.kind == "ramp":
        times = ramped(load, duration_s)
    elif requests is None and duration_s is None:
        raise ConfigError("an open loop needs a number of requests or a duration", param="duration")
    else:
        times = _steady(load, requests, duration_s, seed)
    if requests is not None:
        times = times[:requests]
    if duration_s is not None:
        times = tuple(takewhile(lambda t: t < duration_s, times))
    if not times:
        raise ConfigError(f"{load.label}: no request falls into the run", param="duration")
    return times


def replayed(recorded_s: Sequence[float], time_scale: float) -> tuple[float, ...]:
    """A trace's times from its first one, stretched by `time_scale`."""
    if not recorded_s:
        raise ConfigError("replay needs a trace: a JSONL workload whose lines have at_s", param="replay")
    first = min(recorded_s)
    return tuple((t - first) * time_scale for t in sorted(recorded_s))


def ramped(load: Load, duration_s: float | None) -> tuple[float, ...]:
    """The k-th request leaves when the integral of the rate reaches k. Raises ConfigError without a duration."""
    if duration_s is None or load.rate_rps is None or load.to_rate_rps is None:
        raise ConfigError("a ramp needs two rates and a duration", param="duration")
    start, slope = load.rate_rps, (load.to_rate_rps - load.rate_rps) / duration_s
    total = int(start * duration_s + slope * duration_s**2 / 2)
    if slope == 0:
        return tuple(k / start for k in range(total))
    return tuple((sqrt(max(0.0, start**2 + 2 * slope * k)) - start) / slope for k in range(total))


def _steady(load: Load, requests: int | None, duration_s: float | None, seed: int) -> tuple[float, ...]:
    rate = load.rate_rps or 0.0
    if rate <= 0:
        raise ConfigError("an open loop needs a rate above 0", param="rate")
    if load.kind == "constant":
        times = (k / rate for k in count_from())
    else:
        random = Random(f"arrivals/{seed}")  # apart from the workload's: the two must not be correlated
        times = _accumulate(random, rate)
    bounded = takewhile(lambda t: duration_s is None or t < duration_s, times)
    return tuple(t for _, t in zip(range(requests), bounded, strict=False)) if requests is not None else tuple(bounded)


def _accumulate(random: Random, rate: float) -> Iterator[float]:
    now = 0.0
    while True:
        now += random.expovariate(rate)
        yield now
