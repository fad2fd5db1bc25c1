"""`dragoman serve --replicas`: runs Ray Serve on this machine, from the start to the exit code.

Ray, HAProxy and the replicas are separate processes, which this one starts, watches, drains and stops. However it ends, a
`Guard` ends all of them. Ray is imported only after its environment is set.
"""

from __future__ import annotations

import asyncio
import csv
import json
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import psutil

from dragoman.api.server import bind, url_of
from dragoman.deploy import config, haproxy, mps, processes
from dragoman.errors import ConfigError, DragomanError
from dragoman.guard import Guard
from dragoman.settings import Settings
from dragoman.sharedgpu import SharedGpu

if TYPE_CHECKING:
    from dragoman.deploy.peers import DirectoryClient, Entry, Instruction

log = logging.getLogger("dragoman.deploy")

LOOPBACK = "127.0.0.1"
TARGETS_FILE = Path(".dragoman/replicas.json")
OBJECT_STORE_BYTES = 80 * 2**20  # about the least that Ray allows; nothing is put there
STATS_PORT, METRICS_PORT, FALLBACK_PORT = 8404, 9101, 8500
"""On loopback; others where these are in use."""
POLL_S = 0.2
SILENT_POLLS = 50
"""The number of failed polls in a row after which Ray counts as crashed."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Callbacks of the command. `status`: progress of the start; `ready`: the address; `output`: log lines of the replicas."""

    status: Callable[[str], None]
    ready: Callable[[str], None]
    output: Callable[[str], None]


