"""When requests are sent, and when a measurement stops: open loops, closed loops, saturation.

Open loops (`constant`, `poisson`, `ramp`, `replay`) have a schedule that is computed before the first request is sent: a
server that stalls gets its requests all the same, and every latency counts from the scheduled time. That avoids
coordinated omission (Gil Tene, "How NOT to Measure Latency"; wrk2): a client that waits for a stalled server before it
sends the next request measures one long latency where its users had many.

A closed loop has no schedule: each of its clients sends when its previous answer has come; its intended time is the moment
when the client became free. It measures a system with that many users, who do wait, not latency at a rate.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, takewhile
from itertools import count as count_from
from math import inf, sqrt
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from time import monotonic
from typing import Protocol

import numpy as np
import psutil

from dragoman.errors import ConfigError, DragomanError
from dragoman_bench.bench.client import Client, Clock, TargetOptions, make_target, open_session
from dragoman_bench.bench.progress import Observer, run_async
from dragoman_bench.bench.results import Load, RequestRecord, Stopped
from dragoman_bench.bench.workload import Item

_WATCH_EVERY_S = 0.1
_SATURATION_SAMPLES = 40  # before saturation is judged
SATURATION_GROWTH = 0.7
SATURATION_SKIPPED = 0.25  # of the run so far: filling up is growth too
SATURATION_PERSISTENCE = 0.5
SATURATION_PARTS = 10
_STUDENT_T = 1.860  # one-sided 95 %, SATURATION_PARTS - 2 = 8 degrees of freedom


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
    times = islice(_times(load, duration_s, requests is not None, recorded_s, seed), requests)
    found = tuple(takewhile(lambda t: duration_s is None or t < duration_s, times))
    if not found:
        raise ConfigError(f"{load.label}: no request falls into the run; increase --duration", param="duration")
    return found


def _times(
    load: Load, duration_s: float | None, counted: bool, recorded_s: Sequence[float], seed: int
) -> Iterator[float]:
    if load.kind == "replay":
        if not recorded_s:
            raise ConfigError("replay needs a trace: a JSONL workload whose lines have at_s", param="replay")
        return iter([(t - min(recorded_s)) * load.time_scale for t in sorted(recorded_s)])
    if load.kind == "ramp":
        return _ramp(load, duration_s)
    if duration_s is None and not counted:
        raise ConfigError("an open loop needs --requests or --duration", param="duration")
    rate = load.rate_rps or 0.0
    if rate <= 0:
        raise ConfigError("an open loop needs a rate above 0", param="rate")
    if load.kind == "constant":
        return (k / rate for k in count_from())
    random = Random(f"arrivals/{seed}")  # independent of the workload's
    return accumulate(random.expovariate(rate) for _ in count_from())


def _ramp(load: Load, duration_s: float | None) -> Iterator[float]:
    """The k-th request is sent when the integral of the rate reaches k."""
    if duration_s is None or load.rate_rps is None or load.to_rate_rps is None:
        raise ConfigError("a ramp needs two rates and --duration", param="duration")
    start, slope = load.rate_rps, (load.to_rate_rps - load.rate_rps) / duration_s
    total = range(int(start * duration_s + slope * duration_s**2 / 2))
    if slope == 0:
        return (k / start for k in total)
    return ((sqrt(max(0.0, start**2 + 2 * slope * k)) - start) / slope for k in total)


@dataclass(frozen=True, slots=True)
class Job:
    """What one process sends; picklable. With `schedule` it is an open loop, without one closed with `clients`.

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

    def indexes(self) -> Iterator[int]:
        """This part's requests in order, without end unless the plan has one."""
        return (
            iter(range(self.part, self.requests, self.of))
            if self.requests is not None
            else count_from(self.part, self.of)
        )


@dataclass(slots=True)
class Tally:
    """What is in flight, for progress and the saturation rule. `ended` holds (time, latency) until it is taken."""

    in_flight: int = 0
    done: int = 0
    failed: int = 0
    ended: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def end(self, record: RequestRecord) -> None:
        """Counts a request that was in flight."""
        self.in_flight -= 1
        self.done += 1
        self.failed += not record.completed
        self.ended.append((record.done_s, record.e2e_s))

    def take_ended(self) -> list[tuple[float, float]]:
        """Those that ended since the last call."""
        taken, self.ended = self.ended, []
        return taken


