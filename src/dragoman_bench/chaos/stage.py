"""The servers of a run, as processes: started, signalled, killed and started again on the same ports.

dragoman's servers need keys, and those of a stage share a database. They run over the fake engine as a process of its own, or
over vLLM's. `vllm serve` is a stage for comparison. Every end of a server is noted in `Outages`, by which the ledger excuses
calls.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Literal, get_args

import aiohttp
import psutil

from dragoman.errors import DragomanError
from dragoman.guard import guard_children
from dragoman_bench.bench.servers import vllm_serve
from dragoman_bench.chaos.ledger import Outages
from dragoman_bench.chaos.oracle import COMPLETION_MODEL
from dragoman_bench.chaos.shim import Shim

StageName = Literal["one", "pair", "replicas", "real", "vllm"]
STAGES: tuple[StageName, ...] = get_args(StageName)
"""One server on SQLite; two servers on one PostgreSQL; one address with two replicas; one server over vLLM's engine; `vllm
serve`."""
REAL: tuple[StageName, ...] = ("real", "vllm")
"""Those with a model."""
START_S, END_S = 600.0, 120.0
"""Deadlines of a server. The first start over a model compiles it."""
SLOTS = 16
"""Sequences that run at the same time over the fake engine."""
MOST_CHARACTERS: Mapping[StageName, int] = {
    "one": 6_000,
    "pair": 6_000,
    "replicas": 6_000,
    "real": 24_000,
    "vllm": 24_000,
}
"""Characters in flight from which on each server refuses calls; `vllm serve` refuses none."""
_COMMON_FLAGS = ("--auth=keys", "--documents-owner-timeout-s=3")
_FAKE_FLAGS = (
    *("--pipeline=fake", "--fake-process=true", "--fake-step-ms=2", "--hang-timeout-s=3", f"--max-num-seqs={SLOTS}"),
)
_REAL_FLAGS = ("--hang-timeout-s=10",)
KEYS = {"a": (), "b": ("--priority=bulk",), "c": ("--characters-per-month=20000",)}
"""Accounts of the load, with their limits; the last one's quota is soon used up."""
_LINES_SHOWN = 4
"""Of what a program of PostgreSQL said before it failed."""
_PROGRAM = (sys.executable, "-m", "dragoman.cli.main")


class StageFault(DragomanError):
    """A server did not start, or did not end."""

    code = "stage_fault"


def free_port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _runs(process: psutil.Process) -> bool:
    """Whether it has not ended; of a zombie only its parent has not asked yet."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@dataclass(eq=False, slots=True)
class ChaosServer:
    """One server, which keeps its port over restarts."""

    folder: Path
    flags: tuple[str, ...]
    outages: Outages
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    shim: Shim | None = None
    program: tuple[str, ...] = (*_PROGRAM, "serve")
    ready_path: str = "/readyz"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def root(self) -> psutil.Process:
        assert self.process is not None
        return psutil.Process(self.process.pid)

    def below(self, title: str) -> list[psutil.Process]:
        """Its processes whose command line has this title."""
        found = list[psutil.Process]()
        for one in self.root.children(recursive=True):
            with suppress(psutil.Error):
                if title in " ".join(one.cmdline()):
                    found.append(one)
        return found

    async def start(self) -> None:
        """Return once it is ready. Raises `StageFault`."""
        self._spawn()
        await self.ready()

    async def ready(self) -> None:
        """Wait until it is. Raises `StageFault`."""
        end_s = monotonic() + START_S
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            while True:
                with suppress(aiohttp.ClientError, OSError, TimeoutError):
                    async with session.get(self.url + self.ready_path) as answer:
                        if answer.status == 200:
                            return
                if self.process is None or self.process.poll() is not None or monotonic() > end_s:
                    raise StageFault(f"the server did not start: see {self.folder / 'server.log'}")
                await asyncio.sleep(0.1)

    def _spawn(self) -> None:
        guard_children()
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
        kept |= {**self.environment, **(self.shim.environment() if self.shim is not None else {})}
        with (self.folder / "server.log").open("ab") as log:
            command = [*self.program, f"--port={self.port}", *self.flags]
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=kept, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
            )

    async def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait for its processes too, one of which may hold its port. Raises `StageFault` where SIGTERM
        does not end it with exit code 0, or where something of it is left."""
        assert self.process is not None
        below = self.root.children(recursive=True)
        is_orderly = number == signal.SIGTERM
        self.outages.begin(self.url, monotonic(), is_orderly=is_orderly)
        self.process.send_signal(number)
        try:
            exit_code = await asyncio.to_thread(self.process.wait, END_S)
        except subprocess.TimeoutExpired:
            raise StageFault(f"the server does not end: see {self.folder / 'server.log'}") from None
        if is_orderly and exit_code:
            raise StageFault(f"the server ended with {exit_code}: see {self.folder / 'server.log'}")
        end_s = monotonic() + END_S
        while left := [one for one in below if _runs(one)]:
            if monotonic() > end_s:
                raise StageFault(f"{len(left)} processes of the server are left: see {self.folder / 'server.log'}")
            await asyncio.sleep(0.05)

    async def restart(self, number: signal.Signals) -> None:
        await self.end(number)
        await self.start()
        self.outages.end(self.url, monotonic())

    def kill(self) -> None:
        """Whatever its state; with its processes, of which an engine's may outlive it for a while."""
        if self.process is None or self.process.poll() is not None:
            return
        below = self.root.children(recursive=True)
        self.process.kill()
        for one in below:
            with suppress(psutil.Error):
                one.kill()
        self.process.wait()


@dataclass(eq=False, slots=True)
class Stage:
    """The servers with their database. `keys`: by account."""

    name: StageName
    servers: list[ChaosServer]
    storage_url: str
    keys: dict[str, str]
    postgres: Postgres | None = None

    @property
    def most_characters(self) -> int:
        """In flight, that all servers admit."""
        return MOST_CHARACTERS[self.name] * len(self.servers)

    @property
    def urls(self) -> list[str]:
        return [one.url for one in self.servers]


@asynccontextmanager
async def staged(
    name: StageName, folder: Path, outages: Outages, *more_flags: str, model: str = ""
) -> AsyncGenerator[Stage]:
    """Servers that are ready. `more_flags`: of each. `model`: a folder, or empty for the packaged one. Raises `StageFault`."""
    if name == "vllm":
        async with _vllm(folder, outages, model, more_flags) as stage:
            yield stage
        return
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(Postgres.running()) if name == "pair" else None
        storage_url = postgres.url if postgres else f"sqlite:///{folder}/dragoman.db"
        flags = (
            *_COMMON_FLAGS,
            f"--max-in-flight-characters={MOST_CHARACTERS[name]}",
            *(_REAL_FLAGS if name in REAL else _FAKE_FLAGS),
            *((f"--model={model}",) if model else ()),
            f"--storage-url={storage_url}",
            *(("--replicas=2",) if name == "replicas" else ()),
            *more_flags,
        )
        keys = {account: await create_key(storage_url, account, limits) for account, limits in KEYS.items()}
        numbers = range(2 if name == "pair" else 1)
        servers = [ChaosServer(folder / f"server-{number}", flags, outages) for number in numbers]
        for one in servers if name != "replicas" else []:  # Ray's processes run without it
            one.shim = Shim.built(one.folder / "shim")
        for one in servers:
            stack.callback(one.kill)
            await one.start()
        yield Stage(name, servers, storage_url, keys, postgres)
        for one in servers:
            await one.end()


@asynccontextmanager
async def _vllm(folder: Path, outages: Outages, model: str, flags: tuple[str, ...]) -> AsyncGenerator[Stage]:
    command = vllm_serve("vllm", model, {"served-model-name": COMPLETION_MODEL})
    server = ChaosServer(
        folder / "server-0",
        flags,
        outages,
        program=command.argv,
        ready_path=command.ready_path,
        environment=command.environment,
    )
    try:
        await server.start()
        yield Stage("vllm", [server], "", {"a": "", "b": ""})
    finally:
        server.kill()


async def create_key(storage_url: str, account: str, limits: tuple[str, ...]) -> str:
    """A new account's key. Raises `StageFault`."""
    command = [*_PROGRAM, "keys", "create", account, *limits, f"--storage-url={storage_url}"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageFault(f"the key {account} cannot be made: {done.stderr}")
    return done.stdout.strip().splitlines()[-1]


@dataclass(slots=True)
class Postgres:
    """A PostgreSQL server of its own. It does not run as root, so root starts it as the user `postgres`."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://dragoman@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *arguments: str) -> None:
        """Raises `StageFault`, with the last that the program or the server said."""
        command = [str(self.programs / program), *arguments]
        user = "postgres" if os.geteuid() == 0 else None
        output = self.folder / "output"  # a pipe would have no end while a process that it starts holds it
        try:
            with output.open("wb") as said:
                subprocess.run(
                    command, check=True, user=user, cwd=self.folder, stdout=said, stderr=said, timeout=START_S
                )
        except (subprocess.SubprocessError, OSError) as error:
            raise StageFault(f"PostgreSQL does not run: {error} {self._last_said()}") from None

    def _last_said(self) -> str:
        files = [one for name in ("output", "log") if (one := self.folder / name).is_file()]
        lines = [line for one in files for line in one.read_text(errors="replace").splitlines() if line.strip()]
        return " / ".join(lines[-_LINES_SHOWN:])

    def control(self, action: str, *arguments: str) -> None:
        """`start`, `stop` or `restart` it. Raises `StageFault`."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", action, *arguments)

    def stop(self) -> None:
        """If it runs."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self.control("stop", "-m", "immediate")

    @classmethod
    @contextmanager
    def running(cls) -> Generator[Postgres]:
        """Raises `StageFault` where PostgreSQL is not installed or does not start."""
        programs = postgres_programs()
        with tempfile.TemporaryDirectory(prefix="dragoman-chaos-") as folder, ExitStack() as stack:
            one = cls(programs, Path(folder), free_port())
            if os.geteuid() == 0:
                try:
                    shutil.chown(folder, "postgres")
                except LookupError as error:
                    raise StageFault(f"PostgreSQL does not run as root: {error}") from None
            data = str(one.folder / "data")
            one._run("initdb", "-D", data, "-U", "dragoman", "-A", "trust", "-E", "UTF8", "--locale=C")
            stack.callback(one.stop)
            where = f"-p {one.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
            one.control("start", "-o", where)
            yield one


def postgres_programs() -> Path:
    """The folder of PostgreSQL's programs. Raises `StageFault` where it is not installed."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *map(Path, os.environ["PATH"].split(os.pathsep))]
    programs = next((one.resolve() for one in folders if (one / "initdb").is_file()), None)
    if programs is None:
        raise StageFault("PostgreSQL is not installed: its initdb is not found")
    return programs
