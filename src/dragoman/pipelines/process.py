"""A worker process, seen from the server's event loop: start and its acknowledgement, messages, death, end.

Spawned, not forked: a fork of a server with threads, or with an initialised GPU, is undefined. A death shows as the end of
the worker's stream, after everything that it said. Knows nothing of jobs: `pool` decides what a death means.
"""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from multiprocessing.context import SpawnProcess

from dragoman.engine import quiet
from dragoman.engine.affinity import on_all_cores
from dragoman.errors import EngineDead
from dragoman.pipelines import worker
from dragoman.pipelines.messages import FromWorker, NotReady, Plan, Ready, Stop, ToWorker, frame, receive

STOP_GRACE_S = 5.0  # an idle worker ends in about one
_SPAWN = multiprocessing.get_context("spawn")


class WorkerProcess:
    """One process, for one life: a restart is a new `WorkerProcess`."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.name = name
        self._plan = plan
        self._process: SpawnProcess | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ending = asyncio.Lock()

    async def start(self) -> Ready:
        """Spawn, and wait for the engine. Raises `EngineDead`, with the log's end, when it does not come up."""
        ours = self._spawn()
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        first: FromWorker | None = await receive(self._reader)
        if isinstance(first, Ready):
            return first
        ending = await self.stop(grace_s=0)
        reason = first.reason if isinstance(first, NotReady) else ending
        raise EngineDead(f"{self.name} did not start: {reason}{self._log_end()}")

    def _spawn(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            # Not a daemon: a daemon may have no children, and an engine over several GPUs has some.
            process = _SPAWN.Process(name=self.name, target=worker.main, args=(self._plan, theirs), daemon=False)
            with on_all_cores():
                process.start()
        self._process = process
        # When Python exits, multiprocessing waits for its children, and a worker waits for its server: this comes first.
        atexit.register(self._kill)
        self._watch(process)
        return ours

    def _watch(self, process: SpawnProcess) -> None:
        """When the worker dies, end what it started: its forks would hold its socket open, and with it our wait."""
        loop = asyncio.get_running_loop()
        # A pidfd tells of the process itself; the sentinel is a pipe, which forks hold open too.
        can_tell = process.pid is not None and hasattr(os, "pidfd_open")
        watched = os.pidfd_open(process.pid or 0) if can_tell else os.dup(process.sentinel)

        def died() -> None:
            loop.remove_reader(watched)
            os.close(watched)
            self._kill()

        loop.add_reader(watched, died)

    def send(self, message: ToWorker) -> None:
        """Never blocks. What is sent to a dead worker is lost; its death is on its way through `messages`."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame(message))

    async def messages(self) -> AsyncIterator[FromWorker]:
        """What the worker says, until it is dead."""
        while self._reader is not None and (message := await receive(self._reader)) is not None:
            yield message

    async def stop(self, *, grace_s: float = STOP_GRACE_S) -> str:
        """End it: asked to, and killed when it has not ended within `grace_s`. Says how it ended."""
        async with self._ending:
            if self._process is None:
                return "never started"
            process = self._process
            try:
                if grace_s:
                    self.send(Stop())
                    await asyncio.to_thread(process.join, grace_s)
            finally:
                self._kill()
            await asyncio.to_thread(process.join)
            atexit.unregister(self._kill)
            await self._close()
            return f"exit code {process.exitcode}"

    def _kill(self) -> None:
        """Kill the worker and all that it started (it leads a process group)."""
        if self._process is not None and self._process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()

    async def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    def _log_end(self) -> str:
        file = self._plan.log_file
        return f"; the end of {file}:\n{quiet.tail(file)}" if file is not None else ""
