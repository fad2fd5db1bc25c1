"""`dragoman` in this process, with a measure of how long its event loop is held: `python -m tests.watched_server serve …`.

The loop is asked for a turn every 10 ms. What the process used of the CPU between two turns, beyond these 10 ms, is how long
something held the loop: code on the loop itself, or in another thread that did not give Python's lock away. It is CPU time, so
it is the same on a machine that does other things too. `HOLD_FILE` has the longest since it was last set to 0, as 8 bytes.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
from pathlib import Path
from time import process_time

import uvloop

from dragoman.cli.main import main

TICK_S = 0.01
HOLD_FILE = "BOUNDED_WORK_HOLD_FILE"
_DOUBLE = struct.Struct("d")


class Hold:
    """The longest hold in a file that two processes share, in seconds of CPU time."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_DOUBLE.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _DOUBLE.size)

    @property
    def longest_s(self) -> float:
        return _DOUBLE.unpack_from(self._memory)[0]

    @longest_s.setter
    def longest_s(self, value: float) -> None:
        _DOUBLE.pack_into(self._memory, 0, value)


def watched_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop that notes its longest hold."""
    loop, hold = uvloop.Loop(), Hold(Path(os.environ[HOLD_FILE]))
    last_s = process_time()

    def tick() -> None:
        nonlocal last_s
        now_s = process_time()
        if (held_s := now_s - last_s - TICK_S) > hold.longest_s:
            hold.longest_s = held_s
        last_s = now_s
        loop.call_later(TICK_S, tick)

    loop.call_soon(tick)
    return loop


if __name__ == "__main__":
    uvloop.new_event_loop = watched_loop  # type: ignore[assignment]
    sys.argv[0] = "dragoman"
    main()