async def drive(job: Job, clock: Clock, tally: Tally, stop: asyncio.Event) -> tuple[list[RequestRecord], Counter[int]]:
    """Sends the job from the clock's zero on; returns records by index and the histogram of inter-token gaps.

    It returns when every request has ended. When `stop` is set nothing more is sent, and what is in flight is cancelled
    and recorded as unfinished.
    """
    async with open_session() as session:
        target = make_target(job.target)
        client = Client(session, job.url, target, clock, timeout_s=job.timeout_s, connections=job.connections)
        loop = _Loop(job, client, clock, tally, stop)
        await loop.run()
        return sorted(loop.records, key=lambda record: record.index), client.itl_histogram


class _Loop:
    def __init__(self, job: Job, client: Client, clock: Clock, tally: Tally, stop: asyncio.Event) -> None:
        self._job, self._client, self._clock, self._tally, self._stop = job, client, clock, tally, stop
        self._indexes = job.indexes()
        self._tasks: set[asyncio.Task[object]] = set()
        self.records: list[RequestRecord] = []

    async def run(self) -> None:
        canceller = asyncio.create_task(self._cancel_when_stopped())
        try:
            async with asyncio.TaskGroup() as group:
                if self._job.schedule is not None:
                    await self._open_loop(self._job.schedule[self._job.part :: self._job.of], group)
                else:
                    for _ in range(self._job.clients):
                        self._start(self._closed_client(), group)
        finally:
            canceller.cancel()

    def _start(self, work: Coroutine[None, None, object], group: asyncio.TaskGroup) -> None:
        task = group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _open_loop(self, schedule: Sequence[float], group: asyncio.TaskGroup) -> None:
        for index, intended_s in zip(self._indexes, schedule, strict=False):
            if not await self._clock.reach(intended_s, self._stop):
                return
            self._start(self._send(index, intended_s), group)

    async def _closed_client(self) -> None:
        """A client that is refused with Retry-After waits that long."""
        free_s, duration_s = 0.0, inf if self._job.duration_s is None else self._job.duration_s
        while await self._clock.reach(free_s, self._stop) and free_s < duration_s:
            index = next(self._indexes, None)
            if index is None:
                return
            record = await self._send(index, free_s)
            if record.error == "unfinished":
                return
            free_s = record.done_s + (record.retry_after_s or 0.0)

    async def _send(self, index: int, intended_s: float) -> RequestRecord:
        self._tally.in_flight += 1
        text = index % len(self._job.items)
        record = await self._client.request(self._job.items[text], index=index, text=text, intended_s=intended_s)
        self._tally.end(record)
        self.records.append(record)
        return record

    async def _cancel_when_stopped(self) -> None:
        await self._stop.wait()
        while self._tasks:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.sleep(0.05)


