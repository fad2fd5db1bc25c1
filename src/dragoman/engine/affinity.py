"""On a CPU: the scheduler's process off the cores that vLLM has bound its worker to.

vLLM binds a worker's threads to cores of their own and reserves at least one for everything else, but binds nothing else there.
Its scheduler's process spins while the worker computes, and on a machine of few cores the kernel runs it on the worker's core
for a good part of the time. Nothing is known here of engines: processes and cores alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from contextlib import suppress

import psutil

_log = logging.getLogger(__name__)


def keep_off_workers(schedulers: Iterable[int]) -> frozenset[int]:
    """Move each process of `schedulers` (pids) off the cores that their children's main threads are bound to.

    Returns the cores that they keep; empty where nothing was moved: children that are bound to nothing, no core left beside
    theirs, processes that are gone, or a system without thread affinity. Nobody else is moved: a server's next engine would
    inherit the server's cores.
    """
    if not hasattr(os, "sched_setaffinity"):
        return frozenset()
    allowed = os.sched_getaffinity(0)
    bound: set[int] = set()
    moved: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        for pid in schedulers:
            process = psutil.Process(pid)
            cores = [os.sched_getaffinity(child.pid) for child in process.children()]
            bound |= {core for one in cores if not allowed <= one for core in one}
            moved.append(process)
        rest = allowed - bound
        if not bound or not rest:
            return frozenset()
        for process in moved:
            for thread in process.threads():
                os.sched_setaffinity(thread.id, rest)
        _log.info("the scheduler runs on cores %s, its workers on %s", sorted(rest), sorted(bound))
        return frozenset(rest)
    return frozenset()
