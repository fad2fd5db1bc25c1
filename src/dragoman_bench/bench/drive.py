"""Sends one process's share of a load, and counts what is going on meanwhile.

An open loop sends at its scheduled times whatever the server does. A closed loop's clients each send when their last
answer has come; a client that is refused with Retry-After waits as it was told to. When `stop` is set nothing more is
sent and what is in flight is cut off, recorded as unfinished; when the plan ends by itself, what is in flight is waited
for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field

from dragoman_bench.bench.client import Client, Order, open_session
from dragoman_bench.bench.clock import Clock
from dragoman_bench.bench.records import RequestRecord
from dragoman_bench.bench.targets import TargetOptions, make_target
from dragoman_bench.bench.workload import Item


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
