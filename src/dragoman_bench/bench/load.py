"""Sends requests in open or closed loops, from one process or several.

Open loops (`constant`, `poisson`, `replay`) have a schedule that is computed before the first request is sent: requests are
also sent while a server stalls, and every latency counts from the scheduled time. This avoids
coordinated omission (Gil Tene, "How NOT to Measure Latency"; wrk2): a client that waits for a stalled server before it
sends the next request measures one long latency where its users had many.

A closed loop has no schedule: each client sends when its previous answer has arrived, which is the intended send time. It
measures a system with this many users, who wait for answers, not the latency at a rate.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, islice, takewhile
from itertools import count as count_from
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from time import monotonic, process_time

from dragoman.errors import ConfigError, DragomanError
from dragoman_bench.bench.client import Client, Clock, TargetOptions, make_target, open_session
from dragoman_bench.bench.progress import run_async
from dragoman_bench.bench.results import Load, RequestRecord
from dragoman_bench.bench.workload import Item

LEAD_S = 0.1  # from sending the start time to the start: every process must have received it
WATCH_EVERY_S = 0.1
_EXIT_S = 5.0  # for a process that has returned its records


def schedule(
    load: Load,
    *,
    requests: int | None = None,
    duration_s: float | None = None,
    recorded_s: Sequence[float] = (),
    seed: int = 0,
) -> tuple[float, ...]:
    """Return ascending send times of an open loop, in seconds from its start, limited by count, duration or both.

    Raises ConfigError if there is no limit, or if nothing would be sent.
    """
    rate_rps = load.rate_rps or 0.0
    if load.kind == "replay":
        if not recorded_s:
            raise ConfigError("replay needs a trace: a JSONL workload whose lines have at_s", param="replay")
        times = iter([t - min(recorded_s) for t in sorted(recorded_s)])
    elif rate_rps <= 0 or (duration_s is None and requests is None):
        raise ConfigError("an open loop needs a rate above 0, and --requests or --duration", param="rate")
    elif load.kind == "constant":
        times = (k / rate_rps for k in count_from())
    else:
        random = Random(f"arrivals/{seed}")  # independent of the workload's
        times = accumulate(random.expovariate(rate_rps) for _ in count_from())
    found = tuple(takewhile(lambda t: duration_s is None or t < duration_s, islice(times, requests)))
    if not found:
        raise ConfigError(f"{load.label}: no request falls into the run; increase --duration", param="duration")
    return found


@dataclass(frozen=True, slots=True)
class Job:
    """The requests of a process; picklable. With `schedule` it is an open loop, otherwise a closed one with `clients`.

    If `of` processes share a plan, this is part `part`: the requests whose index modulo `of` is `part`.
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
        """Yield the indexes of this part's requests in order, without end unless the plan has one."""
        if self.requests is None:
            return count_from(self.part, self.of)
        return iter(range(self.part, self.requests, self.of))

    def share(self, part: int, of: int) -> Job:
        """Return part `part` of this job, with its share of requests, clients and connections."""
        clients = self.clients // of + (part < self.clients % of)
        connections = self.connections and max(1, self.connections // of + (part < self.connections % of))
        return replace(self, clients=clients, connections=connections, part=part, of=of)


@dataclass(slots=True)
class Tally:
    """The number of requests in flight and of ended ones, for progress."""

    in_flight: int = 0
    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Sent:
    """The records of all requests, by index. `itl_histogram`: gaps between events. `cpu_share`: of one core, by the busiest
    process."""

    records: tuple[RequestRecord, ...]
    itl_histogram: Counter[int]
    cpu_share: float


async def drive(job: Job, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent:
    """Send the job from the clock's zero on.

    It returns when every request has ended. When `stop` is set, no further requests are sent, and those in flight are
    cancelled and recorded as unfinished.
    """
    began_s, cpu_s = monotonic(), process_time()
    async with open_session() as session:
        target = make_target(job.target)
        client = Client(session, job.url, target, clock, timeout_s=job.timeout_s, connections=job.connections)
        loop = _Loop(job, client, clock, tally, stop)
        await loop.run()
    share = (process_time() - cpu_s) / max(monotonic() - began_s, 1e-9)
    return Sent(tuple(sorted(loop.records, key=lambda record: record.index)), client.itl_histogram, round(share, 4))


class _Loop:
    def __init__(self, job: Job, client: Client, clock: Clock, tally: Tally, stop: asyncio.Event) -> None:
        self._job, self._client, self._clock, self._tally, self._stop = job, client, clock, tally, stop
        self._indexes = job.indexes()
        self._tasks: set[asyncio.Task[object]] = set()
        self.records: list[RequestRecord] = []

    async def run(self) -> None:
        canceller = asyncio.create_task(self._cancel_when_stopped())
        job = self._job
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(job.clients if job.schedule is None else 0):
                    self._start(self._closed_client(), group)
                for intended_s, index in zip((job.schedule or ())[job.part :: job.of], self._indexes, strict=False):
                    if not await self._clock.reach(intended_s, self._stop):
                        break
                    self._start(self._send(index, intended_s), group)
        finally:
            canceller.cancel()

    def _start(self, work: Coroutine[None, None, object], group: asyncio.TaskGroup) -> None:
        task = group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
        self._tally.in_flight -= 1
        self._tally.done += 1
        self._tally.failed += not record.completed
        self.records.append(record)
        return record

    async def _cancel_when_stopped(self) -> None:
        await self._stop.wait()
        while self._tasks:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.sleep(0.05)


# One process, or several when one core is not enough. Each drives its part of the job by the same clock and reports as it
# goes. They are started by `spawn`, so that nothing of this process's threads or loop is inherited. This process handles
# interrupts: the others end when it asks them to, and return the records that they have.

LoadGenerator = Callable[[Clock, Tally, asyncio.Event], Awaitable[Sent]]
"""Sends the job that it was made for, from the clock's zero on."""


@asynccontextmanager
async def load_generator(job: Job, processes: int) -> AsyncGenerator[LoadGenerator]:
    """Start the processes that send the job, as a context manager. Raises DragomanError if one cannot be started."""
    if processes == 1:
        yield partial(drive, job)
        return
    context = multiprocessing.get_context("spawn")
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for part in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(target=_process_main, args=(theirs, job.share(part, processes)), daemon=True)
            process.start()
            theirs.close()
            started.append((process, ours))
        connections = [connection for _, connection in started]
        await asyncio.gather(*map(_receive, connections))  # each reports that it is ready
        yield partial(_drive_processes, connections)
    finally:
        await asyncio.to_thread(_close, started)


def _close(started: Sequence[tuple[BaseProcess, Connection]]) -> None:
    for _, connection in started:
        connection.close()  # one that still waits for its start time reads the end and exits
    for process, _ in started:
        process.join(_EXIT_S)
        if process.is_alive():
            process.kill()
            process.join()


async def _drive_processes(connections: Sequence[Connection], clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent:
    async def send_stop() -> None:
        await stop.wait()
        for connection in connections:
            with suppress(OSError):  # it has ended already
                connection.send("stop")

    for connection in connections:
        connection.send(clock)
    stopper = asyncio.create_task(send_stop())
    try:
        parts = await asyncio.gather(*(_follow(connection, tally) for connection in connections))
    finally:
        stopper.cancel()
    records = sorted((record for part in parts for record in part.records), key=lambda record: record.index)
    histogram = sum((part.itl_histogram for part in parts), Counter[int]())
    return Sent(tuple(records), histogram, max(part.cpu_share for part in parts))


async def _receive(connection: Connection) -> object:
    try:
        return await asyncio.to_thread(connection.recv)
    except (EOFError, OSError) as error:
        raise DragomanError("a client process exited before it had sent its requests") from error


async def _follow(connection: Connection, tally: Tally) -> Sent:
    """Adds a process's reports to the tally until it returns its records."""
    last = Tally()
    while not isinstance(message := await _receive(connection), Sent):
        assert isinstance(message, Tally)
        tally.in_flight += message.in_flight - last.in_flight
        tally.done += message.done - last.done
        tally.failed += message.failed - last.failed
        last = message
    return message


def _process_main(connection: Connection, job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):  # the parent has exited
        connection.send("ready")
        clock = connection.recv()
        connection.send(run_async(_drive_part(connection, job, clock)))


async def _drive_part(connection: Connection, job: Job, clock: Clock) -> Sent:
    tally, stop = Tally(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_requested() -> None:
        """Anything received after the start means stop; so does the parent's exit."""
        loop.remove_reader(connection.fileno())
        stop.set()

    async def report() -> None:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            connection.send(tally)

    loop.add_reader(connection.fileno(), stop_requested)
    # uvloop has made the pipe non-blocking: records that fill it would be cut off by an error
    os.set_blocking(connection.fileno(), True)
    reporter = asyncio.create_task(report())
    try:
        return await drive(job, clock, tally, stop)
    finally:
        reporter.cancel()
        loop.remove_reader(connection.fileno())
        connection.send(tally)
