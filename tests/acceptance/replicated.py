"""`dragoman serve --replicas` as a process of its own, clients that keep it busy, and what runs below it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.waiting import until

START_S = 280.0
ROOT = Path(__file__).parents[2]
SENTENCE = "Where is the train station?"
BODY = {"text": SENTENCE, "source": "en", "target": "ja"}


class ReplicatedServer:
    """A server with several replicas, in a folder of its own."""

    def __init__(self, folder: Path, *flags: str, log: str = "server.log") -> None:
        self.folder = folder
        self._log = folder / log
        self._command = [sys.executable, "-m", "dragoman.cli.main", "serve", "--port", "0", *flags]

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "3",
        }
        with self._log.open("w") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, cwd=self.folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        await until(lambda: self.url != "" or self.process.returncode is not None, "a server", deadline_s=START_S)
        assert self.url, self.output

    @property
    def output(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        found = re.search(r"listens on (http://\S+) after", self.output)
        return found[1].replace("0.0.0.0", "127.0.0.1") if found else ""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def below(self) -> list[psutil.Process]:
        """All processes below the server's."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def replicas(self) -> list[psutil.Process]:
        """The processes of replicas."""
        return [process for process in self.below() if title(process).startswith("ray::ServeReplica")]

    async def end(self, number: signal.Signals) -> int:
        """The exit code after a signal. Fails when a process that ran below it outlives it."""
        below = self.below()
        self.process.send_signal(number)
        exit_code = await asyncio.wait_for(self.process.wait(), 120)
        _, alive = await asyncio.to_thread(psutil.wait_procs, below, 30)
        assert not [title(process) for process in alive], self.output
        return exit_code

    async def kill(self) -> None:
        """Whatever has happened: leave nothing behind."""
        if self.process.returncode is None:
            below = self.below()
            self.process.kill()
            await self.process.wait()
            _, alive = await asyncio.to_thread(psutil.wait_procs, below, 30)
            for process in alive:
                process.kill()


def title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class Load:
    """Clients that translate one text after another, and what became of each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.done = 0
        self.failed: list[str] = []
        self._ends = asyncio.Event()

    @asynccontextmanager
    async def running(self, clients: int) -> AsyncIterator[Load]:
        """Within: so many clients at the same time. At its end each completes its call."""
        tasks = [asyncio.create_task(self._client()) for _ in range(clients)]
        try:
            yield self
        finally:
            self._ends.set()
            await asyncio.gather(*tasks)

    async def _client(self) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=120) as http:
            while not self._ends.is_set():
                try:
                    answer = await http.post("/v1/translate", json=BODY)
                except httpx.TransportError as error:
                    self.failed.append(repr(error))
                else:
                    if answer.status_code != httpx.codes.OK:
                        waits = answer.headers.get("retry-after")
                        self.failed.append(f"{answer.status_code}, Retry-After {waits}: {answer.text[:200]}")
                self.done += 1

    async def more(self, calls: int) -> None:
        """Return once so many more calls have ended."""
        wanted = self.done + calls
        await until(lambda: self.done >= wanted, "more calls", deadline_s=120)


async def stats_when(http: httpx.AsyncClient, *, deadline_s: float = 120.0, **wanted: Any) -> dict[str, Any]:
    """`/v1/stats`, once its values are these; `serving` is how many replicas serve."""
    stats: dict[str, Any] = {}

    async def read() -> bool:
        nonlocal stats
        answer = await http.get("/v1/stats")
        stats = answer.json()
        states = [one["state"] for one in stats.get("replicas", [])]
        found = {**stats.get("engine", {}), **stats, "serving": states.count("serving") if len(set(states)) == 1 else 0}
        return all(found[name] == value for name, value in wanted.items())

    async with asyncio.timeout(deadline_s):
        while not await read():  # noqa: ASYNC110 (the state is in other processes)
            await asyncio.sleep(0.05)
    return stats
