"""The processes below `dragoman serve --replicas`: where they listen, and that none outlives it.

Ray gives its processes groups and sessions of their own, and overwrites their environment and command line with a title; an
engine's processes are the children of a worker that may be killed. So a guard notes all of them while their parents live.

`python -m dragoman.deploy.processes PID FOLDER` notes what runs below PID until its standard input is closed, which happens
however PID ends. Then it kills what it has noted, what runs below that, and what has a file open in FOLDER, and deletes FOLDER.
"""

from __future__ import annotations

import ipaddress
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import psutil

_NOTE_S = 0.5
_KILL_S = 10.0
_EXITED_OR_FOREIGN = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


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
                    host, port = socket.laddr[0].removeprefix("::ffff:"), socket.laddr[1]
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
    """A process that kills what runs below this one once it has ended, or `close` is called."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dragoman.deploy.processes", str(os.getpid()), str(folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a terminal's Ctrl-C and hang-up are not meant for it
        )

    def close(self) -> None:
        """Have it kill what is left and delete the folder, and wait until it has."""
        self._process.communicate()


def _below(pids: Iterable[int]) -> set[psutil.Process]:
    """All processes below these. Processes are equal if pid and time of creation are."""
    found: set[psutil.Process] = set()
    for pid in pids:
        try:
            found.update(psutil.Process(pid).children(recursive=True))
        except _EXITED_OR_FOREIGN:
            continue
    return {process for process in found if process.pid != os.getpid()}


def _using(folder: str) -> set[psutil.Process]:
    """Processes with a file open in a folder."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(file.path.startswith(folder) for file in process.open_files()):
                found.add(process)
        except _EXITED_OR_FOREIGN:
            continue
    return found


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except _EXITED_OR_FOREIGN:
        return False


def _guard(pid: int, folder: str) -> None:
    noted: set[psutil.Process] = set()
    while not select.select([sys.stdin], [], [], _NOTE_S)[0]:
        noted = _below([pid])
    until_s = monotonic() + _KILL_S
    while monotonic() < until_s:
        noted |= _below(process.pid for process in noted) | _using(folder) | _below([pid])
        noted = {process for process in noted if process.pid != pid and _runs(process)}
        if not noted:
            return
        for process in noted:
            with suppress(*_EXITED_OR_FOREIGN):
                process.kill()
        sleep(0.05)


if __name__ == "__main__":
    _guard(int(sys.argv[1]), sys.argv[2])
    shutil.rmtree(sys.argv[2], ignore_errors=True)
