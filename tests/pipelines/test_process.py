"""A worker process's life and death, and what it leaves behind: nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dragoman.pipelines.messages import Began, Ended, Plan, Ready, Run
from dragoman.pipelines.process import WorkerProcess
from tests.pipelines.building import gone
from tests.pipelines.scripted import WINDOW, Stage, sequence
from tests.waiting import until


def plan(stage: Stage) -> Plan:
    return Plan(stage.spec, stage.log_file, stage.engine, batch_size=1, batch_timeout_s=0)


async def test_it_says_ready_then_what_it_does_and_its_stream_ends_with_it(stage: Stage) -> None:
    worker = WorkerProcess(plan(stage), "worker")
    assert await worker.start() == Ready(WINDOW)
    worker.send(Run(7, sequence()))
    messages = worker.messages()
    assert await anext(messages) == Began((7,))
    ended = await anext(messages)
    assert isinstance(ended, Ended)
    assert [outcome.job for outcome in ended.outcomes] == [7]
    assert await worker.stop() == "exit code 0"
    assert [message async for message in messages] == []
    assert await worker.stop() == "exit code 0"


async def test_what_was_said_before_a_kill_is_heard(stage: Stage) -> None:
    worker = WorkerProcess(plan(stage), "worker")
    await worker.start()
    worker.send(Run(0, sequence(stage.gate())))
    await until(lambda: len(stage.batches()) == 1, "a batch in the engine")
    os.kill(stage.started()[0], signal.SIGKILL)
    assert [message async for message in worker.messages()] == [Began((0,))]
    assert await worker.stop() == f"exit code {-signal.SIGKILL}"


@pytest.mark.parametrize("unwanted", [signal.SIGINT, signal.SIGTERM])
async def test_signals_meant_for_the_server_do_not_end_it(stage: Stage, unwanted: signal.Signals) -> None:
    worker = WorkerProcess(plan(stage), "worker")
    await worker.start()
    (pid,) = stage.started()
    assert os.getpgid(pid) == pid  # a terminal's Ctrl-C goes to another process group
    assert os.getsid(pid) == os.getsid(0)
    os.kill(pid, unwanted)
    worker.send(Run(0, sequence()))
    assert await anext(worker.messages()) == Began((0,))
    await worker.stop()


async def test_what_a_killed_worker_started_dies_with_it(stage: Stage) -> None:
    stage.set("fork")  # the child holds the worker's socket and its sentinel open
    worker = WorkerProcess(plan(stage), "worker")
    await worker.start()
    os.kill(stage.started()[0], signal.SIGKILL)
    assert [message async for message in worker.messages()] == []
    await gone(stage.forked()[0])
    await worker.stop()


async def test_what_a_worker_started_ends_with_a_clean_stop_too(stage: Stage) -> None:
    stage.set("fork")
    worker = WorkerProcess(plan(stage), "worker")
    await worker.start()
    assert await worker.stop() == "exit code 0"
    await gone(stage.forked()[0])


SERVER = """
import asyncio, sys
from pathlib import Path
from dragoman.pipelines.process import WorkerProcess
from tests.pipelines.scripted import Stage
from tests.pipelines.test_process import plan

async def main():
    worker = WorkerProcess(plan(Stage(Path(sys.argv[1]))), "worker")
    await worker.start()
    print("ready", flush=True)
    if sys.argv[2] == "stay":
        await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


@contextmanager
def served(stage: Stage, how: str) -> Iterator[subprocess.Popen[str]]:
    script = stage.folder / "server.py"
    script.write_text(SERVER)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(script), str(stage.folder), how]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as it:
        try:
            yield it
        finally:
            it.kill()


async def test_a_killed_server_leaves_no_worker(stage: Stage) -> None:
    stage.set("fork")
    with served(stage, "stay") as server:
        assert server.stdout is not None
        assert await asyncio.to_thread(server.stdout.readline) == "ready\n"
    await gone(stage.started()[0])
    await gone(stage.forked()[0])


async def test_a_server_that_forgets_its_worker_still_exits(stage: Stage) -> None:
    with served(stage, "leave") as server:
        await until(lambda: server.poll() is not None, "the server's exit")
        assert server.returncode == 0
    await gone(stage.started()[0])
