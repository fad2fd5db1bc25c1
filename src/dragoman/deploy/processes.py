"""Lists the sockets on which the child processes of `dragoman serve --replicas` listen."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

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
    """Return the listening sockets of these processes, by address. A socket that two processes share is listed once."""
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
    """Return a short name of a process. Ray's workers have one in their command line, `ray::ServeReplica:...`."""
    words = process.cmdline()
    if words and words[0].startswith("ray::"):
        return words[0].split()[0]
    return process.name()
