"""A worker process: takes sequences from the server's socket, gathers them into batches, runs each batch to its end.

One thread reads the socket, so that the queue moves on while the engine works; the main thread waits for a batch and runs it.
The process leads a group of its own: a terminal's Ctrl-C and a service manager's SIGTERM, which are the server's to handle,
leave it running until the server says `Stop`, and all that it starts can be killed together. (Not a session: Linux's autogroup
would schedule it against the server, whose turn then waits for an engine that spins.) When the server is gone, the socket ends
and the worker ends itself and what it started at once.

Knows no vllm and no event loop: the engine is named in the `Plan` and loaded here.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from itertools import takewhile
from typing import Protocol

from dragoman.engine import quiet
from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineFailed, EngineRejected
from dragoman.pipelines.messages import (
    Answered,
    Began,
    Ended,
    FromWorker,
    NotReady,
    Plan,
    Ready,
    Refused,
    Run,
    Stop,
    Withdraw,
    Withdrawn,
    frame,
    receive_blocking,
)
from dragoman.types import Completion, Sequence

Result = Completion | EngineRejected | EngineFailed


class BatchEngine(Protocol):
    """An engine that takes a batch and gives it back whole. What it raises ends the worker."""

    @property
    def max_model_len(self) -> int: ...

    def generate(self, sequences: list[Sequence]) -> list[Result]:
        """One result for each sequence, in order."""
        ...

    def close(self) -> None: ...


class Inbox:
    """The sequences that wait for this worker, in order of arrival. Filled by one thread, emptied by another."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs: dict[int, Run] = {}
        self._stopped = False

    def put(self, run: Run) -> None:
        with self._changed:
            self._runs[run.job] = run
            self._changed.notify()

    def withdraw(self, job: int) -> bool:
        """Whether the job was still here."""
        with self._changed:
            self._changed.notify()
            return self._runs.pop(job, None) is not None

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def gather(self, size: int, timeout_s: float) -> list[Run]:
        """Wait for a first sequence, then up to `timeout_s` for `size` of them. Empty when told to stop."""
        with self._changed:
            while not self._stopped:
                self._changed.wait_for(lambda: self._runs or self._stopped)
                self._changed.wait_for(lambda: not self._runs or self._stopped or self._is_full(size), timeout_s)
                if self._runs and not self._stopped:
                    return self._take(size)
            return []

    def _is_full(self, size: int) -> bool:
        return len(self._runs) >= size or any(run.alone for run in self._runs.values())

    def _take(self, size: int) -> list[Run]:
        waiting = list(self._runs.values())
        batch = waiting[:1] if waiting[0].alone else list(takewhile(lambda run: not run.alone, waiting[:size]))
        for run in batch:
            del self._runs[run.job]
        return batch


class _Wire:
    """The socket to the server: frames from two threads must not mix."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def send(self, message: FromWorker) -> None:
        with self._sending:
            self._connection.sendall(frame(message))

    def deliver(self, inbox: Inbox) -> None:
        """Sort the server's messages into `inbox`, until the server is gone: then end this whole group."""
        with self._connection.makefile("rb") as stream:
            while (message := receive_blocking(stream)) is not None:
                match message:
                    case Run():
                        inbox.put(message)
                    case Withdraw(job):
                        if inbox.withdraw(job):
                            self.send(Withdrawn(job))
                    case Stop():
                        inbox.stop()
                    case _:
                        raise TypeError(f"a worker was sent {message!r}")
        os.killpg(0, signal.SIGKILL)


def main(plan: Plan, connection: socket.socket) -> None:
    """A worker's whole life, in a process of its own."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection.set_inheritable(False)
    with ExitStack() as stack:
        if plan.log_file is not None:
            quiet.log_to_file(plan.log_file)
            stack.enter_context(quiet.streams_to_file(plan.log_file))
        _limit_cpus(plan)
        wire, inbox = _Wire(connection), Inbox()
        threading.Thread(target=wire.deliver, args=(inbox,), name="inbox", daemon=True).start()
        engine = _load(plan, wire)
        wire.send(Ready(engine.max_model_len))
        while batch := inbox.gather(plan.batch_size, plan.batch_timeout_s):
            _run(batch, engine, wire)
        engine.close()


def _limit_cpus(plan: Plan) -> None:
    """Take this worker's share of the CPUs, before any library that counts them is loaded."""
    if plan.cpus and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, plan.cpus)
    if plan.threads:
        os.environ.setdefault("OMP_NUM_THREADS", str(plan.threads))


def _load(plan: Plan, wire: _Wire) -> BatchEngine:
    try:
        factory: Callable[[EngineSpec], BatchEngine] = pkgutil.resolve_name(plan.engine)
        return factory(plan.spec)
    except Exception as error:
        wire.send(NotReady(f"{type(error).__name__}: {error}"))
        raise


def _run(batch: list[Run], engine: BatchEngine, wire: _Wire) -> None:
    wire.send(Began(tuple(run.job for run in batch)))
    results = engine.generate([run.sequence for run in batch])
    wire.send(Ended(tuple(_outcome(run.job, result) for run, result in zip(batch, results, strict=True))))


def _outcome(job: int, result: Result) -> Answered | Refused:
    if isinstance(result, Completion):
        return Answered(job, result)
    return Refused(job, result.code, result.message)
