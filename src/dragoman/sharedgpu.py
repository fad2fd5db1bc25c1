"""What engines of one GPU have in common: they start one after the other, and are clients of one MPS daemon.

The engines are in processes that do not know each other, under servers that may end at any time. So what they share is in a
folder:

    turn             locked by the engine that starts
    daemon           the number of the MPS daemon that runs, of all that ran one after the other; no such file: without MPS
    broken           the number of the last daemon that a crash may have broken
    engines/PID      a process of an engine, with the time of its creation
    pipe/, log/      of the daemon

An engine that starts measures how much memory is free, so nothing else on its GPU may start or end meanwhile: vLLM fails, or
gives its KV cache less. A client of MPS that is killed while its kernels run may break the daemon's server and all other
clients. So an engine leaves before it is killed, and after other deaths the daemon and all engines of the GPU are replaced
(`deploy/mps.py`, which owns the daemon).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import subprocess
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

CONTROL = "nvidia-cuda-mps-control"
PIPE_VARIABLE, LOG_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
FOLDER_VARIABLE = "SHARED_GPU_FOLDER"
"""In the environment of a server whose engine shares its GPU: the folder."""
POLL_S = 0.2
CONTROL_TIMEOUT_S = 5.0


class SharedGpu:
    """One GPU, as those that share it see it. Its methods may be called in any of their processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pipe, self.log = folder / "pipe", folder / "log"
        self._engines = folder / "engines"
        self._engines.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of_environment(cls) -> SharedGpu | None:
        """Return the GPU that this process's engine shares; None: it has its GPU alone."""
        folder = os.environ.get(FOLDER_VARIABLE)
        return cls(Path(folder)) if folder else None

    def environment(self) -> dict[str, str]:
        """Return the variables by which a server's engine shares the GPU, and is a client of MPS where there is a daemon."""
        shared = {FOLDER_VARIABLE: str(self.folder)}
        return {**shared, **self.mps_environment()} if self.daemon() is not None else shared

    def mps_environment(self) -> dict[str, str]:
        """Return the variables that name the daemon's folders, to itself, to its clients and to its commands."""
        return {PIPE_VARIABLE: str(self.pipe), LOG_VARIABLE: str(self.log)}

    # ---- the daemon

    def daemon(self) -> int | None:
        """Return the number of the daemon that runs; None: without MPS."""
        return self._read("daemon")

    def begin_daemon(self, number: int) -> None:
        """A daemon runs, in place of the one before."""
        self._write("daemon", number)

    def report_broken(self, daemon: int | None) -> None:
        """Report that a crash may have broken this daemon, of which the engine was a client."""
        if daemon is not None and daemon == self.daemon():
            self._write("broken", daemon)

    def is_broken(self) -> bool:
        """Whether the daemon that runs may be broken, and another one is about to be started."""
        daemon = self.daemon()
        return daemon is not None and self._read("broken") == daemon

    def command(self, text: str) -> str | None:
        """Give the daemon a command, and return its answer; None: there is none."""
        try:
            done = subprocess.run(
                [CONTROL],
                input=f"{text}\n",
                env={**os.environ, **self.mps_environment()},
                capture_output=True,
                text=True,
                timeout=CONTROL_TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def servers(self) -> list[int]:
        """Return the pids of the daemon's servers, of which there is one while it has clients."""
        return [int(word) for word in (self.command("get_server_list") or "").split() if word.isdecimal()]

    # ---- engines

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[int | None]:
        """Within: no other engine of the GPU starts. Gives the number of the daemon, which is not broken."""
        with (self.folder / "turn").open("w") as file:
            while not _lock(file.fileno()):  # noqa: ASYNC110 (the other one is in another process)
                await asyncio.sleep(POLL_S)
            while self.is_broken():  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
            yield self.daemon()

    def enter(self, processes: Iterable[psutil.Process]) -> None:
        """Note the processes of an engine that runs."""
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                part = self.folder / f"engine.{os.getpid()}"
                part.write_text(repr(process.create_time()))
                part.replace(self._engines / str(process.pid))

    def leave(self, processes: Sequence[psutil.Process]) -> None:
        """End what these processes do on the GPU, so that they can be killed without harm to others.

        Blocks, with a daemon that does not answer for some seconds.
        """
        for server in self.servers() if self.daemon() is not None else ():
            clients = (self.command(f"get_client_list {server}") or "").split()
            for process in processes:
                if str(process.pid) in clients and self.command(f"terminate_client {server} {process.pid}") is None:
                    log.warning("MPS did not terminate its client %d", process.pid)
                    self.report_broken(self.daemon())
        self.forget(process.pid for process in processes)

    def forget(self, pids: Iterable[int]) -> None:
        """The end of these processes means nothing any more."""
        for pid in pids:
            (self._engines / str(pid)).unlink(missing_ok=True)

    def engines(self) -> tuple[list[psutil.Process], list[int]]:
        """Return the engines' processes that run, and the pids of those that have ended without leaving."""
        running: list[psutil.Process] = []
        lost: list[int] = []
        for file in self._engines.iterdir():
            with suppress(FileNotFoundError):  # it leaves meanwhile
                entered, process = file.read_text(), _running(int(file.name))
                if process is not None and repr(process.create_time()) == entered:
                    running.append(process)
                else:
                    lost.append(int(file.name))
        return running, lost

    def _read(self, name: str) -> int | None:
        try:
            return int((self.folder / name).read_text())
        except (OSError, ValueError):
            return None

    def _write(self, name: str, number: int) -> None:
        part = self.folder / f"{name}.{os.getpid()}"
        part.write_text(str(number))
        part.replace(self.folder / name)


def _running(pid: int) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