@dataclass(slots=True)
class Stop:
    """Ends a measurement, with the reason and the time. The first reason stands."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    why: Stopped = "finished"
    at_s: float | None = None

    def set(self, why: Stopped, at_s: float) -> None:
        if not self.event.is_set():
            self.why, self.at_s = why, max(at_s, 0.0)
            self.event.set()


@asynccontextmanager
async def watched(
    clock: Clock, tally: Tally, observer: Observer, interrupted: asyncio.Event, saturation_after_s: float | None
) -> AsyncGenerator[Stop]:
    """Within: the observer gets the counts, and the `Stop` that is yielded is set on an interrupt or past saturation.

    `saturation_after_s` None: saturation is not looked for.
    """
    stop = Stop()
    task = asyncio.create_task(_watch(clock, tally, observer, interrupted, saturation_after_s, stop))
    try:
        yield stop
    finally:
        task.cancel()


async def _watch(
    clock: Clock,
    tally: Tally,
    observer: Observer,
    interrupted: asyncio.Event,
    saturation_after_s: float | None,
    stop: Stop,
) -> None:
    saturation = Saturation(saturation_after_s) if saturation_after_s else None
    step_s = saturation_after_s / _SATURATION_SAMPLES if saturation_after_s else _WATCH_EVERY_S
    latencies_s: list[float] = []
    due_s = step_s
    while not stop.event.is_set():
        observer.update(tally.done, tally.failed, tally.in_flight)
        latencies_s.extend(e2e_s for _, e2e_s in tally.take_ended())
        now_s = clock.now()
        if interrupted.is_set():
            stop.set("interrupted", now_s)
        elif saturation and now_s >= due_s:
            due_s = now_s + step_s
            if saturation.observe(now_s, tally.in_flight, latencies_s):
                stop.set("saturated", now_s)
            latencies_s.clear()
        await asyncio.sleep(min(_WATCH_EVERY_S, step_s))


Weighted = tuple[float, float, int]
"""A time, the sum of what was observed around it, and how many observations those were."""


@dataclass(slots=True)
class Saturation:
    """Judges from `after_s` on whether an open loop sends more than the server can do: in-flight requests and latency grow.

    After GuideLLM's over-saturation constraint, which asks whether the slope of both series is positive with confidence.
    The samples of a queue depend on each other, so that a slope alone reports any busy server: here the last three
    quarters of the run so far are cut into ten parts, the slope over the parts' means must be a growth of 70 % of their
    mean with 95 % confidence, and must have been one for half of the run. (A queue that grows steadily from the start
    grows by 120 % of its mean over that stretch.) Simulated queues of 1, 8 and 32 slots under 90 % load were never judged
    saturated within 300 service times; at 150 % load, with 8 slots and more, they were after 20 to 30.
    """

    after_s: float = 20.0
    _in_flight: list[Weighted] = field(default_factory=list[Weighted])
    _latency: list[Weighted] = field(default_factory=list[Weighted])
    _growing_since_s: float | None = None

    def observe(self, now_s: float, in_flight: int, latencies_s: Sequence[float]) -> bool:
        """Takes the requests in flight now and the latencies of those that ended since the last call; True once the
        server is saturated. Times must not decrease."""
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
        return now_s >= self.after_s and now_s - self._growing_since_s >= SATURATION_PERSISTENCE * now_s

    def _grows(self, now_s: float) -> bool:
        begin_s = SATURATION_SKIPPED * now_s
        nothing_ended = not self._latency or self._latency[-1][0] < begin_s  # then latency is unknown
        latency_grows = nothing_ended or growth(self._latency, begin_s, now_s) >= SATURATION_GROWTH
        return latency_grows and growth(self._in_flight, begin_s, now_s) >= SATURATION_GROWTH


def growth(series: Sequence[Weighted], begin_s: float, end_s: float) -> float:
    """By what share of its mean the series grew over the stretch, at least, with 95 % confidence; -inf where unknown."""
    n = SATURATION_PARTS
    totals, counts = np.zeros(n), np.zeros(n)
    for t_s, total, count in series:
        if t_s >= begin_s:
            part = min(n - 1, int((t_s - begin_s) / (end_s - begin_s) * n))
            totals[part] += total
            counts[part] += count
    if not counts.all() or totals.sum() <= 0:
        return -inf
    means = totals / counts
    places = np.arange(n) - (n - 1) / 2
    squares = float((places**2).sum())
    slope = float((places * means).sum()) / squares
    residuals = means - means.mean() - slope * places
    error = sqrt(float((residuals**2).sum()) / (n - 2) / squares)
    return (slope - _STUDENT_T * error) * n / float(means.mean())


LEAD_S = 0.1  # from sending the start time to the start: every process must have received it
_REPORT_EVERY_S = 0.1
_EXIT_S = 5.0  # for a process that has returned its records


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent. `cpu_share` is of one core, of the busiest process."""

    records: tuple[RequestRecord, ...]
    itl_histogram: Counter[int]
    cpu_share: float


