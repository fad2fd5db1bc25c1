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

from dragoman.engine.process import SCHEDULER_NICENESS, keep_off_workers, workers_of
from dragoman.engine.spec import device
from dragoman.pipelines.base import Pipeline

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores and thread affinity",
)

# A scheduler with a thread beside its main one, and a worker that is bound to the cores named; found when both are ready.
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
        niceness = {os.getpriority(os.PRIO_PROCESS, thread.id) for thread in psutil.Process(pid).threads()}
        own = os.getpriority(os.PRIO_PROCESS, 0)  # which these tests may have been begun with
        assert niceness == {max(own, SCHEDULER_NICENESS)}, "clients in other login sessions get the core too"
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == own
    assert os.sched_getaffinity(0) == {first, *rest}, "the caller stays where it was"


def test_a_worker_that_is_bound_to_nothing_moves_no_process() -> None:
    allowed = set(os.sched_getaffinity(0))
    with scheduler(allowed) as pid:
        assert keep_off_workers([pid]) == set()
        assert cores_of(pid) == allowed


def test_workers_that_leave_no_core_move_no_process() -> None:
    first, *rest = sorted(os.sched_getaffinity(0))
    with scheduler({first}) as one, scheduler(set(rest)) as other:
        assert keep_off_workers([one, other]) == set()
        assert cores_of(one) == {first, *rest}


def test_a_process_that_has_exited_is_no_error() -> None:
    with scheduler({min(os.sched_getaffinity(0))}) as pid:
        pass
    assert keep_off_workers([pid]) == set()


# A server with a thread beside its main one; says where it and what it starts may run.
_SERVER = """
import json, multiprocessing, os, subprocess, sys, threading
import psutil
from dragoman.engine import process

def cores():
    return sorted(set().union(*(os.sched_getaffinity(one.id) for one in psutil.Process().threads())))

def of_a_child():
    found = subprocess.check_output([sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"])
    return json.loads(found)

threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", {scheduler!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
found = {{"before": cores(), "kept": sorted(process.leave_worker_cores()), "after": cores(), "child": of_a_child()}}
with process.on_all_cores():
    found["engine"] = of_a_child()
found |= {{"later": cores(), "again": sorted(process.leave_worker_cores()), "left": process.has_left_worker_cores()}}
print(json.dumps(found))
child.communicate()
"""


def test_a_server_leaves_its_workers_cores_and_an_engine_that_it_starts_has_all() -> None:
    first, *rest = sorted(os.sched_getaffinity(0))
    code = _SERVER.format(scheduler=_SCHEDULER.format(cores={first}))
    found = json.loads(subprocess.check_output([sys.executable, "-c", code]))
    assert found["before"] == found["engine"] == [first, *rest]
    assert found["kept"] == found["after"] == found["child"] == found["later"] == found["again"] == rest
    assert found["left"]


def test_a_server_without_workers_stays_where_it_is() -> None:
    code = "from dragoman.engine import process as a; print(a.leave_worker_cores(), a.has_left_worker_cores())"
    assert subprocess.check_output([sys.executable, "-c", code]).split() == [b"frozenset()", b"False"]


@pytest.mark.engine
@pytest.mark.skipif(device() != "cpu", reason="vLLM binds workers to cores on a CPU")
def test_vllms_scheduler_runs_off_its_workers_cores(engine_pipeline: Pipeline) -> None:
    cores = [psutil.Process(child.pid) for child in multiprocessing.active_children() if child.name == "EngineCore"]
    (core,) = cores
    workers = set().union(*(os.sched_getaffinity(worker.pid) for worker in workers_of(cores)))
    assert workers < os.sched_getaffinity(0), "vLLM binds its worker"
    assert not workers & cores_of(core.pid)
