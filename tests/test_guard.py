"""A guard ends what a process has started, however this process ends: over small programs, with children of several kinds."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.outliving import ENDS, started
from tests.waiting import until

PROGRAM = f"{sys.executable} -c import signal; signal.pause()"
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


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.mark.parametrize("number", ENDS)
async def test_all_that_a_process_has_started_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    at_once = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"  # a KeyboardInterrupt in a finalizer is lost
    )
    with started(program(at_once + FAMILY + "signal.pause()"), tmp_path) as family:
        await until(lambda: len(family.running()) == 5, "a guard and three children")
        family.process.send_signal(number)
        assert family.process.wait() == -number
        await until(lambda: not family.running(), "the end of its children")


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "os._exit(4)", "os.kill(os.getpid(), signal.SIGSEGV)"])
async def test_and_when_it_ends_by_itself(tmp_path: Path, end: str) -> None:
    with started(program(FAMILY + end), tmp_path) as family:
        family.process.wait()
        await until(lambda: not family.running(), "the end of its children")


async def test_a_child_that_is_started_while_its_parent_is_killed_ends_too(tmp_path: Path) -> None:
    """It has not been noted, and has another parent when the guard looks: killed by the very child that it starts."""
    kill = "import os, signal, sys; os.kill(int(sys.argv[1]), signal.SIGKILL); signal.pause()"
    parent = f"""
import os, subprocess, sys
from dragoman.guard import guard_children
guard_children()
subprocess.Popen([sys.executable, "-c", {kill!r}, str(os.getpid())], start_new_session=True).wait()
"""
    with started(program(parent), tmp_path) as family:
        assert family.process.wait() == -signal.SIGKILL
        await until(lambda: not family.running(), "the end of its child")


async def test_a_program_that_a_process_becomes_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    """As HAProxy does with Ray's process; one that ends earlier takes nothing with it."""
    become = """
import os, sys
from dragoman.guard import Guard
Guard(owner=os.getppid()).keep_over_exec()
os.execv(sys.argv[1], sys.argv[1:])
"""
    starter = f"""
import signal, subprocess, sys
become = [sys.executable, "-c", {become!r}]
subprocess.run([*become, sys.executable, "-c", ""])
subprocess.Popen([*become, {WAIT}], start_new_session=True)
signal.pause()
"""
    with started(program(starter), tmp_path) as family:
        await until(lambda: PROGRAM in family.running(), "the program")
        family.process.kill()
        await until(lambda: not family.running(), "the end of its child")


async def test_a_program_whose_starter_has_ended_before_the_guard_looks_ends_too(tmp_path: Path) -> None:
    """Before it has become the program that inherits the mark."""
    become = """
import signal, subprocess, sys
from dragoman.guard import Guard
ended = subprocess.Popen([sys.executable, "-c", ""])
ended.wait()
Guard(owner=ended.pid).keep_over_exec()
signal.pause()
"""
    with started(program(become), tmp_path) as family:
        assert family.process.wait() == -signal.SIGKILL
        await until(lambda: not family.running(), "the end of the guard")


async def test_a_guard_that_is_starting_is_not_ended_by_what_a_service_manager_sends(tmp_path: Path) -> None:
    parent = f"""
import os, psutil, signal, subprocess, sys
from dragoman.guard import guard_children
guard_children()
(guard,) = psutil.Process().children()
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    guard.send_signal(number)
subprocess.Popen([{WAIT}], start_new_session=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with started(program(parent), tmp_path) as family:
        assert family.process.wait() == -signal.SIGKILL
        await until(lambda: not family.running(), "the end of its child")