class LoadGenerator(Protocol):
    """One or several processes that are ready to send a job."""

    async def run(self, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent: ...


@asynccontextmanager
async def load_generator(job: Job, processes: int) -> AsyncGenerator[LoadGenerator]:
    """Within: it is ready to start. Raises DragomanError where a process cannot be started."""
    if processes == 1:
        yield ThisProcess(job)
        return
    generator = SeveralProcesses([shared(job, part, processes) for part in range(processes)])
    try:
        await generator.ready()
        yield generator
    finally:
        await asyncio.to_thread(generator.close)


def shared(job: Job, part: int, of: int) -> Job:
    """Part `part` of a job: its requests, its clients and its connections, which add up to the whole's."""

    def share(whole: int) -> int:
        return whole // of + (part < whole % of)

    connections = None if job.connections is None else max(1, share(job.connections))
    return replace(job, clients=share(job.clients), connections=connections, part=part, of=of)


class ThisProcess:
    """A load generator in this process."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def run(self, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent:
        began, cpu_s = monotonic(), _cpu_s()
        records, histogram = await drive(self._job, clock, tally, stop)
        share = (_cpu_s() - cpu_s) / max(monotonic() - began, 1e-9)
        return Sent(tuple(records), histogram, round(share, 4))


class SeveralProcesses:
    """A process for each job, started by `spawn`, so that nothing of this process's threads or loop is inherited."""

    def __init__(self, jobs: list[Job]) -> None:
        context = multiprocessing.get_context("spawn")
        self._processes: list[tuple[BaseProcess, Connection]] = []
        for job in jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_process_main, args=(theirs, job), daemon=True)
            process.start()
            theirs.close()
            self._processes.append((process, ours))

    async def ready(self) -> None:
        """Raises DragomanError where one exits first."""
        await asyncio.gather(*(_receive(connection) for _, connection in self._processes))

    async def run(self, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent:
        for _, connection in self._processes:
            connection.send(clock)
        stopper = asyncio.create_task(self._send_stop(stop))
        try:
            parts = await asyncio.gather(*(_follow(connection, tally) for _, connection in self._processes))
        finally:
            stopper.cancel()
        records = sorted((record for part in parts for record in part.records), key=lambda record: record.index)
        histogram = sum((part.itl_histogram for part in parts), Counter[int]())
        return Sent(tuple(records), histogram, max(part.cpu_share for part in parts))

    async def _send_stop(self, stop: asyncio.Event) -> None:
        await stop.wait()
        for _, connection in self._processes:
            with suppress(OSError):  # it has ended already
                connection.send("stop")

    def close(self) -> None:
        for _, connection in self._processes:
            connection.close()  # one that still waits for its start time reads the end and exits
        for process, _ in self._processes:
            process.join(_EXIT_S)
            if process.is_alive():
                process.kill()
                process.join()


async def _receive(connection: Connection) -> object:
    try:
        return await asyncio.to_thread(connection.recv)
    except (EOFError, OSError) as error:
        raise DragomanError("a client process exited before it had sent its requests") from error


async def _follow(connection: Connection, tally: Tally) -> Sent:
    """Adds a process's reports to the tally until it returns its records."""
    last = Tally()
    while True:
        message = await _receive(connection)
        if isinstance(message, Sent):
            tally.in_flight -= last.in_flight
            tally.done += len(message.records) - last.done
            return message
        if isinstance(message, Tally):
            tally.in_flight += message.in_flight - last.in_flight
            tally.done += message.done - last.done
            tally.failed += message.failed - last.failed
            tally.ended.extend(message.ended)
            last = message


def _process_main(connection: Connection, job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):  # the parent has exited
        connection.send("ready")
        clock = connection.recv()
        connection.send(run_async(_run_part(connection, job, clock)))


async def _run_part(connection: Connection, job: Job, clock: Clock) -> Sent:
    tally, stop = Tally(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_requested() -> None:
        """Anything received after the start means stop; so does the parent's exit."""
        with suppress(EOFError, OSError):
            connection.recv()
        loop.remove_reader(connection.fileno())
        stop.set()

    loop.add_reader(connection.fileno(), stop_requested)
    reporter = asyncio.create_task(_report(connection, tally))
    try:
        return await ThisProcess(job).run(clock, tally, stop)
    finally:
        reporter.cancel()
        loop.remove_reader(connection.fileno())


async def _report(connection: Connection, tally: Tally) -> None:
    while True:
        await asyncio.sleep(_REPORT_EVERY_S)
        connection.send(Tally(tally.in_flight, tally.done, tally.failed, tally.take_ended()))


def _cpu_s() -> float:
    used = psutil.Process().cpu_times()
    return used.user + used.system
