"""Runs a load in this process, or in several when one core is not enough."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any, Protocol, TypeVar

import psutil

from dragoman.errors import DragomanError
from dragoman_bench.bench.client import Clock
from dragoman_bench.bench.load import Job, Tally, drive
from dragoman_bench.bench.results import RequestRecord

_T = TypeVar("_T")


def run_async(work: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run` on the fastest loop there is."""
    try:
        factory = import_module("uvloop").new_event_loop
    except ImportError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


LEAD_S = 0.1  # from telling the start to the start: everybody must have heard
_REPORT_EVERY_S = 0.1
_LEAVE_S = 5.0  # for a process that has handed over its records to end


@dataclass(frozen=True, slots=True)
class Sent:
    """What a crew did. `cpu_share` is of one core, of the busiest process."""

    records: tuple[RequestRecord, ...]
    itl_histogram: Counter[int]
    cpu_share: float


@dataclass(frozen=True, slots=True)
class Progress:
    in_flight: int
    done: int
    failed: int
    ended: tuple[tuple[float, float], ...]


class Crew(Protocol):
    async def run(self, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent: ...


@asynccontextmanager
async def assemble(job: Job, processes: int) -> AsyncGenerator[Crew]:
    """A crew that is ready to start. Raises DragomanError where a process cannot be started."""
    if processes == 1:
        yield Alone(job)
        return
    crew = Several([shared(job, part, processes) for part in range(processes)])
    try:
        await crew.ready()
        yield crew
    finally:
        await asyncio.to_thread(crew.dismiss)


def shared(job: Job, part: int, of: int) -> Job:
    """Part `part` of a job: its requests, its clients and its connections, which add up to the whole's."""

    def share(whole: int) -> int:
        return whole // of + (part < whole % of)

    connections = None if job.connections is None else max(1, share(job.connections))
    return replace(job, clients=share(job.clients), connections=connections, part=part, of=of)


class Alone:
    """This process."""

    def __init__(self, job: Job) -> None:
        self._job = job

    async def run(self, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent:
        began, cpu = monotonic(), _cpu_s()
        driven = await drive(self._job, clock, tally, stop)
        share = (_cpu_s() - cpu) / max(monotonic() - began, 1e-9)
        return Sent(tuple(driven.records), driven.itl_histogram, round(share, 4))


class Several:
    """Processes, one a job, started by `spawn`: nothing of this process's threads or loop comes along."""

    def __init__(self, jobs: list[Job]) -> None:
        context = multiprocessing.get_context("spawn")
        self._members: list[tuple[BaseProcess, Connection]] = []
        for job in jobs:
            ours, theirs = context.Pipe()
            process = context.Process(target=_member, args=(theirs, job), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))

    async def ready(self) -> None:
        await asyncio.gather(*(_hear(connection) for _, connection in self._members))

    async def run(self, clock: Clock, tally: Tally, stop: asyncio.Event) -> Sent:
        for _, connection in self._members:
            connection.send(clock)
        herald = asyncio.create_task(self._pass_on(stop))
        try:
            parts = await asyncio.gather(*(_follow(connection, tally) for _, connection in self._members))
        finally:
            herald.cancel()
        records = sorted((record for part in parts for record in part.records), key=lambda record: record.index)
        histogram = sum((part.itl_histogram for part in parts), Counter[int]())
        return Sent(tuple(records), histogram, max(part.cpu_share for part in parts))

    async def _pass_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        for _, connection in self._members:
            with suppress(OSError):  # it has ended already
                connection.send("stop")

    def dismiss(self) -> None:
        for _, connection in self._members:
            connection.close()  # one that still waits for its start reads the end and leaves
        for process, _ in self._members:
            process.join(_LEAVE_S)
            if process.is_alive():
                process.kill()
                process.join()


async def _hear(connection: Connection) -> object:
    try:
        return await asyncio.to_thread(connection.recv)
    except (EOFError, OSError) as error:
        raise DragomanError("a client process ended before its time") from error


async def _follow(connection: Connection, tally: Tally) -> Sent:
    """Adds a member's reports to the tally until it hands over what it did."""
    last = Progress(0, 0, 0, ())
    while True:
        message = await _hear(connection)
        if isinstance(message, Sent):
            tally.in_flight -= last.in_flight
            tally.done += len(message.records) - last.done
            return message
        if isinstance(message, Progress):
            tally.in_flight += message.in_flight - last.in_flight
            tally.done += message.done - last.done
            tally.failed += message.failed - last.failed
            tally.ended.extend(message.ended)
            last = message


def _member(connection: Connection, job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):  # the parent has gone
        connection.send("ready")
        clock = connection.recv()
        connection.send(run_async(_take_part(connection, job, clock)))


async def _take_part(connection: Connection, job: Job, clock: Clock) -> Sent:
    tally, stop = Tally(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(connection.fileno(), partial(_obey, connection, stop))
    reporter = asyncio.create_task(_report(connection, tally))
    try:
        return await Alone(job).run(clock, tally, stop)
    finally:
        reporter.cancel()
        loop.remove_reader(connection.fileno())


def _obey(connection: Connection, stop: asyncio.Event) -> None:
    """Anything said after the start means stop; so does the parent's end."""
    with suppress(EOFError, OSError):
        connection.recv()
    asyncio.get_running_loop().remove_reader(connection.fileno())
    stop.set()


async def _report(connection: Connection, tally: Tally) -> None:
    while True:
        await asyncio.sleep(_REPORT_EVERY_S)
        connection.send(Progress(tally.in_flight, tally.done, tally.failed, tuple(tally.take_ended())))


def _cpu_s() -> float:
    used = psutil.Process().cpu_times()
    return used.user + used.system
