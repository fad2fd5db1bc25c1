"""On a CPU: everything but the engine's workers off the cores that vLLM has bound them to.

vLLM binds a worker's threads to cores of their own and reserves at least one for everything else, but binds nothing else there.
Its scheduler's process spins while the worker computes, so on a machine of few cores the kernel moves it, or a server that it
crowds out, to a worker's core for a good part of the time. Nothing is known here of engines: processes and cores alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

import psutil

_log = logging.getLogger(__name__)
_GONE = (psutil.NoSuchProcess, ProcessLookupError)
_given: frozenset[int] | None = None
"""The cores that this process may run on, if it has made way on some of them."""


def keep_off_workers(schedulers: Iterable[int]) -> frozenset[int]:
    """Move each process of `schedulers` (pids) off the cores that their children's main threads are bound to.

    Returns the cores that they keep; empty where nothing was moved: children that are bound to nothing, no core left beside
    theirs, processes that are gone, or a system without thread affinity.
    """
    with suppress(*_GONE):
        processes = [psutil.Process(pid) for pid in schedulers]
        return _kept_apart(processes, processes)
    return frozenset()


def leave_worker_cores() -> frozenset[int]:
    """Move this process off the cores that its children's workers are bound to; the cores that it keeps, as above.

    For a process that serves and nothing else: what it starts from then on inherits its cores, except `within_all_cores`.
    """
    global _given
    ourselves, given = psutil.Process(), _all_cores()
    with suppress(*_GONE):
        if kept := _kept_apart(ourselves.children(), [ourselves]):
            _given = given
            return kept
    return frozenset()


def has_left_worker_cores() -> bool:
    """Whether this process keeps off cores that it was given."""
    return _given is not None


@contextmanager
def on_all_cores() -> Generator[None]:
    """Within, this thread and what it starts have all cores that the process was given: a new engine binds its own."""
    if _given is None:
        yield
        return
    kept = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _given)
    try:
        yield
    finally:
        os.sched_setaffinity(0, kept)


def _all_cores() -> frozenset[int]:
    """Those that this process was given; none where the system does not tell."""
    return _given or (frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset())


def _kept_apart(schedulers: list[psutil.Process], movers: list[psutil.Process]) -> frozenset[int]:
    """Move all threads of `movers` to where no child of `schedulers` is bound."""
    allowed = _all_cores()
    if not allowed:
        return frozenset()
    cores = [os.sched_getaffinity(child.pid) for scheduler in schedulers for child in scheduler.children()]
    bound = {core for one in cores if not allowed <= one for core in one}
    rest = allowed - bound
    if not bound or not rest:
        return frozenset()
    for process in movers:
        for thread in process.threads():
            with suppress(ProcessLookupError):  # threads end as they like
                os.sched_setaffinity(thread.id, rest)
    _log.info("%s: on cores %s, workers on %s", ", ".join(str(one.pid) for one in movers), sorted(rest), sorted(bound))
    return frozenset(rest)
