"""How messages between the server and a process that it has started are framed on their socket pair.

A message is one pickle behind its length: both ends are this program, and no other process can open the socket. Knows nothing
of what the messages say.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
from typing import Any, BinaryIO

_LENGTH = struct.Struct("!I")


def frame(message: object) -> bytes:
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
    """`receive` for a process that has no event loop."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    payload = stream.read(length)
    return pickle.loads(payload) if len(payload) == length else None
