"""A fork server: a process that has imported vLLM, from which an engine's processes are forked, the next engine's too.

It is Python's own (`multiprocessing.forkserver`), started before this process imports vLLM, so that the two imports run side by
side, and those of the engine's processes (one on a GPU, two on a CPU) are not there at all. It has no thread, socket or lock of
the server's. What it forks is not a child of this process in the operating system's eyes, but is one of
`multiprocessing.active_children()`.

What a library reads from the environment while it is loaded, it has read at the fork server's start. So an engine whose
environment differs there is spawned, and one on a CPU is bound to its cores here instead of by OpenMP's variables. Imports
neither vllm nor torch, except in the processes that are forked.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing.forkserver as multiprocessing_forkserver
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from importlib import import_module
from multiprocessing import popen_forkserver, popen_spawn_posix, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from dragoman.engine.folders import check_folders, name_the_user
from dragoman.engine.process import ignoring_terminal_signals, keep_compiled_code, log_to_file, streams_to_file
from dragoman.engine.spec import device
from dragoman.errors import ConfigError
from dragoman.guard import guard_children
from dragoman.settings import Settings

log = logging.getLogger(__name__)

_PRELOAD = "dragoman.engine.preload"
_READ_WHEN_LOADED = (
    *("LD_", "MKL_", "PYTHON", "PYTORCH", "TORCH", "TRITON", "VLLM_LOGGING"),
    *("KMP_AFFINITY", "OMP_PLACES"),  # by these vLLM binds the threads of OpenMP libraries other than GNU's
)
"""Variables that begin with one of these are read by libraries while they are loaded."""
_CALLERS = ("vllm.v1.engine.utils", "vllm.v1.executor.multiproc_executor")
"""The modules of vLLM that start its engine core and its workers, by `get_mp_context`."""
_INSPECTOR = "vllm.model_executor.models.registry"

_server: Any = multiprocessing_forkserver._forkserver  # type: ignore[attr-defined] # pyright: ignore
_Returned = TypeVar("_Returned")
_environment: Mapping[str, str] | None = None
"""That with which the fork server was started; None: there is none."""


def prepare(settings: Settings) -> Path | None:
    """Before vLLM is imported: where it logs, where it keeps what it compiles, and the fork server for `continuous`.

    As early as possible, since nothing of a start takes longer. Returns the engine's log file; None: it logs to the
    terminal. A second call changes nothing. Raises `ConfigError` if this user cannot write what the server needs, or vLLM is
    needed and not installed.
    """
    check_folders(settings)
    if settings.pipeline.name == "continuous" and importlib.util.find_spec("vllm") is None:
        raise ConfigError(
            "vLLM is not installed: pip install 'dragoman[cpu]' or 'dragoman[cuda]' for an engine here,"
            " or name one that runs elsewhere with --engine-url",
            param="pipeline.name",
        )
    log_file = Path(settings.log.engine_file) if settings.log.engine_file else None
    on_cpu = device() == "cpu"
    if log_file is not None:
        log_to_file(log_file)
    if settings.pipeline.name != "fake":
        name_the_user()
        if on_cpu:
            keep_compiled_code()
    if settings.pipeline.name == "continuous" and settings.pipeline.fork_server:
        guard_children()  # before the fork server, whose environment is that of all that it forks
        start(log_file, on_cpu=on_cpu)
    return log_file


def start(log_file: Path | None, *, on_cpu: bool, preload: str = _PRELOAD) -> None:
    """Start it, before vLLM is imported; it imports the module `preload` by itself, and writes to `log_file`.

    Does nothing where the system is not Linux, or it was started already.
    """
    global _environment
    if _environment is not None or sys.platform != "linux":
        return
    if on_cpu:
        _prepare_environment_for_cpu()
    _environment = dict(os.environ)
    multiprocessing_forkserver.set_forkserver_preload([preload])
    with streams_to_file(log_file) if log_file else nullcontext(), ignoring_terminal_signals():
        multiprocessing_forkserver.ensure_running()


def use() -> None:
    """Have vLLM, which both this process and the fork server have imported, fork its processes from there.

    Without a fork server, or in a vLLM that starts its processes otherwise, they are started as before.
    """
    global _environment
    if _environment is None:
        return
    modules = [import_module(name) for name in _CALLERS]
    if missing := [module.__name__ for module in modules if not hasattr(module, "get_mp_context")]:
        log.warning("the engine is spawned, which takes longer: %s has no get_mp_context in this vLLM", missing[0])
        return
    for module in modules:
        module.__dict__["get_mp_context"] = EngineContext
    registry = import_module(_INSPECTOR)
    if hasattr(registry, "_run_in_subprocess"):
        registry.__dict__["_run_in_subprocess"] = returned_by
    _environment = dict(os.environ)  # vLLM has set some of it while it was imported, there too


def returned_by(function: Callable[[], _Returned]) -> _Returned:
    """What `function` returns, in a process of its own.

    vLLM inspects a model's class so at the first start of each model, in a new interpreter, which imports all of vLLM.
    Raises `RuntimeError` with the traceback where the function fails, and where its process ends without an answer.
    """
    import cloudpickle

    context = EngineContext()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, cloudpickle.dumps(function)), name="model inspection")
    process.start()
    there.close()
    try:
        returned, answer = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process ended with exit code {process.exitcode}") from None
    process.join()
    if not returned:
        raise RuntimeError(f"error in another process:\n{answer}")
    return answer


def _answer(connection: Connection, pickled: bytes) -> None:
    try:
        answer = (True, pickle.loads(pickled)())
    except Exception:  # noqa: BLE001 - it is the parent's to raise
        answer = (False, traceback.format_exc())
    connection.send(answer)


def use_within() -> None:
    """In the fork server, before it forks: an engine core that it has forked has it fork its workers too."""
    global _environment
    _environment = dict(os.environ)
    _server.ensure_running = resource_tracker.ensure_running  # it runs, and is no child of what it has forked
    use()


class _Process(ForkServerProcess):
    """A process that takes over the environment, and the binding to cores, of its start rather than the fork server's."""

    _adopted: Mapping[str, str] | None = None

    def run(self) -> None:
        if self._adopted is not None:
            _adopt(self._adopted)
        super().run()

    @staticmethod
    def _Popen(process_obj: BaseProcess) -> Any:  # noqa: N802 - multiprocessing's name
        assert isinstance(process_obj, _Process) and _environment is not None
        if reason := _why_spawned(_environment, os.environ):
            log.warning("%s is spawned, which takes longer: %s", process_obj.name, reason)
            return popen_spawn_posix.Popen(process_obj)
        process_obj._adopted = dict(os.environ)
        return popen_forkserver.Popen(process_obj)


