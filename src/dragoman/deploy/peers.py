"""The directory of replicas: the state and address of each, and instructions to them.

The directory is a small Ray actor. Each replica writes its entry every second and gets its instruction in return; an entry
that is not renewed expires. Statistics and other operators' data are requested from each replica's own port.
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
"""Seconds after which an entry that is not renewed expires: the replica or its node has crashed."""
ASK_S = 3.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A replica's entry. `tag` is unique; `name` is its rank, which the replica that replaces it gets too."""

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
    """Stores the entries and one instruction for all replicas. Runs as a Ray actor; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Entry]] = {}
        self._instruction: Instruction = "serve"

    def report(self, entry: Entry) -> Instruction:
        """Renew a replica's entry, and return the instruction. The entry of a replica that has stopped expires."""
        self._entries[entry.tag] = self._clock(), entry
        return self._instruction

    def leave(self, tag: str) -> None:
        """Remove a replica that has ended as instructed."""
        self._entries.pop(tag, None)

    def entries(self) -> list[Entry]:
        """Return the entries that have not expired, by name."""
        oldest_s = self._clock() - EXPIRES_S
        self._entries = {tag: held for tag, held in self._entries.items() if held[0] >= oldest_s}
        return sorted((entry for _, entry in self._entries.values()), key=lambda entry: (entry.name, entry.tag))

    def instruct(self, instruction: Instruction) -> None:
        """Set the instruction that replicas get with their next report."""
        self._instruction = instruction


def failed(entry: Entry, error: Exception) -> Entry:
    """Return the last entry of a replica that could not start."""
    message = error.message if isinstance(error, DragomanError) else f"{type(error).__name__}: {error}"
    return replace(entry, state="failed", failure=message, is_config_error=isinstance(error, ConfigError))


class DirectoryClient:
    """Calls the directory's actor of this Ray cluster, which is created if there is none."""

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
        """See `Directory.report`."""
        return await self._actor.report.remote(entry)

    async def leave(self, tag: str) -> None:
        """See `Directory.leave`."""
        await self._actor.leave.remote(tag)

    async def entries(self) -> list[Entry]:
        """See `Directory.entries`."""
        return await self._actor.entries.remote()

    async def instruct(self, instruction: Instruction) -> None:
        """See `Directory.instruct`."""
        await self._actor.instruct.remote(instruction)


def targets_of(entries: list[Entry]) -> list[MetricsTarget]:
    """Convert entries to targets for Prometheus' service discovery."""
    return [
        MetricsTarget(targets=[entry.address], labels={"replica": entry.name, "node": entry.node})
        for entry in entries
        if entry.address
    ]


class OperatorPort:
    """Serves the operators' endpoints of a replica, without keys, on a free port of the node's address."""

    def __init__(self, service: TranslationService, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        port = self._listener.getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = HttpServer(http_config(create_operator_app(service), service.settings.server))
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to listen."""
        self._serving = asyncio.create_task(self._server.serve([self._listener]))

    async def close(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.gather(self._serving, return_exceptions=True)


async def request(settings: Settings, method: str, entry: Entry, path: str) -> bytes | None:
    """Send a request to a replica's operators' port. Return the body of a 2xx answer; None for anything else."""
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
    """The `Replicas` of an app: calls this replica's service directly, and the others over HTTP."""

    def __init__(self, directory: DirectoryClient, service: TranslationService, tag: str) -> None:
        self._directory = directory
        self._service = service
        self._settings = service.settings
        self._tag = tag

    async def stats(self) -> list[Stats]:
        """Request the statistics of all replicas concurrently."""

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
        """Return the address of each replica's metrics."""
        return targets_of(await self._directory.entries())

    async def reload(self) -> None:
        """Make all replicas read keys, limits and usage. Raises `Unavailable` with the names of those not reached."""
        await self._service.accounts.reload()
        others = [entry for entry in await self._directory.entries() if entry.tag != self._tag]
        done = await asyncio.gather(*(request(self._settings, "POST", entry, "/v1/reload") for entry in others))
        if failed := [entry.name for entry, answer in zip(others, done, strict=True) if answer is None]:
            raise Unavailable(f"replicas that could not be reached to read keys and limits: {', '.join(failed)}")


class Membership:
    """Writes this replica's entry until it ends, and follows the directory's instructions: drain, then stop."""

    def __init__(self, directory: DirectoryClient, service: TranslationService, entry: Entry) -> None:
        self._directory = directory
        self._service = service
        self._entry = entry
        self._reporting: asyncio.Task[None] | None = None
        self._obeying: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to report."""
        self._reporting = asyncio.create_task(self._report())

    async def serving(self, address: str) -> None:
        """Report that the replica serves, with its operators' port at `address`: before it gets a call, so that a server that
        ends drains it."""
        self._entry = replace(self._entry, state="serving", address=address)
        await self._report_once()

    async def leave(self) -> None:
        """End because the deployment stops this replica."""
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
            await self._report_once()
            await asyncio.sleep(REPORT_S)

    async def _report_once(self) -> None:
        try:
            instruction = await self._directory.report(self._current())
        except RayError as error:  # it is restarted, or the head node is gone
            log.warning("the directory of replicas does not answer: %s", type(error).__name__)
        else:
            self._obey(instruction)

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
