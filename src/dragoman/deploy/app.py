"""The Ray Serve application: each replica is a complete server, with the same app and service as without Ray.

`build` makes it from plain values, for `dragoman serve --replicas` and for `serve deploy`. A replica is ready when its
service has started. Serve replaces it when its engine cannot be restarted, because `check_health` then raises.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import psutil
import ray
import uvicorn.config
from fastapi import FastAPI
from ray import serve
from rich.console import Console
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.api.app import create_app
from dragoman.api.transport import JoinedProtocol
from dragoman.deploy import config, sharing
from dragoman.deploy.peers import DirectoryClient, Entry, Membership, OperatorPort, Peers, failed
from dragoman.errors import DragomanError, EngineDead
from dragoman.heap import limit_arenas
from dragoman.service.service import TranslationService
from dragoman.settings import Settings
from dragoman.sharedgpu import SharedGpu
from dragoman.telemetry import logs

_ray: Any = ray  # typed in part
APPLICATION = "dragoman"
MAX_ONGOING_REQUESTS = 1_000_000
"""More than admission ever admits, so that clients get dragoman's refusals, with Retry-After, and not Ray's."""
LOOPBACK = "127.0.0.1"


def arguments(
    settings: Settings, deployment: config.Deployment, *, folder: str, log_to: str, gpus: str
) -> dict[str, Any]:
    """Return the arguments of `build`, as plain values, for replicas on this machine.

    `folder`: the base of relative paths in the settings; `log_to`: a named pipe for the replicas' logs; `gpus`: a folder with
    one for each `SharedGpu`.
    """
    return {
        "settings": asdict(config.of_replica(settings, deployment)),
        "deployment": asdict(deployment),
        "folder": folder,
        "log_to": log_to,
        "gpus": gpus,
    }


def _settings(args: Mapping[str, Any], several_hosts: bool) -> Settings:
    """Return the settings; with several hosts, each host's environment completes them."""
    return config.settings_of(args["settings"], environment=os.environ if several_hosts else None)


def build(args: Mapping[str, Any]) -> Any:
    """Build the application from `arguments`, or for `serve deploy` from those in `serve.yaml`.

    Raises `ConfigError` for settings that several replicas cannot have.
    """
    deployment = config.Deployment(**args["deployment"])
    settings = _settings(args, deployment.several_hosts)
    config.check(settings, several_hosts=deployment.several_hosts)
    options: dict[str, Any] = {
        "ray_actor_options": {"num_cpus": deployment.num_cpus, "num_gpus": deployment.num_gpus},
        "max_ongoing_requests": MAX_ONGOING_REQUESTS,
        "max_queued_requests": -1,
        "health_check_period_s": 2.0,
        "health_check_timeout_s": 30.0,
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": config.graceful_shutdown_s(settings),
    }
    if deployment.autoscaling is None:
        options["num_replicas"] = deployment.replicas
    else:
        options["autoscaling_config"] = dict(deployment.autoscaling)
    ingress: Any = cast(Any, serve).ingress()
    deployed: Any = serve.deployment(name="dragoman", **options)(ingress(Replica))
    return deployed.bind(dict(args))


class Replica:
    """A server that Ray runs in a process of its own."""

    async def __init__(self, args: dict[str, Any]) -> None:
        limit_arenas()
        if folder := args.get("folder"):
            os.chdir(folder)
        context: Any = serve.get_replica_context()
        name, node = str(context.rank.rank), str(_ray.util.get_node_ip_address())
        deployment = config.Deployment(**args["deployment"])
        several_hosts = deployment.several_hosts
        if several_hosts:
            config.check_cluster(len(_ray.nodes()))
        if deployment.engines_per_gpu > 1 and args.get("gpus"):
            _share_gpu(Path(args["gpus"]), context.rank.rank, deployment.replicas)
        settings = _own_settings(_settings(args, several_hosts), name, node if several_hosts else LOOPBACK)
        _configure_logging(settings, args.get("log_to", ""), name)
        self._lost: asyncio.Task[EngineDead] | None = None
        directory, entry = DirectoryClient(), Entry(context.replica_tag, name, node, os.getpid())
        membership: Membership | None = None
        try:
            if not several_hosts:
                _keep_to_loopback()
            _answer_with_our_request_ids()
            _answer_with_joined_writes()
            self.service = TranslationService.from_settings(settings, replica=name)
            self._membership = membership = Membership(directory, self.service, entry)
            membership.start()
            await self.service.start()
        except Exception as error:
            if membership is not None:
                await membership.leave()
            await directory.report(failed(entry, error))
            raise
        self.service.freeze_heap()
        self._lost = asyncio.create_task(self.service.lost())
        self._operators = OperatorPort(self.service, settings.server.operator_host)
        self._operators.start()
        await self._membership.serving(self._operators.address)
        self._peers = Peers(directory, self.service, context.replica_tag)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self.service, self._peers)

    async def check_health(self) -> None:
        """Raises `EngineDead` if the engine cannot be restarted: Serve then replaces the replica. While the server restarts its
        engine, it holds calls, and this does not raise."""
        if self._lost is not None and self._lost.done():
            raise self._lost.result()

    async def __del__(self) -> None:
        """Stop the server. Serve has already waited for requests."""
        if self._lost is None:
            return
        self._lost.cancel()
        await self.service.drain()
        await self.service.stop()
        await self._operators.close()
        await self._membership.leave()


