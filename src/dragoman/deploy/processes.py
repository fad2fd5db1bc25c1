"""The processes of one `dragoman serve --replicas`: which they are, where they listen, and that none outlives it.

Ray gives its processes groups and sessions of their own, and an engine's processes are the children of a worker that may be
killed. So a run's processes are recognised by a variable of their environment, which each inherits.

`python -m dragoman.deploy.processes RUN` waits until its standard input is closed, which happens however the process that
started it ends, and then kills what is left of the run.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic, sleep

import psutil

RUN_VARIABLE = "REPLICAS_RUN"
_KILL_S = 10.0
_EXITED_OR_FOREIGN = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def of_run(run: str) -> list[psutil.Process]:
    """The processes that inherited this run's variable."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(RUN_VARIABLE) == run:
                found.append(process)
        except _EXITED_OR_FOREIGN:
            continue
    return found


@dataclass(frozen=True, order=True, slots=True)
class Listener:
    """A TCP socket that listens."""

    host: str
    port: int
    process: str

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback


def listeners(processes: Iterable[psutil.Process]) -> list[Listener]:
    """Where these processes listen, by address. A socket that two processes share is listed once."""
    found: dict[tuple[str, int], Listener] = {}
    for process in processes:
        try:
            name = _name(process)
            for socket in process.net_connections("tcp"):
                if socket.status == psutil.CONN_LISTEN:
                    host, port = socket.laddr[0], socket.laddr[1]
                    found.setdefault((host, port), Listener(host, port, name))
        except _EXITED_OR_FOREIGN:
            continue
    return sorted(found.values())


def _name(process: psutil.Process) -> str:
    """What it is, shortly: Ray's workers name themselves in their command line, `ray::ServeReplica:...`."""
    words = process.cmdline()
    if words and words[0].startswith("ray::"):
        return words[0].split()[0]
    return process.name()


class Guard:
    """A process that kills what is left of a run once this one has ended, or `close` is called."""

    def __init__(self, run: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != RUN_VARIABLE}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.deploy.processes", run],
            stdin=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a terminal's Ctrl-C and hang-up are not meant for it
        )

    def close(self) -> None:
        """Have it kill what is left, and wait until it has."""
        self._process.communicate()


def _kill(run: str) -> None:
    """Kill the run's processes, and those that they start meanwhile."""
    until_s = monotonic() + _KILL_S
    while (left := of_run(run)) and monotonic() < until_s:
        for process in left:
            try:
                process.kill()
            except _EXITED_OR_FOREIGN:
                continue
        sleep(0.05)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    _kill(sys.argv[1])
