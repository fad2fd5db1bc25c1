"""Which replicas there are, how far each has started, where each reports, and what they are to do.

A small Ray actor holds the directory. Each replica writes its entry every second and reads its instruction in return; an
entry that is not renewed expires. What operators ask is fetched from each replica's own port.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Literal

import aiohttp
import ray
from pydantic import ValidationError
from ray.exceptions import RayError

from dragoman.api.app import create_operator_app
from dragoman.api.middleware import comma_separated
from dragoman.api.replicas import unreachable_stats
from dragoman.api.transport import HttpServer, http_config
from dragoman.errors import ConfigError, DragomanError, Unavailable
from dragoman.service.service import TranslationService
from dragoman.settings import Settings
from dragoman.wire import MetricsTarget, StartupPhase, Stats

log = logging.getLogger("dragoman.deploy")

Instruction = Literal["serve", "drain", "stop"]
ReplicaState = Literal["starting", "serving", "draining", "drained", "timed_out", "stopped", "failed"]

NAME, NAMESPACE = "dragoman-directory", "dragoman"
REPORT_S = 0.5
EXPIRES_S = 5.0
"""An entry that was not renewed for so long is of a replica that has crashed, or whose node has."""
ASK_S = 3.0


@dataclass(frozen=True, slots=True)
class Entry:
    """What one replica says of itself. `tag` is unique; `name` is its rank, which its successor gets."""

    tag: str
    name: str
    node: str
    pid: int
    address: str = ""  # host:port of what operators ask; empty until it listens
    state: ReplicaState = "starting"
    startup: tuple[StartupPhase, ...] = ()
    in_flight: int = 0  # calls
    failure: str = ""
    is_config_error: bool = False


class Directory:
    """The entries, and the one instruction for all. Runs as a Ray actor; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Entry]] = {}
        self._instruction: Instruction = "serve"

    def report(self, entry: Entry) -> Instruction:
        """Renew a replica's entry; one that has stopped leaves by the end of its time."""
        self._entries[entry.tag] = self._clock(), entry
        return self._instruction

    def leave(self, tag: str) -> None:
        """The replica has ended as it was asked to."""
        self._entries.pop(tag, None)

    def entries(self) -> list[Entry]:
        """The replicas that have renewed their entry in time, by name."""
        oldest_s = self._clock() - EXPIRES_S
        self._entries = {tag: held for tag, held in self._entries.items() if held[0] >= oldest_s}
        return sorted((entry for _, entry in self._entries.values()), key=lambda entry: (entry.name, entry.tag))

    def instruct(self, instruction: Instruction) -> None:
        """What replicas are to do from their next report on."""
        self._instruction = instruction


def failed(entry: Entry, error: Exception) -> Entry:
    """The last entry of a replica that could not start."""
    message = error.message if isinstance(error, DragomanError) else f"{type(error).__name__}: {error}"
    return replace(entry, state="failed", failure=message, is_config_error=isinstance(error, ConfigError))


class DirectoryClient:
    """The directory of this Ray cluster, made where there is none: the one place that calls its actor."""

    def __init__(self) -> None:
        options: dict[str, Any] = {
            "name": NAME,
            "namespace": NAMESPACE,
            "get_if_exists": True,
            "lifetime": "detached",
            "max_restarts": -1,
            "num_cpus": 0,
        }
        remote: Any = ray.remote(Directory)
        self._actor: Any = remote.options(**options).remote()

    async def report(self, entry: Entry) -> Instruction:
        """As `Directory.report`."""
        return await self._actor.report.remote(entry)

    async def leave(self, tag: str) -> None:
        """As `Directory.leave`."""
        await self._actor.leave.remote(tag)

    async def entries(self) -> list[Entry]:
        """As `Directory.entries`."""
        return await self._actor.entries.remote()

    async def instruct(self, instruction: Instruction) -> None:
        """As `Directory.instruct`."""
        await self._actor.instruct.remote(instruction)


def targets_of(entries: list[Entry]) -> list[MetricsTarget]:
    """Entries for Prometheus' service discovery."""
    return [
        MetricsTarget(targets=[entry.address], labels={"replica": entry.name, "node": entry.node})
        for entry in entries
        if entry.address
    ]


