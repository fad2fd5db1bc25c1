"""Everything that passes between the server and a worker process of a baseline, and how it is framed on their socket.

The server sends a `WorkerPlan`, then `SequenceBatch` after `SequenceBatch`; the worker sends `Ready` or `NotReady`, then one
`BatchResults` for each batch. The end of the stream is the end of the other side. A message is one pickle behind its length;
both ends are this package's, on a socket pair that no other process can open.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from dragoman.engine.spec import EngineSpec
from dragoman.types import Completion, EngineSequence

_LENGTH = struct.Struct("!I")


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


def frame(message: WorkerPlan | SequenceBatch | Ready | NotReady | BatchResults) -> bytes:
    """One message as bytes for the socket."""
    payload = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(payload)) + payload


async def receive(reader: asyncio.StreamReader) -> Any:
    """The next message; None where the stream ends, between messages or within one."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def receive_blocking(stream: BinaryIO) -> Any:
    """`receive` for the worker's side, which has no event loop."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    payload = stream.read(length)
    return pickle.loads(payload) if len(payload) == length else None
