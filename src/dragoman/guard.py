"""A guard is a process that kills all child processes of another process after that one has ended in any way.

A process cannot do this itself: on SIGKILL it has no time, and its children then get another parent. Killing a process group
does not work either: vLLM's processes and servers under test are not in one group, and Ray starts sessions and overwrites
its processes' environment with a title. So a guard finds the processes in two ways:

- while the process runs, the guard records its descendants twice a second;
- processes that were started after that have the guard's mark in their environment from the beginning.

`python -m dragoman.guard ROOT OWNER MARK [FOLDER]` guards the process ROOT, its parent, until its standard input is closed,
which happens however ROOT ends, or until the process OWNER has ended. Then it deletes FOLDER.
"""

from __future__ import annotations

import atexit
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic, sleep

import psutil

_NOTE_S = 0.5
_SETTLE_S = 0.5
"""After a kill the guard exits when it has found no process for this time, in which a child that was just started gets its
mark."""
_KILL_S = 10.0
MARK_PREFIX = "GUARDED_BY_"
"""The beginning of the names of environment variables by which a guard finds the processes to kill."""
_SENT_TO_ALL = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals that a service manager sends to all processes. They are blocked in the guard, which must then do its work."""
_EXITED_OR_FOREIGN = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


class Guard:
    """Starts the guard of this process. Child processes must inherit its environment.

    `owner`: another process (pid) whose end also starts the kill, for a program that must end with the one that started it.
    `keep_over_exec` keeps the guard of such a program over `exec`. `folder` is deleted at the end.
    """

    def __init__(self, *, owner: int | None = None, folder: Path | None = None) -> None:
        root = os.getpid()
        self._mark = f"{MARK_PREFIX}{secrets.token_hex(8)}"
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT_TO_ALL)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dragoman.guard", str(root), str(owner or root), self._mark, str(folder or "")],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # a reader of this process's output must not wait for the guard to close it
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # without a terminal's Ctrl-C and hang-up
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.environ[self._mark] = "1"

    def keep_over_exec(self) -> None:
        """Keep the guard for the program that this process executes, which must end with `owner`."""
        assert self._process.stdin is not None
        os.set_inheritable(self._process.stdin.fileno(), True)

    def close(self) -> None:
        """Make the guard kill remaining processes and delete the folder, and wait for it."""
        os.environ.pop(self._mark, None)
        self._process.communicate()


def guard_children() -> None:
    """Start a guard, so that no child process outlives this process. A second call has no effect."""
    _guard_of(os.getpid())


@cache
def _guard_of(pid: int) -> Guard:
    """Return the guard of a process. A fork, with another pid, needs its own."""
    guard = Guard()
    atexit.register(guard.close)
    return guard


def _processes(pid: int) -> set[psutil.Process]:
    """Return the process, or nothing if it has ended."""
    with suppress(*_EXITED_OR_FOREIGN):
        return {psutil.Process(pid)}
    return set()


def _below(pids: Iterable[int]) -> set[psutil.Process]:
    """Return all descendants of these. Processes are equal if their pid and creation time are."""
    found: set[psutil.Process] = set()
    for pid in pids:
        with suppress(*_EXITED_OR_FOREIGN):
            found.update(psutil.Process(pid).children(recursive=True))
    return {process for process in found if process.pid != os.getpid()}


def _marked(mark: str) -> set[psutil.Process]:
    """Return the processes that were started with the mark in their environment."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(*_EXITED_OR_FOREIGN, OSError):
            if process.pid != os.getpid() and mark in process.environ():
                found.add(process)
    return found


def _running(processes: Iterable[psutil.Process]) -> set[psutil.Process]:
    found: set[psutil.Process] = set()
    for process in processes:
        with suppress(*_EXITED_OR_FOREIGN):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
    return found


def _is_resource_tracker(process: psutil.Process) -> bool:
    """Whether it is Python's resource tracker, which removes shared memory after the processes have ended, and exits."""
    with suppress(*_EXITED_OR_FOREIGN):
        return any("resource_tracker" in word for word in process.cmdline())
    return False


def _note_until_end(root: int, owners: set[psutil.Process]) -> set[psutil.Process]:
    """Wait for the end of `root` or its owner, and return the descendants of `root` that still run."""
    noted: set[psutil.Process] = set()
    while os.getppid() == root and _running(owners):
        if select.select([sys.stdin], [], [], _NOTE_S)[0]:
            break
        noted = _running(noted) | _below([root])
    return noted


def _end(root: int, mark: str, noted: set[psutil.Process]) -> None:
    """Kill the recorded processes, those with the mark, and their descendants, until there are none."""
    began_s = settled_s = monotonic()
    while settled_s - began_s < _KILL_S:
        noted |= _below(process.pid for process in noted) | _marked(mark)
        is_closed = os.getppid() == root  # and not killed: all its child processes are its descendants
        if is_closed:
            noted |= _below([root])
        running = {process for process in _running(noted) if not _is_resource_tracker(process)}
        for process in running:
            with suppress(*_EXITED_OR_FOREIGN):
                process.kill()
        if running:
            settled_s = monotonic()
        elif is_closed or monotonic() - settled_s > _SETTLE_S:
            return
        sleep(0.02)


def main(root: int, owner: int, mark: str, folder: str) -> None:
    """Run the guard until the end of `root` or `owner`."""
    noted = _note_until_end(root, _processes(owner))  # the owner may have ended before this guard was there to see it
    if owner != root and os.getppid() == root:
        noted |= _processes(root)
    _end(root, mark, noted)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5])