class OperatorPort:
    """Serves what operators ask of one replica, without keys, on a free port of the node's address."""

    def __init__(self, service: TranslationService, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        port = self._listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = HttpServer(http_config(create_operator_app(service), service.settings.server))
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Answer from now on."""
        self._serving = asyncio.create_task(self._server.serve([self._listener]))

    async def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)


async def request(settings: Settings, method: str, entry: Entry, path: str) -> bytes | None:
    """Ask a replica at its operators' port: the body of a 2xx answer; None for anything else."""
    if not entry.address:
        return None
    names = comma_separated(settings.server.allowed_hosts)
    headers = {"Host": names[0].replace("*", "replica")} if names and "*" not in names else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ASK_S), headers=headers) as http,
            http.request(method, f"http://{entry.address}{path}") as answer,
        ):
            return await answer.read() if answer.ok else None
    except (aiohttp.ClientError, TimeoutError):
        return None


class Peers:
    """The `Replicas` of an app: this replica's service directly, the others over HTTP."""

    def __init__(self, directory: DirectoryClient, service: TranslationService, tag: str) -> None:
        self._directory = directory
        self._service = service
        self._settings = service.settings
        self._tag = tag

    async def stats(self) -> list[Stats]:
        """Each replica's own, at the same time."""

        async def stats_of(entry: Entry) -> Stats:
            if entry.tag == self._tag:
                return self._service.stats()
            answer = await request(self._settings, "GET", entry, "/v1/stats")
            try:
                return Stats.model_validate_json(answer) if answer is not None else unreachable_stats(entry.name)
            except ValidationError:
                return unreachable_stats(entry.name)

        return list(await asyncio.gather(*map(stats_of, await self._directory.entries())))

    async def targets(self) -> list[MetricsTarget]:
        """Where each reports its metrics."""
        return targets_of(await self._directory.entries())

    async def reload(self) -> None:
        """Have each read keys, limits and usage. Raises `Unavailable`, with the names, where one was not reached."""
        await self._service.accounts.reload()
        others = [entry for entry in await self._directory.entries() if entry.tag != self._tag]
        done = await asyncio.gather(*(request(self._settings, "POST", entry, "/v1/reload") for entry in others))
        if failed := [entry.name for entry, answer in zip(others, done, strict=True) if answer is None]:
            raise Unavailable(f"replicas that could not be reached to read keys and limits: {', '.join(failed)}")


class Membership:
    """Writes this replica's entry until it ends, and does as the directory instructs: drain, then stop."""

    def __init__(self, directory: DirectoryClient, service: TranslationService, entry: Entry) -> None:
        self._directory = directory
        self._service = service
        self._entry = entry
        self._reporting: asyncio.Task[None] | None = None
        self._obeying: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Report from now on."""
        self._reporting = asyncio.create_task(self._report())

    def serving(self, address: str) -> None:
        """It has started, and operators may ask at `address`."""
        self._entry = replace(self._entry, state="serving", address=address)

    async def leave(self) -> None:
        """End as the deployment asked."""
        for task in (self._reporting, self._obeying):
            if task is not None:
                task.cancel()
        await self._directory.leave(self._entry.tag)

    def _current(self) -> Entry:
        return replace(
            self._entry,
            startup=tuple(self._service.pipeline.stats().startup),
            in_flight=self._service.admission.calls,
        )

    async def _report(self) -> None:
        while True:
            try:
                instruction = await self._directory.report(self._current())
            except RayError as error:  # it is restarted, or the head node is gone
                log.warning("the directory of replicas does not answer: %s", type(error).__name__)
            else:
                self._obey(instruction)
            await asyncio.sleep(REPORT_S)

    def _obey(self, instruction: Instruction) -> None:
        state = self._entry.state
        if instruction == "drain" and state == "serving":
            self._entry = replace(self._entry, state="draining")
            self._obeying = asyncio.create_task(self._drain())
        elif (
            instruction == "stop"
            and state not in ("stopped", "failed")
            and (self._obeying is None or self._obeying.done())
        ):
            self._obeying = asyncio.create_task(self._stop())

    async def _drain(self) -> None:
        drained = await self._service.drain()
        self._entry = replace(self._entry, state="drained" if drained else "timed_out")

    async def _stop(self) -> None:
        await self._service.stop()
        self._entry = replace(self._entry, state="stopped")
