"""Programs of which a test sees what they leave: all that they start is marked, by a variable of the environment."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psutil

ROOT = Path(__file__).parents[1]


class Started:
    """A program and all that it has started, also what has another parent now."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self.process = process
        self._mark = mark
        self._noted: set[psutil.Process] = set()

    def running(self) -> list[str]:
        """Their command lines, this program's too. Titles overwrite the environment, so it also notes what ran below it."""
        with suppress(psutil.Error):
            program = psutil.Process(self.process.pid)
            self._noted |= {program, *program.children(recursive=True)}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if self._mark in process.environ():
                    self._noted.add(process)
        return [line for process in self._noted if (line := _command_line(process))]

    def kill(self) -> None:
        """All of them."""
        self.running()
        for process in self._noted:
            with suppress(psutil.Error):
                process.kill()
        self.process.wait()


def _command_line(process: psutil.Process) -> str:
    """Empty once it has ended."""
    with suppress(psutil.Error):
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return " ".join(process.cmdline()) or process.name()
    return ""


@contextmanager
def started(command: Sequence[str], folder: Path, output: int | None = None) -> Iterator[Started]:
    """Within: the program runs in `folder`, in a group of its own. What a failed test leaves of it is killed."""
    mark = f"TESTED_BY_{uuid4().hex}"
    environment = {**os.environ, mark: "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # which tests under nohup ignore
    )
    program = Started(process, mark)
    try:
        yield program
    finally:
        program.kill()


ENDS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
"""How a program is ended from outside: killed, asked to, Ctrl-C, and its terminal closed."""
