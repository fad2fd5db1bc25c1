"""`dragoman serve` as a process: each test that needs one starts it here."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import psutil

from dragoman.storage.database import Database
from dragoman.storage.keys import Keys
from dragoman.types import Account
from tests.waiting import HANG_S, until

ROOT = Path(__file__).parents[1]
START_S = 280.0
"""Of a server with its engine, on a machine that does other things too."""
END_S = HANG_S
DRAGOMAN = (sys.executable, "-m", "dragoman.cli.main")


class ServerProcess:
    """A server in a folder, which has its log; it listens on a free port. Leaving the context kills what is left of it.

    `program`: how `dragoman` is run. `files`: how many files it may have open.
    """

    def __init__(
        self,
        folder: Path,
        *flags: str,
        program: Sequence[str] = DRAGOMAN,
        environment: Mapping[str, str] | None = None,
        files: int | None = None,
    ) -> None:
        self.folder = folder
        self._log = folder / "server.log"
        self._command = [*program, "serve", "--port=0", *flags]
        self._environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **(environment or {})}
        self._files = files

    def __enter__(self) -> Self:
        def limit() -> None:
            if self._files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self._files, self._files))

        with self._log.open("w") as output:
            self.process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=limit,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            below = self.below()
            self.process.kill()
            self.process.wait()
            for process in psutil.wait_procs(below, 30)[1]:
                process.kill()

    async def listening(self) -> str:
        """Its address, once it listens. Raises `AssertionError` with its output where it ends before."""
        await until(lambda: self.url != "" or self.has_ended, "a server", deadline_s=START_S)
        assert self.url and not self.has_ended, self.output
        return self.url

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    async def ended(self, deadline_s: float = END_S) -> int:
        """Its exit code."""
        return await asyncio.to_thread(self.process.wait, deadline_s)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code after a signal. Fails when a process that ran below it outlives it."""
        below = self.below()
        self.process.send_signal(number)
        exit_code = await self.ended()
        _, alive = await asyncio.to_thread(psutil.wait_procs, below, END_S / 4)
        assert not [title(process) for process in alive], self.output
        return exit_code

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def url(self) -> str:
        """Empty until it listens."""
        found = re.search(r"listens on (https?://\S+) after", self.output)
        return found[1].replace("0.0.0.0", "127.0.0.1") if found else ""

    def below(self) -> list[psutil.Process]:
        """All processes below the server's."""
        return psutil.Process(self.process.pid).children(recursive=True)

    @property
    def cpu_s(self) -> float:
        """What the process has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

    @property
    def resident_bytes(self) -> int:
        return psutil.Process(self.process.pid).memory_info().rss


def title(process: psutil.Process) -> str:
    """Its command line; empty once it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@asynccontextmanager
async def serving(folder: Path, *flags: str, files: int | None = None) -> AsyncIterator[ServerProcess]:
    """A server over the fake pipeline, once it listens."""
    with ServerProcess(folder, "--pipeline=fake", *flags, files=files) as server:
        await server.listening()
        yield server


@asynccontextmanager
async def _keys(storage_url: str) -> AsyncIterator[Keys]:
    database = Database(storage_url)
    await database.open()
    try:
        yield Keys(database)
    finally:
        await database.close()


async def create_key(storage_url: str, name: str = "one", **limits: Any) -> str:
    """A new key in the database of a server."""
    async with _keys(storage_url) as keys:
        return (await keys.create(Account("", name, **limits)))[1]


async def rotate_key(storage_url: str, name: str) -> str:
    """A key in place of the account's others, which are no longer valid."""
    async with _keys(storage_url) as keys:
        return (await keys.rotate(name, 0))[1]


async def revoke_key(storage_url: str, name: str) -> None:
    """Its keys are no longer valid."""
    async with _keys(storage_url) as keys:
        await keys.revoke(name)
