"""A guard ends what a process has started, however this process ends: over small programs, with children of several kinds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from tests.waiting import until

ROOT = Path(__file__).parents[1]
WAIT = f"{sys.executable!r}, '-c', 'import signal; signal.pause()'"
# A child in a session of its own, its child, and one whose parent has exited.
FAMILY = f"""
import os, signal, subprocess, sys
from dragoman.guard import Guard, guard_children
guard_children()
wait = [{WAIT}]
child = "import os, subprocess, sys, signal; subprocess.Popen(sys.argv[1:]); signal.pause()"
orphan = "import os, subprocess, sys; subprocess.Popen(sys.argv[1:], start_new_session=True)"
subprocess.Popen([sys.executable, "-c", child, *wait], start_new_session=True)
subprocess.run([sys.executable, "-c", orphan, *wait])
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """In the environment of all that a test starts; what a failed test leaves is killed."""
    mark = f"TESTED_BY_{uuid4().hex}"
    yield mark
    for process in marked(mark):
        process.kill()


def marked(mark: str) -> list[psutil.Process]:
    """Those that run, the guard included."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if mark in process.environ() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@contextmanager
def running(program: str, mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """Waits for its end, and ends it where the test fails."""
    environment = {**os.environ, mark: "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_all_that_a_process_has_started_ends_with_it(mark: str, number: signal.Signals) -> None:
    with running(FAMILY + "signal.pause()", mark) as process:
        await until(lambda: len(marked(mark)) == 5, "a guard and three children")
        process.send_signal(number)
    assert process.returncode == -number
    await until(lambda: not marked(mark), "the end of its children")


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "os._exit(4)", "os.kill(os.getpid(), signal.SIGSEGV)"])
async def test_and_when_it_ends_by_itself(mark: str, end: str) -> None:
    with running(FAMILY + end, mark):
        pass
    await until(lambda: not marked(mark), "the end of its children")


async def test_a_child_that_is_started_while_its_parent_is_killed_ends_too(mark: str) -> None:
    """It has not been noted, and has another parent when the guard looks: killed by the very child that it starts."""
    kill = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGKILL); signal.pause()"
    program = f"""
import os, subprocess, sys
from dragoman.guard import guard_children
guard_children()
subprocess.Popen([sys.executable, "-c", {kill!r}, str(os.getpid())], start_new_session=True).wait()
"""
    with running(program, mark) as process:
        pass
    assert process.returncode == -signal.SIGKILL
    await until(lambda: not marked(mark), "the end of its child")


async def test_a_program_that_a_process_becomes_ends_with_the_one_that_started_it(mark: str) -> None:
    """As HAProxy does with Ray's process; one that ends earlier takes nothing with it."""
    become = """
import os, sys
from dragoman.guard import Guard
Guard(owner=os.getppid()).keep_over_exec()
os.execv(sys.argv[1], sys.argv[1:])
"""
    program = f"""
import signal, subprocess, sys
become = [sys.executable, "-c", {become!r}]
short = subprocess.run([*become, sys.executable, "-c", ""])
child = subprocess.Popen([*become, {WAIT}], start_new_session=True)
signal.pause()
"""
    with running(program, mark) as process:
        await until(lambda: len(marked(mark)) == 3, "the program and its guard")
        process.kill()
    await until(lambda: not marked(mark), "the end of its child")
