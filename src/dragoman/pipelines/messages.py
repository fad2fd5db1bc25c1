"""Everything that passes between the server and a worker process, and how it is framed on the socket between them.

The server sends `Plan` once, at birth, then `Run`, `Withdraw` and `Stop`; a worker answers `Ready` or `NotReady` once, then
`Began`, `Ended` and `Withdrawn`. Every `Run` ends in exactly one `Answered`, `Refused` or `Withdrawn`, unless the worker dies:
then the stream ends. A message is one pickle behind its length; both ends are ours, on a socket pair that nobody else can
open. Knows nothing of queues or processes.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.engine.spec import EngineSpec
from dragoman.types import Completion, Sequence

_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker is told at birth. `engine` names a `BatchEngine` factory as `package.module:attribute`."""

    spec: EngineSpec
    log_file: Path | None
    engine: str
    batch_size: int
    batch_timeout_s: float
    cpus: tuple[int, ...] = ()  # the CPUs it may use; empty: all of the server's
    threads: int = 0  # for compute; 0: the engine decides


@dataclass(frozen=True, slots=True)
class Run:
    """Queue this sequence. `alone`: in a batch of its own, because a worker died with it once."""

    job: int
    sequence: Sequence
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Forget this job if it is still queued."""

    job: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Take no further batch, and end."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is up. `max_model_len` is in tokens."""

    max_model_len: int


@dataclass(frozen=True, slots=True)
class NotReady:
    """The engine did not come up; the worker ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class Began:
    """These jobs are in the engine now and can no longer be withdrawn."""

    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """This job was still queued and is gone."""

    job: int


@dataclass(frozen=True, slots=True)
class Answered:
    job: int
    completion: Completion


@dataclass(frozen=True, slots=True)
class Refused:
    """The engine goes on, without this job. `code` is that of the error's class."""

    job: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The batch that last began is done, with one outcome for each of its jobs."""

    outcomes: tuple[Answered | Refused, ...]


ToWorker = Run | Withdraw | Stop
FromWorker = Ready | NotReady | Began | Withdrawn | Ended


def frame(message: ToWorker | FromWorker) -> bytes:
    """One message as bytes for the socket."""
    payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(payload)) + payload


async def receive(reader: asyncio.StreamReader) -> Any:
    """The next message; None where the stream ends, cleanly or within a message."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive_blocking(stream: BinaryIO) -> Any:
    """`receive` for the worker's side, which has a thread to wait in."""
    try:
        header = stream.read(_LENGTH.size)
        payload = stream.read(*_LENGTH.unpack(header)) if len(header) == _LENGTH.size else b""
    except ConnectionError:
        return None
    return pickle.loads(payload) if payload and len(payload) == _LENGTH.unpack(header)[0] else None
