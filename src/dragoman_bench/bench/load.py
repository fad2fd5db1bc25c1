"""When requests are sent, by an open or a closed loop, and when a measurement stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count as count_from
from itertools import takewhile
from math import inf, sqrt
from random import Random

from dragoman.errors import ConfigError
from dragoman_bench.bench.client import Client, Clock, Order, open_session
from dragoman_bench.bench.progress import Observer
from dragoman_bench.bench.results import Load, RequestRecord, Stopped
from dragoman_bench.bench.targets import TargetOptions, make_target
from dragoman_bench.bench.workload import Item


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


GROWTH = 0.7
SKIPPED = 0.25  # of the run so far: filling up is growth too
PERSISTENCE = 0.5
PARTS = 10
_STUDENT_T = 1.860  # one-sided 95 %, PARTS - 2 = 8 degrees of freedom

Weighted = tuple[float, float, int]
"""A time, the sum of what was observed around it, and how many observations those were."""


@dataclass(slots=True)
class Saturation:
    """Judges from `after_s` on. Times must not go backwards."""

    after_s: float = 20.0
    _in_flight: list[Weighted] = field(default_factory=list[Weighted])
    _latency: list[Weighted] = field(default_factory=list[Weighted])
    _growing_since_s: float | None = None

    def observe(self, now_s: float, in_flight: int, latencies_s: Sequence[float]) -> bool:
        """Takes the requests in flight now and the latencies of those that ended since the last call; True once the
        server is saturated."""
        self._in_flight.append((now_s, float(in_flight), 1))
        if latencies_s:
            self._latency.append((now_s, sum(latencies_s), len(latencies_s)))
        if now_s < self.after_s / 2:
            return False
        if not self._grows(now_s):
            self._growing_since_s = None
            return False
        if self._growing_since_s is None:
            self._growing_since_s = now_s
        return now_s >= self.after_s and now_s - self._growing_since_s >= PERSISTENCE * now_s

    def _grows(self, now_s: float) -> bool:
        begin_s = SKIPPED * now_s
        nothing_ended = not self._latency or self._latency[-1][0] < begin_s  # then latency cannot say
        latency_grows = nothing_ended or growth(self._latency, begin_s, now_s) >= GROWTH
        return latency_grows and growth(self._in_flight, begin_s, now_s) >= GROWTH


def growth(series: Sequence[Weighted], begin_s: float, end_s: float) -> float:
    """By what share of its mean the series grew over the stretch, at least, with 95 % confidence; -inf where unknown."""
    means = part_means(series, begin_s, end_s)
    mean = sum(means) / PARTS if means else 0.0
    if not means or mean <= 0:
        return -inf
    slope, error = slope_of(means)
    return (slope - _STUDENT_T * error) * PARTS / mean


def part_means(series: Sequence[Weighted], begin_s: float, end_s: float) -> list[float]:
    """The mean of each of `PARTS` equal parts of the stretch; none where a part saw nothing."""
    totals, counts = [0.0] * PARTS, [0] * PARTS
    for t_s, total, count in series:
        if t_s >= begin_s:
            part = min(PARTS - 1, int((t_s - begin_s) / (end_s - begin_s) * PARTS))
            totals[part] += total
            counts[part] += count
    return [total / count for total, count in zip(totals, counts, strict=True)] if all(counts) else []


def slope_of(values: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope over 0, 1, 2, ... and its standard error; three values at least."""
    n = len(values)
    places = [place - (n - 1) / 2 for place in range(n)]
    mean = sum(values) / n
    squares = sum(place**2 for place in places)
    slope = sum(place * (value - mean) for place, value in zip(places, values, strict=True)) / squares
    residuals = sum((value - mean - slope * place) ** 2 for place, value in zip(places, values, strict=True))
    return slope, sqrt(residuals / (n - 2) / squares)


@dataclass(frozen=True, slots=True)
class Job:
    """What one process is to send; picklable. With `schedule` it is an open loop, without one closed with `clients`.

    Of a plan shared by `of` processes this is part `part`: its requests are those whose index modulo `of` is `part`.
    """

    url: str
    target: TargetOptions
    items: tuple[Item, ...]  # the whole plan's; request k sends item k modulo their number
    timeout_s: float
    schedule: tuple[float, ...] | None = None  # the whole plan's
    clients: int = 0  # this part's
    requests: int | None = None  # the whole plan's
    duration_s: float | None = None  # of sending
    connections: int | None = None  # this part's
    part: int = 0
    of: int = 1

    def orders(self) -> Iterator[tuple[int, Item]]:
        """This part's requests in order, without end unless the plan has one."""
        index = self.part
        while self.requests is None or index < self.requests:
            yield index, self.items[index % len(self.items)]
            index += self.of


