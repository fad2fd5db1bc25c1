"""Processes that are forked from a fork server, with a real one that has imported something small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dragoman.engine import forkserver

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="engines are spawned there")

# What a process that is started here finds: its parent, its environment, the signals blocked, where it may run.
_PROGRAM = """
import json, os, signal, sys
from multiprocessing import active_children

from dragoman.engine import forkserver
from dragoman.engine.process import ignoring_terminal_signals

def look(connection):
    found = {{"parent": os.getppid(), "environment": dict(os.environ), "cores": sorted(os.sched_getaffinity(0))}}
    found["blocked"] = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    found["preloaded"] = "dragoman.languages" in sys.modules
    if "OMP_NUM_THREADS" in os.environ:
        import torch

        found["threads"] = torch.get_num_threads()
        bound = [os.sched_getaffinity(int(one)) for one in os.listdir("/proc/self/task")]
        found["bound"] = sorted(sorted(one) for one in bound if len(one) == 1)
    connection.send(found)
    connection.recv()

if __name__ == "__main__":
    forkserver.start(None, on_cpu=False, preload="dragoman.languages")
    os.environ |= json.loads(sys.argv[1])
    os.environ.pop("LEFT_OUT", None)
    context = forkserver.EngineContext()
    here, there = context.Pipe()
    with ignoring_terminal_signals():
        process = context.Process(target=look, args=(there,))
        process.start()
    found = here.recv() | {{"is_child": process in active_children(), "server": os.getpid()}}
    here.send(None)
    process.join()
    print(json.dumps(found | {{"exit_code": process.exitcode}}))
"""


def started(tmp_path: Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What a process found that was started with `environment` added after the fork server's start."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM.format())
    run = subprocess.run(
        [sys.executable, str(program), json.dumps(environment or {})],
        env={**os.environ, "LEFT_OUT": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found | {"stderr": run.stderr}


def test_a_process_is_forked_with_the_environment_of_its_start(tmp_path: Path) -> None:
    found = started(tmp_path, {"VLLM_SET_LATER": "1"})
    assert found["parent"] != found["server"]
    assert found["is_child"], "for multiprocessing"
    assert found["preloaded"]
    assert found["environment"]["VLLM_SET_LATER"] == "1"
    assert "LEFT_OUT" not in found["environment"]
    assert found["blocked"], "a terminal's Ctrl-C is not meant for it"
    assert found["exit_code"] == 0


@pytest.mark.parametrize("name", ["LD_PRELOAD", "TORCHINDUCTOR_COMPILE_THREADS", "KMP_AFFINITY"])
def test_a_process_is_spawned_where_a_library_would_have_read_another_environment(tmp_path: Path, name: str) -> None:
    found = started(tmp_path, {name: ""})
    assert found["parent"] == found["server"]
    assert not found["preloaded"]
    assert found["environment"][name] == ""
    assert name in found["stderr"]
    assert found["blocked"]


def test_threads_are_bound_to_the_cores_that_openmp_would_have_read(tmp_path: Path) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores")
    both = started(tmp_path, {"OMP_NUM_THREADS": "2", "GOMP_CPU_AFFINITY": f"{cores[1]} {cores[0]}"})
    assert both["threads"] == 2
    assert both["cores"] == [cores[1]], "the main thread's"
    assert both["bound"] == [[cores[0]], [cores[1]]]
    one = started(tmp_path, {"OMP_NUM_THREADS": "1", "GOMP_CPU_AFFINITY": f"{cores[1]}"})
    assert (one["threads"], one["cores"]) == (1, [cores[1]])


_RETURNED_BY = """
import os, sys

from dragoman.engine import forkserver

if __name__ == "__main__":
    forkserver.start(None, on_cpu=False, preload="dragoman.languages")
    number = 6
    server, preloaded, product = forkserver.returned_by(
        lambda: (os.getppid(), "dragoman.languages" in sys.modules, number * 7)
    )
    assert server != os.getpid() and preloaded and product == 42
    for failing in (lambda: 1 / 0, lambda: os._exit(3)):
        try:
            forkserver.returned_by(failing)
        except RuntimeError as error:
            print(error)
"""


def test_a_function_is_run_in_a_forked_process_and_its_result_or_error_comes_back(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_RETURNED_BY)
    run = subprocess.run([sys.executable, str(program)], check=True, capture_output=True, text=True)
    assert "ZeroDivisionError" in run.stdout
    assert "exit code 3" in run.stdout


def test_vllm_has_a_models_class_inspected_there(monkeypatch: pytest.MonkeyPatch) -> None:
    inspector: Any = import_module("vllm.model_executor.models.registry")
    patched: list[tuple[Any, str]] = [
        (inspector, "_run_in_subprocess"),
        (import_module("vllm.v1.engine.utils"), "get_mp_context"),
        (import_module("vllm.v1.executor.multiproc_executor"), "get_mp_context"),
    ]
    for module, name in patched:
        monkeypatch.setattr(module, name, getattr(module, name))  # this vLLM has it; it is put back
    monkeypatch.setattr(forkserver, "_environment", {})
    forkserver.use()
    assert vars(inspector)["_run_in_subprocess"] is forkserver.returned_by


def test_a_vllm_that_starts_its_processes_otherwise_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    utils: Any = import_module("vllm.v1.engine.utils")
    multiproc_executor: Any = import_module("vllm.v1.executor.multiproc_executor")
    monkeypatch.setattr(forkserver, "_environment", {})
    monkeypatch.delattr(utils, "get_mp_context")
    before = multiproc_executor.get_mp_context
    with caplog.at_level("WARNING"):
        forkserver.use()
    assert "spawned" in caplog.text
    assert multiproc_executor.get_mp_context is before
