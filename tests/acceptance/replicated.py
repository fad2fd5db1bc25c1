"""`dragoman serve --replicas` as a process of its own, clients that keep it busy, and what runs below it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.processes import ServerProcess, title
from tests.waiting import until

SENTENCE = "Where is the train station?"
BODY = {"text": SENTENCE, "source": "en", "target": "ja"}


class ReplicatedServer(ServerProcess):
    """A server with several replicas, in a folder of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        super().__init__(folder, *flags, environment={"RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "3"})

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def replicas(self) -> list[psutil.Process]:
        """The processes of replicas."""
        return [process for process in self.below() if title(process).startswith("ray::ServeReplica")]


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
