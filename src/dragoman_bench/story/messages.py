"""Everything that passes between the server and a worker process of a baseline, in frames of `dragoman.engine.frames`.

The server sends a `WorkerPlan`, then `SequenceBatch` after `SequenceBatch`; the worker sends `Ready` or `NotReady`, then one
`BatchResults` for each batch. The end of the stream is the end of the other side.
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.engine.spec import EngineSpec
from dragoman.types import Completion, EngineSequence


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """What a worker runs. `engine` names a `worker.BatchEngine` factory as `package.module:attribute`."""

    spec: EngineSpec
    engine: str
    cpus: tuple[int, ...] = ()  # the CPUs it may use; empty: all of the server's
    threads: int = 0  # for compute; 0: the engine decides


@dataclass(frozen=True, slots=True)
class SequenceBatch:
    """Run these to their ends."""

    sequences: tuple[EngineSequence, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine runs. `max_model_len` is in tokens."""

    max_model_len: int


@dataclass(frozen=True, slots=True)
class NotReady:
    """The engine did not start; the worker exits."""

    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The engine did not complete this sequence, and goes on. `code` is that of the error's class."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class BatchResults:
    """One for each sequence of the batch, in its order."""

    results: tuple[Completion | Refused, ...]
