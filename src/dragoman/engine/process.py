"""The processes around an engine: where they write, which signals reach them, and on which CPU cores they run.

Imports no vllm, and knows nothing of engines: file descriptors, signals, processes and cores alone.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

log = logging.getLogger(__name__)

# ---- the engine's log file


def log_to_file(log_file: Path) -> None:
    """Configure vLLM, before it is imported, to log to `log_file`. A configuration that the user set has precedence."""
    log_file.parent.mkdir(parents=True, exist_ok=True)
    if "VLLM_LOGGING_CONFIG_PATH" in os.environ:
        return
    handler = {
        "class": "logging.FileHandler",
        "filename": str(log_file.resolve()),
        "formatter": "plain",
        "encoding": "utf-8",
    }
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(levelname)s %(asctime)s %(process)d [%(name)s] %(message)s"}},
        "handlers": {"file": handler},
        "loggers": {"vllm": {"handlers": ["file"], "level": "INFO", "propagate": False}},
    }
    config_file = log_file.with_suffix(".logging.json")
    config_file.write_text(json.dumps(config), encoding="utf-8")
    os.environ["VLLM_LOGGING_CONFIG_PATH"] = str(config_file.resolve())


@contextmanager
def streams_to_file(log_file: Path) -> Generator[None]:
    """Within: file descriptors 1 and 2 write to `log_file`, and processes that are started here inherit that.

    vLLM logs through `logging`, but its processes also print warnings, compiler output and tracebacks.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    target = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, original in enumerate(saved, start=1):
            os.dup2(original, descriptor)
            os.close(original)
        os.close(target)


def last_lines(log_file: Path | None, lines: int = 12) -> str:
    """The end of the engine's log, to be added to an error message; empty where there is none."""
    if log_file is None:
        return ""
    try:
        text = log_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return f"; the end of {log_file}:\n" + "\n".join(text.splitlines()[-lines:])


# ---- compiled code


def keep_compiled_code() -> None:
    """Before torch is imported, for an engine on a CPU: later starts reuse what torch.compile made.

    By default vLLM 0.32 saves compiled functions there that it cannot load again ('finalize_loading' is missing), and compiles
    a second time; without that layer torch's own cache is used, whose default place, /tmp, is emptied when a machine reboots.
    Values that the user set stay.
    """
    os.environ.setdefault("VLLM_USE_AOT_COMPILE", "0")
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    root = Path(os.environ.get("VLLM_CACHE_ROOT") or f"{home}/vllm").expanduser()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(root / "torch_compile_cache" / "inductor"))


# ---- signals


@contextmanager
def ignoring_terminal_signals() -> Generator[None]:
    """Within: processes started by this thread never receive SIGINT. `shutdown` ends them, by SIGTERM.

    vLLM's are spawned, unless a fork server forks them (`engine/forkserver.py`).

    A fork of the server itself would inherit its threads' locks and, when an engine is restarted, its clients' sockets,
    which would then stay open as long as that engine runs. And a terminal sends Ctrl-C to every process of the foreground
    group: vLLM's would begin to shut down, and refuse what the calls that the server still drains ask for next.

    `VLLM_WORKER_MULTIPROC_METHOD` keeps a value that the user set. The signal is blocked, not ignored: vLLM's processes
    install a handler of their own for it, and a blocked signal stays blocked over that, and over exec.
    """
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
    resource_tracker.ensure_running()  # multiprocessing starts it with the first process, and unblocks SIGINT after that
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- CPU cores
#
# vLLM binds the threads of a CPU worker to cores of their own and reserves at least one for everything else, but binds nothing
# else to it. Its scheduler's process spins while the worker computes, so on a machine of few cores the kernel moves it, or a
# server that competes with it, to a worker's core for a good part of the time.

_EXITED = (psutil.NoSuchProcess, ProcessLookupError)
_initial_cores: frozenset[int] | None = None
"""The cores that this process was started with, if it has left some of them since."""


SCHEDULER_NICENESS = 10
"""vLLM's scheduler spins while it waits for its worker, and yields only within its own login session: with niceness 0
(and 3) a client in another session waited up to 11 s for the core that they share, with 10 it never waited 0.3 s."""


def keep_off_workers(schedulers: Iterable[int]) -> frozenset[int]:
    """Move each process of `schedulers` (pids) off the cores that their children's main threads are bound to.

    Returns the cores that they keep; empty where nothing was moved: children that are bound to nothing, no core left beside
    theirs, processes that have exited, or a system without thread affinity. What was moved gets `SCHEDULER_NICENESS`.
    """
    with suppress(*_EXITED):
        processes = [psutil.Process(pid) for pid in schedulers]
        if kept := _move_off(workers_of(processes), processes):
            for process in processes:
                for thread in process.threads():
                    with suppress(ProcessLookupError):
                        os.setpriority(os.PRIO_PROCESS, thread.id, max(SCHEDULER_NICENESS, process.nice()))
            return kept
    return frozenset()


def leave_worker_cores() -> frozenset[int]:
    """Move this process off the cores that its children's workers are bound to; returns the cores that it keeps, as above.

    For a process that serves and nothing else: what it starts from then on inherits its cores, except `on_all_cores`.
    """
    global _initial_cores
    this, initial = psutil.Process(), _all_cores()
    with suppress(*_EXITED):
        forked = [psutil.Process(one.pid) for one in multiprocessing.active_children()]
        if kept := _move_off(workers_of([*this.children(), *forked]), [this]):
            _initial_cores = initial
            return kept
    return frozenset()


def has_left_worker_cores() -> bool:
    """Whether this process keeps off cores that it was started with."""
    return _initial_cores is not None


@contextmanager
def on_all_cores() -> Generator[None]:
    """Within, this thread and what it starts have all cores that the process was started with: an engine binds its own."""
    if _initial_cores is None:
        yield
        return
    kept = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _initial_cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, kept)


def _all_cores() -> frozenset[int]:
    """Those that this process was started with; none where the system does not report them."""
    return _initial_cores or (frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset())


def workers_of(schedulers: list[psutil.Process]) -> list[psutil.Process]:
    """The processes that schedulers have started: their children, and what a fork server has forked for them.

    Raises `psutil.NoSuchProcess` for a scheduler that has exited.
    """
    this = os.getpid()
    servers = [parent for one in schedulers if (parent := one.parent()) is not None and parent.ppid() == this]
    found = {child for one in (*schedulers, *servers) for child in one.children()}
    return list(found - set(schedulers))


def _move_off(workers: list[psutil.Process], movers: list[psutil.Process]) -> frozenset[int]:
    """Move all threads of `movers` to where no worker is bound."""
    allowed = _all_cores()
    if not allowed:
        return frozenset()
    cores = [os.sched_getaffinity(worker.pid) for worker in workers]
    bound = {core for one in cores if not allowed <= one for core in one}
    rest = allowed - bound
    if not bound or not rest:
        return frozenset()
    for process in movers:
        for thread in process.threads():
            with suppress(ProcessLookupError):  # threads may end meanwhile
                os.sched_setaffinity(thread.id, rest)
    log.info("%s: on cores %s, workers on %s", ", ".join(str(one.pid) for one in movers), sorted(rest), sorted(bound))
    return frozenset(rest)