class EngineContext(ForkServerContext):
    """For vLLM, in place of that of `fork` or `spawn`: its processes are forked from the fork server where they can be."""

    Process: Any = _Process


def _why_spawned(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Why a process with the environment `now` cannot be forked from a server with that of `before`; empty: it can."""
    differing = sorted(
        name
        for name in before.keys() | now.keys()
        if name.startswith(_READ_WHEN_LOADED) and before.get(name) != now.get(name)
    )
    return f"{', '.join(differing)} changed after the fork server's start" if differing else ""


def _adopt(environment: Mapping[str, str]) -> None:
    """Take over an environment, and what OpenMP would have read in it: the number of threads, and their cores."""
    global _environment
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    _environment = dict(environment)  # that this process could be forked with it holds for what it starts, too
    threads = environment.get("OMP_NUM_THREADS", "")
    if not threads.isdecimal():
        return
    import torch

    cores = [int(core) for core in environment.get("GOMP_CPU_AFFINITY", "").split()]
    if cores:
        os.sched_setaffinity(0, cores)
    torch.set_num_threads(int(threads))
    if len(cores) < 2:
        return
    # OpenMP makes its threads for the first region that is worth more than one, in order, and keeps them.
    before = _threads()
    torch.ones(1 << 22).add_(1)
    made = sorted(_threads() - before)
    for thread, core in zip([os.getpid(), *made], cores, strict=False):
        os.sched_setaffinity(thread, {core})


def _threads() -> set[int]:
    """The ids of this process's threads."""
    return {int(thread.name) for thread in Path("/proc/self/task").iterdir()}


def _prepare_environment_for_cpu() -> None:
    """Set what vLLM 0.32 sets for processes of a CPU engine only once it has the engine's configuration.

    `vllm/platforms/cpu.py`: there `LD_PRELOAD` gets torch's libgomp, without which OpenMP's threads share one core, and
    vLLM's tcmalloc. Values that are there stay; where vLLM decides otherwise, the engine is spawned.
    """
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ["TORCHINDUCTOR_CPP_DYNAMIC_THREADS"] = "1"
    preloaded = os.environ.get("LD_PRELOAD", "")
    if not any(name in preloaded for name in ("libomp", "libgomp", "libiomp")):
        preloaded = ":".join(
            filter(None, (preloaded, _library("torch", "torch.libs/libgomp*.so*", "torch/lib/libgomp*.so*")))
        )
    if "libtcmalloc" not in preloaded:
        tcmalloc = _library("vllm", "vllm/libs/libtcmalloc_minimal*.so*", "vllm/libs/libtcmalloc.so*")
        preloaded = ":".join(filter(None, (tcmalloc, preloaded)))
    if preloaded:
        os.environ["LD_PRELOAD"] = preloaded


def _library(package: str, *patterns: str) -> str:
    """The first file that matches, from the folder that a package is installed in, without importing it; empty: none."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ""
    site = Path(spec.origin).parents[1]
    return next((str(file) for pattern in patterns for file in site.glob(pattern)), "")
