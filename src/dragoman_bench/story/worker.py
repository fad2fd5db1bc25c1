"""A worker process of a baseline: receives batches from the server and runs each to its end.

The server starts it with `python -m dragoman_bench.story.worker FD`, as the leader of a process group of its own: a terminal's
Ctrl-C does not reach it, and all that it starts can be killed together. (Not a session: Linux's autogroup would schedule it
against the server, which would then wait for an engine that spins.) When the server exits, the socket ends and so does the
worker. Imports no vllm: the engine is named in the `WorkerPlan`.
"""

from __future__ import annotations

import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Callable
from typing import Protocol

from dragoman.engine.frames import frame, receive_blocking
from dragoman.engine.spec import EngineSpec
from dragoman.errors import EngineFailed, EngineRejected
from dragoman.types import Completion, EngineSequence
from dragoman_bench.story.messages import (
    BatchResults,
    NotReady,
    Ready,
    Refused,
    SequenceBatch,
    WorkerPlan,
)

Result = Completion | EngineRejected | EngineFailed


class BatchEngine(Protocol):
    """An engine that takes a batch and returns it whole. An exception of `generate` ends the worker."""

    @property
    def max_model_len(self) -> int: ...

    def generate(self, sequences: list[EngineSequence]) -> list[Result]:
        """One result for each sequence, in order."""
        ...

    def close(self) -> None: ...


def main(connection: socket.socket) -> None:
    """Run until the server closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # a service manager sends it to every process; the server stops its workers
    with connection, connection.makefile("rb") as stream:
        plan: WorkerPlan = receive_blocking(stream)
        # Before any library is loaded that counts the CPUs.
        if plan.cpus and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, plan.cpus)
        if plan.threads:
            os.environ.setdefault("OMP_NUM_THREADS", str(plan.threads))
        try:
            factory: Callable[[EngineSpec], BatchEngine] = pkgutil.resolve_name(plan.engine)
            engine = factory(plan.spec)
        except Exception as error:
            connection.sendall(frame(NotReady(f"{type(error).__name__}: {error}")))
            raise
        connection.sendall(frame(Ready(engine.max_model_len)))
        batch: SequenceBatch | None
        while (batch := receive_blocking(stream)) is not None:
            results = engine.generate(list(batch.sequences))
            connection.sendall(
                frame(
                    BatchResults(
                        tuple(one if isinstance(one, Completion) else Refused(one.code, one.message) for one in results)
                    )
                )
            )
        engine.close()


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