class Run:
    """A run of Ray, HAProxy and replicas: a private folder, an environment, and the processes that inherit it."""

    def __init__(self, settings: Settings, deployment: config.Deployment) -> None:
        """Raises `ConfigError` if the address is not available."""
        self.settings = settings
        self.deployment = deployment
        server = settings.server
        # A free port if it is 0; an error if it is in use. No other program can use it before HAProxy, which listens with the
        # same option.
        self._reserved = bind(server.host, server.port)
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.url, self.port = url_of(self._reserved), self._reserved.getsockname()[1]
        self.folder = Path(tempfile.mkdtemp(prefix="dragoman-", dir="/tmp"))  # sockets' paths have 107 bytes at most
        self._held = {port: hold_port(port) for port in (STATS_PORT, METRICS_PORT, FALLBACK_PORT)}
        self.stats_port = self._port(STATS_PORT)
        self.log_pipe = self.folder / "log"
        os.mkfifo(self.log_pipe, 0o600)
        self._set_environment()
        self._gpus = self.folder / "gpus"
        self._mps: list[mps.MpsDaemon] = []
        self._guard = Guard(folder=self.folder)

    def _set_environment(self) -> None:
        launcher = self.folder / "haproxy"
        launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dragoman.deploy.haproxy "$@"\n')
        launcher.chmod(0o700)
        for name, value in config.ray_environment(self.settings).items():
            os.environ.setdefault(name, value)
        os.environ |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # on every system: this node's address is 127.0.0.1
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_SERVE_HAPROXY_BINARY_PATH": str(launcher),
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(self.folder / "haproxy.cfg"),
            "RAY_SERVE_HAPROXY_SOCKET_PATH": str(self.folder / "admin.sock"),
            "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(self.folder / "metrics.sock"),
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(self.folder),
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(self.folder / "server-state"),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(self.stats_port),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(self._port(METRICS_PORT)),
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(self._port(FALLBACK_PORT)),
            haproxy.FRONTEND_HOST_VARIABLE: self.settings.server.host,
        }

    def _port(self, preferred: int) -> int:
        return self._held[preferred].getsockname()[1]

    def start_mps(self) -> None:
        """Start CUDA MPS for each GPU that engines share, if it can be used here. Blocks for some seconds.

        Where it cannot, they share the GPU without, or if the settings leave the number to us, each engine gets a GPU.
        """
        engines = self.deployment.engines_per_gpu
        gpus = self.deployment.replicas // engines
        if engines == 1:
            return
        reason = mps.why_not(self.settings.server.mps)
        try:
            for visible in () if reason else config.visible_gpus(gpus):
                self._mps.append(mps.MpsDaemon(SharedGpu(self._gpus / visible), visible))
                self._mps[-1].start()
        except mps.MpsRefused as error:
            reason = f"it cannot be used here: {error}"
            self._end_mps()
        if reason:
            log.warning("engines that share a GPU compute in turn, without CUDA MPS: %s", reason)
            if self.settings.server.replicas == "auto":
                self.deployment = config.shared_deployment(gpus, 1)

    def _end_mps(self) -> None:
        for daemon in self._mps:
            daemon.end()
        self._mps = []

    def start_ray(self) -> None:
        """Start Ray and HAProxy. Blocks for some seconds."""
        import ray
        from ray import serve

        for name in ("ray", "ray.serve"):
            logging.getLogger(name).setLevel(logging.ERROR)
        cast(Any, ray).init(
            "local",  # whatever RAY_ADDRESS says
            num_cpus=max(os.cpu_count() or 1, 2 * self.deployment.replicas) + 4,  # a count, which reserves nothing
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace="dragoman",
            _temp_dir=str(self.folder / "ray"),
        )
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": LOOPBACK, "port": self.port},
            logging_config={"log_level": "ERROR", "enable_access_log": False},
        )

    def stop_ray(self) -> None:
        """End Ray's processes, and with them HAProxy. Blocks for some seconds."""
        import ray

        cast(Any, ray).shutdown()

    def deploy(self) -> None:
        """Deploy the application. If it is deployed already, replace its replicas, one or a fifth of them at a time."""
        from ray import serve

        from dragoman.deploy import app

        given = app.arguments(
            self.settings,
            self.deployment,
            folder=str(Path.cwd()),
            log_to=str(self.log_pipe),
            gpus=str(self._gpus),
        )
        target = serve.RunTarget(target=app.build(given), name=app.APPLICATION, route_prefix="/")
        serve.run_many([target], wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    def failure(self) -> str:
        """Return why Serve cannot deploy the application; empty if it can."""
        from ray import serve

        status = serve.status().applications.get("dragoman")
        return status.message if status is not None and status.status == "DEPLOY_FAILED" else ""

    def exposed(self) -> list[processes.Listener]:
        """Return sockets that other machines can reach, except the service's own."""
        found = processes.listeners(psutil.Process().children(recursive=True))
        return [one for one in found if not one.is_loopback and one.port != self.port]

    def end(self) -> None:
        """End all processes, and delete the folder."""
        self._end_mps()
        self._guard.close()
        for one in (self._reserved, *self._held.values()):
            one.close()


def hold_port(preferred: int) -> socket.socket:
    """Return a socket that holds the port, or another one if it is in use.

    Another server's socket cannot hold it too. HAProxy and Ray, which ask for SO_REUSEADDR, can listen at it.
    """
    for port in (preferred, 0):
        held = socket.socket()
        try:
            held.bind((LOOPBACK, port))
        except OSError:
            held.close()
        else:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return held
    raise ConfigError(f"no port is free on {LOOPBACK}")


class LocalServer:
    """Serves with several replicas until a signal: SIGINT and SIGTERM drain, SIGHUP makes replicas read keys, SIGUSR2
    replaces the replicas one after the other."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self._signals = 0
        self._stopping = asyncio.Event()
        self._second_signal = asyncio.Event()
        self._directory: DirectoryClient | None = None
        self._known: list[Entry] = []
        self._silent = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> int:
        """Return the exit code: 0 after a drain, 1 if it timed out or Ray crashed. Raises why a replica could not start."""
        self._install_signals()
        self._forward_logs()
        try:
            await self._until_stopping(self._start())
            if self._directory is None:  # a signal came before there was a replica
                return 0
            await self._until_stopping(self._watch())
            return await self._drain()
        finally:
            for task in self._tasks:
                task.cancel()

    async def _until_stopping(self, work: Any) -> None:
        task = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if task.done():
            task.result()
        else:
            task.cancel()

    # ---- signals and logs

    def _install_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._begin(self._reload()))
        loop.add_signal_handler(signal.SIGUSR2, lambda: self._begin(asyncio.to_thread(self._run.deploy)))

    def _on_signal(self) -> None:
        self._signals += 1
        self._stopping.set()
        if self._signals > 1:
            self._second_signal.set()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s", error)

    async def _reload(self) -> None:
        from dragoman.deploy.peers import request

        settings = self._run.settings
        answers = await asyncio.gather(*(request(settings, "POST", one, "/v1/reload") for one in self._known))
        failed = [entry.name for entry, answer in zip(self._known, answers, strict=True) if answer is None]
        if failed:
            log.error("keys and limits could not be read again by replicas %s", ", ".join(failed))
        else:
            log.info("keys and limits are read again")

    def _forward_logs(self) -> None:
        """Forward log lines from the named pipe. It is also opened for writing, so that it does not end without a replica."""
        descriptor = os.open(self._run.log_pipe, os.O_RDWR | os.O_NONBLOCK)
        rest = b""

        def read() -> None:
            nonlocal rest
            *lines, rest = (rest + os.read(descriptor, 65536)).split(b"\n")
            for line in lines:
                self._progress.output(line.decode(errors="replace"))

        asyncio.get_running_loop().add_reader(descriptor, read)

    # ---- start, and watching

    async def _start(self) -> None:
        await asyncio.to_thread(self._run.start_mps)
        self._progress.status("starting Ray")
        await asyncio.to_thread(self._run.start_ray)
        self._install_signals()  # Ray has put its own handler of SIGTERM there
        from dragoman.deploy.peers import DirectoryClient

        self._directory = DirectoryClient()
        await asyncio.to_thread(self._run.deploy)
        while not await self._all_serve():  # noqa: ASYNC110 (the directory is in another process)
            await asyncio.sleep(POLL_S)
        self._write_targets()
        self._progress.ready(self._run.url)
        for one in await asyncio.to_thread(self._run.exposed):
            log.warning(
                "%s listens on %s:%d, which other machines may reach: keep it behind a firewall",
                one.process,
                one.host,
                one.port,
            )

    async def _all_serve(self) -> bool:
        """Whether all replicas have started and HAProxy forwards requests to them. Raises if a replica has failed."""
        entries = await self._entries()
        for entry in entries:
            if entry.state == "failed":
                kind = ConfigError if entry.is_config_error else DragomanError
                raise kind(entry.failure)
        if not entries and (failure := await asyncio.to_thread(self._run.failure)):
            raise DragomanError(f"the replicas could not be started: {failure}")
        self._progress.status(describe(entries, self._run.deployment.replicas))
        serving = [entry for entry in entries if entry.state == "serving"]
        self._known = serving
        replicas = self._run.deployment.replicas
        return len(serving) >= replicas and await _distributed(self._run.stats_port, replicas)

    async def _watch(self) -> None:
        """Watch the replicas until this is cancelled. Raises `DragomanError` if Ray has crashed."""
        while True:
            entries = [entry for entry in await self._entries() if entry.state != "failed"]
            before, now = ({(one.tag, one.name) for one in found if one.address} for found in (self._known, entries))
            if before != now:
                for _, name in sorted(before - now):
                    log.warning("replica %s has left", name)
                for _, name in sorted(now - before):
                    log.info("replica %s serves", name)
                self._known = entries
                self._write_targets()
            await asyncio.sleep(POLL_S)

    async def _entries(self) -> list[Entry]:
        """Return the directory's entries, or the last known ones if it does not answer. Raises `DragomanError` if Ray has
        crashed."""
        assert self._directory is not None
        from ray.exceptions import RayError

        try:
            found = await asyncio.wait_for(self._directory.entries(), timeout=5)
        except (RayError, TimeoutError) as error:
            self._silent += 1
            if self._silent >= SILENT_POLLS:
                raise DragomanError(f"Ray has crashed: {type(error).__name__}") from None
            return self._known
        self._silent = 0
        return found

    def _write_targets(self) -> None:
        """Write the addresses of the replicas' metrics, for Prometheus' file service discovery."""
        from dragoman.deploy.peers import targets_of

        document = [target.model_dump() for target in targets_of(self._known)]
        TARGETS_FILE.parent.mkdir(parents=True, exist_ok=True)
        part = TARGETS_FILE.with_suffix(".part")
        part.write_text(json.dumps(document, indent=1), encoding="utf-8")
        part.replace(TARGETS_FILE)

    # ---- drain

    async def _drain(self) -> int:
        log.info("draining: %d calls in flight", sum(entry.in_flight for entry in await self._entries()))
        drain_s = self._run.settings.server.drain_timeout_s
        drained = await self._instruct("drain", {"drained", "timed_out"}, drain_s + 10)
        await self._instruct("stop", {"stopped"}, config.STOP_S)
        if not self._second_signal.is_set():
            await asyncio.to_thread(self._run.stop_ray)
        return 0 if drained is not None and all(entry.state == "drained" for entry in drained) else 1

    async def _instruct(self, instruction: Instruction, states: set[str], timeout_s: float) -> list[Entry] | None:
        """Wait for all replicas to be in one of these states; return their entries, or None after the time limit or a second
        signal."""
        assert self._directory is not None
        await self._directory.instruct(instruction)
        until_s = monotonic() + timeout_s
        while monotonic() < until_s and not self._second_signal.is_set():
            entries = [entry for entry in await self._entries() if entry.state not in ("starting", "failed")]
            if all(entry.state in states for entry in entries):
                return entries
            await asyncio.sleep(POLL_S)
        return None


def describe(entries: Sequence[Entry], replicas: int) -> str:
    """Describe the progress of the replicas' start in a line."""
    serving = sum(entry.state == "serving" for entry in entries)
    phases = [
        f"{entry.name}: " + " > ".join(f"{phase.name} {phase.duration_s:.0f} s" for phase in entry.startup)
        for entry in entries
        if entry.state == "starting" and entry.startup
    ]
    return f"{serving} of {replicas} replicas serve" + "".join(f"  [{text}]" for text in phases)


async def _distributed(stats_port: int, replicas: int) -> bool:
    """Whether HAProxy forwards requests to this many replicas; before, it forwards them to a slow proxy of Ray."""
    import aiohttp

    url = f"http://{LOOPBACK}:{stats_port}/stats;csv"
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as http, http.get(url) as answer:
            lines = csv.DictReader((await answer.text()).splitlines())
            servers = [line for line in lines if (line.get("svname") or "").startswith("SERVE_REPLICA")]
            return sum(line["status"].startswith("UP") for line in servers) >= replicas
    except (aiohttp.ClientError, TimeoutError):
        return False


def serve(settings: Settings, progress: Progress) -> int:
    """Serve until a signal, and return the exit code as without replicas. Raises `ConfigError`, or `DragomanError` for a
    failure."""
    config.check(settings, several_hosts=False)
    run = Run(settings, config.local_deployment(settings))
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(LocalServer(run, progress).serve())
    except DragomanError:
        raise
    except Exception as error:
        log.exception("Ray failed")
        last = next(reversed(str(error).splitlines()), "")
        raise DragomanError(f"Ray failed: {type(error).__name__}: {last}") from error
    finally:
        run.end()