@dataclass(slots=True)
class Tally:
    """What is going on, for progress and for the saturation rule. `ended` holds (time, latency) until it is taken."""

    in_flight: int = 0
    done: int = 0
    failed: int = 0
    ended: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def begin(self) -> None:
        self.in_flight += 1

    def end(self, record: RequestRecord) -> None:
        self.in_flight -= 1
        self.done += 1
        self.failed += not record.completed
        self.ended.append((record.done_s, record.e2e_s))

    def take_ended(self) -> list[tuple[float, float]]:
        taken, self.ended = self.ended, []
        return taken


@dataclass(frozen=True, slots=True)
class Driven:
    records: list[RequestRecord]
    itl_histogram: Counter[int]


async def drive(job: Job, clock: Clock, tally: Tally, stop: asyncio.Event) -> Driven:
    """Sends the job from the clock's zero on; returns when every request of it has ended."""
    async with open_session() as session:
        client = Client(
            session, job.url, make_target(job.target), clock, timeout_s=job.timeout_s, connections=job.connections
        )
        driver = _Driver(job, client, clock, tally, stop)
        await driver.run()
        return Driven(sorted(driver.records, key=lambda record: record.index), client.itl_histogram)


class _Driver:
    def __init__(self, job: Job, client: Client, clock: Clock, tally: Tally, stop: asyncio.Event) -> None:
        self._job = job
        self._client = client
        self._clock = clock
        self._tally = tally
        self._stop = stop
        self._orders = job.orders()
        self._tasks: set[asyncio.Task[object]] = set()
        self.records: list[RequestRecord] = []

    async def run(self) -> None:
        watcher = asyncio.create_task(self._cut_off_when_stopped())
        try:
            async with asyncio.TaskGroup() as group:
                if self._job.schedule is not None:
                    await self._open_loop(self._job.schedule, group)
                else:
                    for _ in range(self._job.clients):
                        self._start(self._closed_client(), group)
        finally:
            watcher.cancel()

    def _start(self, work: Coroutine[None, None, object], group: asyncio.TaskGroup) -> None:
        task = group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open_loop(self, schedule: tuple[float, ...], group: asyncio.TaskGroup) -> None:
        for (index, item), intended_s in zip(self._orders, schedule[self._job.part :: self._job.of], strict=False):
            if not await self._clock.reach(intended_s, self._stop):
                return
            self._start(self._send(index, item, intended_s), group)

    async def _closed_client(self) -> None:
        if not await self._clock.reach(0.0, self._stop):
            return
        free_s = 0.0
        while self._sending_at(free_s) and (order := next(self._orders, None)) is not None:
            record = await self._send(*order, free_s)
            if record.error == "unfinished":
                return
            free_s = record.done_s + (record.retry_after_s or 0.0)
            if not await self._clock.reach(free_s, self._stop):
                return

    def _sending_at(self, at_s: float) -> bool:
        return not self._stop.is_set() and (self._job.duration_s is None or at_s < self._job.duration_s)

    async def _send(self, index: int, item: Item, intended_s: float) -> RequestRecord:
        self._tally.begin()
        record = await self._client.exchange(Order(index, index % len(self._job.items), item, intended_s))
        self._tally.end(record)
        self.records.append(record)
        return record

    async def _cut_off_when_stopped(self) -> None:
        await self._stop.wait()
        while self._tasks:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.sleep(0.05)


_TICK_S = 0.1
_SAMPLES = 40  # before saturation is judged


@dataclass(slots=True)
class Stop:
    """Ends a measurement, and says why and when. The first reason stands."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    why: Stopped = "finished"
    at_s: float | None = None

    def set(self, why: Stopped, at_s: float) -> None:
        if not self.event.is_set():
            self.why, self.at_s = why, max(at_s, 0.0)
            self.event.set()


@dataclass(frozen=True, slots=True)
class Watchman:
    """`saturation_after_s` None: saturation is not looked for."""

    interrupted: asyncio.Event
    observer: Observer
    saturation_after_s: float | None = None

    @asynccontextmanager
    async def watching(self, clock: Clock, tally: Tally) -> AsyncGenerator[Stop]:
        """Yields the `Stop` that the measurement must heed."""
        stop = Stop()
        watch = asyncio.create_task(self._watch(clock, tally, stop))
        try:
            yield stop
        finally:
            watch.cancel()

    async def _watch(self, clock: Clock, tally: Tally, stop: Stop) -> None:
        saturation = Saturation(self.saturation_after_s) if self.saturation_after_s else None
        step_s = self.saturation_after_s / _SAMPLES if self.saturation_after_s else _TICK_S
        latencies_s: list[float] = []
        due_s = step_s
        while not stop.event.is_set():
            self.observer.update(tally.done, tally.failed, tally.in_flight)
            latencies_s.extend(e2e_s for _, e2e_s in tally.take_ended())
            now_s = clock.now()
            if self.interrupted.is_set():
                stop.set("interrupted", now_s)
            elif saturation and now_s >= due_s:
                due_s = now_s + step_s
                if saturation.observe(now_s, tally.in_flight, latencies_s):
                    stop.set("saturated", now_s)
                latencies_s.clear()
            await asyncio.sleep(min(_TICK_S, step_s))