def _share_gpu(gpus: Path, rank: int, replicas: int) -> None:
    """Before the engine's first process: join those that share the GPU, and keep to CPU cores of this replica's own.

    `gpus`: a folder with one for each GPU, by the name that Ray gives it in CUDA_VISIBLE_DEVICES.
    """
    os.environ.update(SharedGpu(gpus / os.environ["CUDA_VISIBLE_DEVICES"]).environment())
    cores = sharing.split_cores(sharing.core_groups(frozenset(os.sched_getaffinity(0))), replicas)[rank % replicas]
    for thread in psutil.Process().threads():
        with suppress(ProcessLookupError):  # threads may end meanwhile
            os.sched_setaffinity(thread.id, cores)


def _own_settings(settings: Settings, name: str, operator_host: str) -> Settings:
    """Add the replica's name to files that only one process may write."""

    def own(file: str) -> str:
        path = Path(file)
        return str(path.with_name(f"{path.stem}-{name}{path.suffix}")) if file else ""

    return replace(
        settings,
        server=replace(settings.server, operator_host=operator_host),
        cache=replace(settings.cache, file=own(settings.cache.file)),
        log=replace(settings.log, engine_file=own(settings.log.engine_file)),
    )


def _configure_logging(settings: Settings, log_to: str, name: str) -> None:
    """Log to the named pipe `log_to`, or to standard error, which Ray writes to a file for each replica."""
    stream = sys.stderr
    if log_to:
        descriptor = os.open(log_to, os.O_WRONLY | os.O_NONBLOCK)  # lines are lost when the other end does not read
        stream = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")
    logs.configure_logging(settings.log.level, settings.log.format, Console(file=stream), timed=True, replica=name)


# ---- changes of Ray Serve for which it has no options


def _replace(module: ModuleType, name: str, replacement: Any) -> None:
    """Replace a name in one of Ray's modules. Raises `DragomanError` if the module has no such name."""
    if not hasattr(module, name):
        raise DragomanError(f"{module.__name__} has no {name}: install the version of Ray that dragoman[ray] asks for")
    setattr(module, name, replacement)


def _keep_to_loopback() -> None:
    """Make Serve's gRPC server of this replica, which only its controller calls, listen on loopback."""
    from ray.serve._private import replica

    add_port: Any = getattr(replica, "add_port_to_grpc_server", None)
    _replace(
        replica,
        "add_port_to_grpc_server",
        lambda server, address: add_port(server, address.replace("[::]", LOOPBACK)),  # pyright: ignore[reportUnknownLambdaType]
    )


class _Unchanged:
    """Replaces a middleware of Serve, and changes nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def _answer_with_our_request_ids() -> None:
    """Prevent Serve from adding X-Request-ID to answers, which have dragoman's."""
    from ray.serve._private import http_util

    _replace(http_util, "RequestIdMiddleware", _Unchanged)


def _answer_with_joined_writes() -> None:
    """Have Serve's uvicorn send a head with its body: HAProxy repeats a request until it has seen a head."""
    uvicorn.config.HTTP_PROTOCOLS["auto"] = f"{JoinedProtocol.__module__}:{JoinedProtocol.__name__}"
