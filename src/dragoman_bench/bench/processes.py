"""Runs a load in this process, or in several when one core is not enough.

Each process drives its part of the plan by the same clock and reports as it goes. The parent handles interrupts: the
others end when it asks them to, and return the records that they have.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Protocol

import psutil

from dragoman.errors import DragomanError
from dragoman_bench.bench.client import Clock
from dragoman_bench.bench.load import Job, Tally, drive
from dragoman_bench.bench.progress import run_async
from dragoman_bench.bench.results import RequestRecord

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
