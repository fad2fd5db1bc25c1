"""Where processes run, with real ones."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from dragoman.engine.process import keep_off_workers
from dragoman.engine.spec import device
from dragoman.pipelines.base import Pipeline

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores and thread affinity",
)

# A scheduler with a thread beside its main one, and a worker that is bound to the cores named; told when both are ready.
_SCHEDULER = """
import subprocess, sys, threading
worker = "import os, sys; os.sched_setaffinity(0, {cores}); print('ready', flush=True); sys.stdin.read()"
threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(child.stdout.readline().decode(), flush=True)
sys.stdin.read()
child.communicate()
"""


@contextmanager
def scheduler(worker_cores: set[int]) -> Iterator[int]:
    """A process with a child bound to `worker_cores`; its pid."""
    code = _SCHEDULER.format(cores=worker_cores)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.communicate()


def cores_of(pid: int) -> set[int]:
    """All cores on which any of a process's threads may run."""
    return set().union(*(os.sched_getaffinity(thread.id) for thread in psutil.Process(pid).threads()))


def test_every_thread_of_a_scheduler_leaves_its_workers_cores() -> None:
    first, *rest = sorted(os.sched_getaffinity(0))
    with scheduler({first}) as pid:
        assert keep_off_workers([pid]) == set(rest)
        assert cores_of(pid) == set(rest)
        (worker,) = psutil.Process(pid).children()
        assert cores_of(worker.pid) == {first}
    assert os.sched_getaffinity(0) == {first, *rest}, "whoever asks stays where it was"


def test_a_worker_that_is_bound_to_nothing_moves_nobody() -> None:
    allowed = set(os.sched_getaffinity(0))
    with scheduler(allowed) as pid:
        assert keep_off_workers([pid]) == set()
        assert cores_of(pid) == allowed


def test_workers_that_leave_no_core_move_nobody() -> None:
    first, *rest = sorted(os.sched_getaffinity(0))
    with scheduler({first}) as one, scheduler(set(rest)) as other:
        assert keep_off_workers([one, other]) == set()
        assert cores_of(one) == {first, *rest}


def test_a_process_that_is_gone_is_no_error() -> None:
    with scheduler({min(os.sched_getaffinity(0))}) as pid:
        pass
    assert keep_off_workers([pid]) == set()


# A server with a thread beside its main one; says where it and what it starts may run.
_SERVER = """
import json, multiprocessing, os, subprocess, sys, threading
import psutil
from dragoman.engine import process as affinity

def cores():
    return sorted(set().union(*(os.sched_getaffinity(one.id) for one in psutil.Process().threads())))

def of_a_child():
    told = subprocess.check_output([sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"])
    return json.loads(told)

threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", {scheduler!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
told = {{"before": cores(), "kept": sorted(affinity.leave_worker_cores()), "after": cores(), "child": of_a_child()}}
with affinity.on_all_cores():
    told["engine"] = of_a_child()
told |= {{"later": cores(), "again": sorted(affinity.leave_worker_cores()), "made": affinity.has_left_worker_cores()}}
print(json.dumps(told))
child.communicate()
"""


def test_a_server_makes_way_and_what_it_starts_as_an_engine_does_not() -> None:
    first, *rest = sorted(os.sched_getaffinity(0))
    code = _SERVER.format(scheduler=_SCHEDULER.format(cores={first}))
    told = json.loads(subprocess.check_output([sys.executable, "-c", code]))
    assert told["before"] == told["engine"] == [first, *rest]
    assert told["kept"] == told["after"] == told["child"] == told["later"] == told["again"] == rest
    assert told["made"]


def test_a_server_without_workers_stays_where_it_is() -> None:
    code = "from dragoman.engine import process as a; print(a.leave_worker_cores(), a.has_left_worker_cores())"
    assert subprocess.check_output([sys.executable, "-c", code]).split() == [b"frozenset()", b"False"]


@pytest.mark.engine
@pytest.mark.skipif(device() != "cpu", reason="vLLM binds workers to cores on a CPU")
def test_vllms_scheduler_runs_off_its_workers_cores(engine_pipeline: Pipeline) -> None:
    (core,) = [
        process
        for process in map(psutil.Process, (child.pid for child in multiprocessing.active_children()))
        if process.children()
    ]
    workers = set().union(*(os.sched_getaffinity(worker.pid) for worker in core.children()))
    assert workers < os.sched_getaffinity(0), "vLLM binds its worker"
    assert not workers & cores_of(core.pid)
