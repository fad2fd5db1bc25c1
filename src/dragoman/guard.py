"""A guard: a process that ends all that another one has started, once that one has ended, whatever ended it.

No process can do that for itself: SIGKILL leaves it no time, and its children then have another parent. vLLM's processes and a
server under test lead no group that could be killed; Ray gives its own sessions of their own, and overwrites their environment
with a title. So a guard knows what it has to end in two ways:

- while the process lives, the guard notes twice a second what runs below it;
- what was started since then has the guard's mark in its environment, which a process has from its first moment.

`python -m dragoman.guard ROOT OWNER MARK [FOLDER]` guards the process ROOT, its parent, until its standard input is closed,
which happens however ROOT ends, or until the process OWNER has ended. FOLDER is deleted then.
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
"""So long nothing is found before the guard of a process that was killed exits: a child that was just started has its mark by
then."""
_KILL_S = 10.0
_SENT_TO_ALL = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""A service manager sends them to every process; they are blocked in the guard from its first moment: it has work then."""
_EXITED_OR_FOREIGN = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


class Guard:
    """The guard of this process. What this process starts must inherit its environment.

    `owner`: the process (pid) whose end counts as well, for a program that is to end with the one that started it; a guard of
    such a program may be kept over `exec`, by `keep_over_exec`. `folder` is deleted at the end.
    """

    def __init__(self, *, owner: int | None = None, folder: Path | None = None) -> None:
        root = os.getpid()
        self._mark = f"GUARDED_BY_{secrets.token_hex(8)}"
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SENT_TO_ALL)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "dragoman.guard", str(root), str(owner or root), self._mark, str(folder or "")],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,  # who reads what this process prints is not to wait for the guard
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # a terminal's Ctrl-C and hang-up are not meant for it
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.environ[self._mark] = "1"

    def keep_over_exec(self) -> None:
        """Have this guard guard the program that this process becomes, which itself ends with `owner`."""
        assert self._process.stdin is not None
        os.set_inheritable(self._process.stdin.fileno(), True)

    def close(self) -> None:
        """Have it end what is left and delete the folder, and wait until it has."""
        os.environ.pop(self._mark, None)
        self._process.communicate()


def guard_children() -> None:
    """From now on nothing that this process starts outlives it. A second call changes nothing."""
    _guard_of(os.getpid())


@cache
def _guard_of(pid: int) -> Guard:
    """By pid: a fork has children of its own."""
    guard = Guard()
    atexit.register(guard.close)
    return guard


def _processes(pid: int) -> set[psutil.Process]:
    """The process, or none if it has ended."""
    with suppress(*_EXITED_OR_FOREIGN):
        return {psutil.Process(pid)}
    return set()


def _below(pids: Iterable[int]) -> set[psutil.Process]:
    """All processes below these. Processes are equal if pid and time of creation are."""
    found: set[psutil.Process] = set()
    for pid in pids:
        with suppress(*_EXITED_OR_FOREIGN):
            found.update(psutil.Process(pid).children(recursive=True))
    return {process for process in found if process.pid != os.getpid()}


def _marked(mark: str) -> set[psutil.Process]:
    """Processes with the mark in the environment that they were started with."""
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
    """Python's own, which removes the shared memory of processes once all of them have ended, and then exits."""
    with suppress(*_EXITED_OR_FOREIGN):
        return any("resource_tracker" in word for word in process.cmdline())
    return False


def _note_until_end(root: int, owners: set[psutil.Process]) -> set[psutil.Process]:
    """Return what has run below `root` and still does, once it, or its owner, has ended."""
    noted: set[psutil.Process] = set()
    while os.getppid() == root and _running(owners):
        if select.select([sys.stdin], [], [], _NOTE_S)[0]:
            break
        noted = _running(noted) | _below([root])
    return noted


def _end(root: int, mark: str, noted: set[psutil.Process]) -> None:
    """Kill what was noted, what has the mark, and what runs below those, until nothing is left."""
    began_s = settled_s = monotonic()
    while settled_s - began_s < _KILL_S:
        noted |= _below(process.pid for process in noted) | _marked(mark)
        is_closed = os.getppid() == root  # and not killed: all that it has started is below it
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
    """Guard until the end of `root` or `owner`."""
    noted = _note_until_end(root, _processes(owner))  # the owner may have ended before this guard was there to see it
    if owner != root and os.getppid() == root:
        noted |= _processes(root)
    _end(root, mark, noted)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5])
