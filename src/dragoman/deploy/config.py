"""Checks settings for replicas, and computes Ray's environment and `serve.yaml`, before Ray starts.

This module must not import ray, which reads its environment when it is imported.
"""

from __future__ import annotations

import json
import logging
import os
import resource
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from dragoman import settings as known
from dragoman.deploy import haproxy, mps, sharing
from dragoman.errors import ConfigError
from dragoman.gpu import NvmlGpus, find_gpus
from dragoman.settings import WITHOUT_ENGINE, Settings

log = logging.getLogger("dragoman.deploy")

DRAIN_PERIOD_S = 10
"""Seconds for which a replica that is replaced still answers, until every HAProxy has a configuration without it."""
STOP_S = 30
"""Seconds for an engine to end after its calls."""
LONGEST_REQUEST_S = 900
"""Seconds after a change of replicas at which HAProxy cuts off requests that still run."""
BUFFER_BYTES = 64 * 1024
"""HAProxy's buffer, of which a connection uses up to two. A request is repeated on another replica only if it fits in one."""
OF_KNEE = 0.7
"""The target of autoscaling, as a share of the knee of a tune's ladder: another replica takes minutes to start."""
_AUTOSCALING = {"upscale_delay_s": 15.0, "downscale_delay_s": 600.0}


@dataclass(frozen=True, slots=True)
class Deployment:
    """Parameters of a deployment. `num_gpus` and `num_cpus` are for each replica; `autoscaling` replaces `replicas`."""

    replicas: int = 1
    num_cpus: float = 1
    num_gpus: float = 0
    several_hosts: bool = False
    autoscaling: Mapping[str, Any] | None = None

    @property
    def engines_per_gpu(self) -> int:
        """Engines that share a GPU."""
        return int(1 / self.num_gpus) if 0 < self.num_gpus < 1 else 1


def settings_of(values: Mapping[str, Mapping[str, Any]], *, environment: Mapping[str, str] | None = None) -> Settings:
    """Build settings from plain values by section and key, then from `environment`, then from defaults."""
    flags = {f"{section}.{key}": value for section, table in values.items() for key, value in table.items()}
    return known.load(flags=flags, environment=environment or {}).settings


def changed(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the values that differ from the defaults."""
    defaults = asdict(Settings())
    return {
        section: differing
        for section, table in asdict(settings).items()
        if (differing := {key: value for key, value in table.items() if value != defaults[section][key]})
    }


def check(settings: Settings, *, several_hosts: bool) -> None:
    """Raises `ConfigError` for settings that several replicas behind one address cannot have."""
    if settings.pipeline.name not in ("continuous", *WITHOUT_ENGINE):
        raise ConfigError(
            f"pipeline {settings.pipeline.name} cannot have replicas: use continuous, or serve without --replicas",
            param="pipeline.name",
        )
    if settings.server.tls_certificate or settings.server.tls_key:
        raise ConfigError(
            "HAProxy, which distributes requests over replicas, does not terminate TLS here: put a proxy with the "
            "certificate before it, and leave server.tls_certificate and server.tls_key empty",
            param="server.tls_certificate",
        )
    if settings.server.operator_port is not None:
        raise ConfigError(
            "each replica has an operators' port of its own, which GET /v1/replicas names: leave server.operator_port unset",
            param="server.operator_port",
        )
    if several_hosts and settings.storage.url.startswith("sqlite"):
        raise ConfigError(
            "several hosts cannot share a SQLite file: set storage.url (DRAGOMAN_STORAGE_URL on each node) to a PostgreSQL "
            "database, or to nothing where no keys and glossaries are needed",
            param="storage.url",
        )


def check_cluster(nodes: int) -> None:
    """Raises `ConfigError` in a cluster of several nodes without token authentication."""
    if nodes > 1 and os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise ConfigError(
            "this Ray cluster accepts code from all who reach its ports: set RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN "
            "on each node before `ray start`"
        )


def gpus_per_replica(settings: Settings) -> int:
    """Return the number of GPUs of one engine, if the machine has GPUs; 0 without an engine."""
    if settings.pipeline.name in WITHOUT_ENGINE:
        return 0
    return settings.engine.tensor_parallel_size


def local_deployment(settings: Settings) -> Deployment:
    """Return the deployment of `--replicas` on this machine. Raises `ConfigError` if it has too few GPUs for it."""
    found = find_gpus()
    gpus = len(found.describe()) if found is not None and settings.pipeline.name not in WITHOUT_ENGINE else 0
    each = gpus_per_replica(settings) if gpus else 0
    most = gpus // each if each else None
    wanted = settings.server.replicas
    if isinstance(wanted, str) and wanted != "auto":
        return _sharing(settings, wanted, gpus)
    if wanted == "auto" and gpus and found is not None:
        choice = sharing_choice(settings, found)
        log.info("replicas for each GPU: %d: %s", choice.engines, choice.reason)
        if choice.engines > 1:
            return shared_deployment(gpus, choice.engines)
    replicas = wanted if isinstance(wanted, int) else max(1, most or 1)
    if most is not None and replicas > most:
        raise ConfigError(
            f"{replicas} replicas need {replicas * each} GPUs ({each} each), and this machine has {gpus}"
            + (f"; {-(-replicas // gpus)}/gpu share each GPU" if each == 1 else ""),
            param="server.replicas",
        )
    return Deployment(replicas=replicas, num_gpus=each)


def shared_deployment(gpus: int, engines: int) -> Deployment:
    """Return the deployment of so many engines on each of so many GPUs."""
    return Deployment(replicas=gpus * engines, num_gpus=sharing.gpu_fraction(engines) if engines > 1 else 1)


def _sharing(settings: Settings, wanted: str, gpus: int) -> Deployment:
    """Return the deployment for `--replicas N/gpu`. Raises `ConfigError` where engines cannot share GPUs."""
    from dragoman.service import stack

    if settings.engine.tensor_parallel_size > 1:
        reason = (
            f"an engine of several GPUs (engine.tensor_parallel_size = {settings.engine.tensor_parallel_size}) cannot "
            "share them: set the number of replicas, or auto"
        )
    elif not gpus or not stack.runs_on_gpu():
        reason = "no engine runs on a GPU here (`dragoman doctor` says why): set the number of replicas"
    else:
        return shared_deployment(gpus, int(wanted.partition("/")[0]))
    raise ConfigError(f"server.replicas = {wanted}: {reason}", param="server.replicas")


def sharing_choice(settings: Settings, found: NvmlGpus) -> sharing.SharingChoice:
    """Choose how many engines share each of these GPUs. Raises `ConfigError` if the model cannot be read."""
    from dragoman.service import stack

    if settings.engine.tensor_parallel_size > 1:
        return sharing.SharingChoice(1, "an engine has several GPUs")
    if not stack.runs_on_gpu():
        return sharing.SharingChoice(1, "the installed vLLM runs on the CPU")
    gpus = found.describe()
    machine = sharing.SharedMachine(
        gpus=len(gpus),
        memory_bytes=int(min(gpu.memory_mib for gpu in gpus) * 2**20),
        bandwidth_bytes_s=found.bandwidth_bytes_s(),
        cores=len(os.sched_getaffinity(0)),
        no_mps=mps.why_not(settings.server.mps),
    )
    return sharing.choose(stack.weights(settings), machine, settings.engine.gpu_memory_utilization)


def visible_gpus(gpus: int) -> list[str]:
    """Return this process's GPUs as entries of CUDA_VISIBLE_DEVICES, by which Ray names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [entry.strip() for entry in visible.split(",")][:gpus] if visible else [str(gpu) for gpu in range(gpus)]


def of_replica(settings: Settings, deployment: Deployment) -> Settings:
    """Return a replica's settings: engines that share a GPU share its memory."""
    engine = settings.engine
    share = sharing.memory_share(engine.gpu_memory_utilization, deployment.engines_per_gpu)
    return replace(settings, engine=replace(engine, gpu_memory_utilization=share))


def graceful_shutdown_s(settings: Settings) -> float:
    """Return how long Serve waits for a replica that it replaces: its drain, and some seconds for the engine to end."""
    return settings.server.drain_timeout_s + DRAIN_PERIOD_S + STOP_S


def ray_environment(settings: Settings) -> dict[str, str]:
    """Return the variables that Ray needs on each node. Ray Serve's defaults add 10 ms to a request and lose requests."""
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    # HAProxy needs 2.5 files for each connection, and does not start when it cannot have them.
    connections = 20_000 if most_files == resource.RLIM_INFINITY else min(20_000, (most_files - 200) * 2 // 5)
    proxies = settings.server.trusted_proxies
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # by default 15: whatever else runs on the host would come before the engines
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response",
        "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": str(BUFFER_BYTES),
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": str(LONGEST_REQUEST_S),
        "RAY_SERVE_HAPROXY_MAXCONN": str(connections),
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": str(DRAIN_PERIOD_S),
        # Of an ingress: Serve's 5 s are too short for a busy machine, it is killed and `serve deploy` fails.
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
        # Three checks that fail have Serve start another HAProxy: with its 10 s nothing is served for half a minute.
        "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "2",
        haproxy.HEADER_TIMEOUT_VARIABLE: str(settings.server.header_timeout_s),
        haproxy.BODY_TIMEOUT_VARIABLE: str(settings.server.body_timeout_s),
        # uvicorn's: whose X-Forwarded headers count. HAProxy passes on those of its client.
        "FORWARDED_ALLOW_IPS": f"{proxies},127.0.0.1" if proxies else "",
    }


def serve_yaml(settings: Settings, deployment: Deployment) -> str:
    """Write a configuration for `serve deploy`; its comments have the variables that each node needs before `ray start`.

    The database's address, which has a password, the key of engines elsewhere, and Ray's token are not in it: nodes have them
    in their environment. Raises `ConfigError`.
    """
    import yaml

    check(settings, several_hosts=True)
    values = changed(settings)
    for section, key in (("server", "replicas"), ("server", "host"), ("server", "port")):
        values.get(section, {}).pop(key, None)
    if settings.storage.url:
        values["storage"].pop("url")
    if settings.remote.api_key:
        values["remote"].pop("api_key")
    # The address that clients reach: on each node, HAProxy listens there.
    values.setdefault("server", {})["host"] = "0.0.0.0"
    given = {name: value for name, value in asdict(deployment).items() if value is not None}
    document = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": settings.server.port},
        "applications": [
            {
                "name": "dragoman",
                "route_prefix": "/",
                "import_path": "dragoman.deploy.app:build",
                "args": {"settings": {key: table for key, table in values.items() if table}, "deployment": given},
            }
        ],
    }
    variables = {
        **ray_environment(settings),
        "RAY_AUTH_TOKEN": '"${RAY_AUTH_TOKEN:?set it, the same on each node: openssl rand -hex 32}"',
        "RAY_SERVE_HAPROXY_BINARY_PATH": '"$(command -v dragoman-haproxy)"',
    }
    if settings.storage.url:
        variables["DRAGOMAN_STORAGE_URL"] = '"${DRAGOMAN_STORAGE_URL:?set it to the address of the database}"'
    if settings.remote.api_key:
        variables["DRAGOMAN_REMOTE_API_KEY"] = '"${DRAGOMAN_REMOTE_API_KEY:?set it to the key of the engines}"'
    comments = [
        "# dragoman on a Ray cluster: serve deploy serve.yaml",
        "# On each node, before `ray start`: sed -n 's/^#   //p' serve.yaml > node.sh; . ./node.sh",
        *(f"#   export {name}={_quoted(value)}" for name, value in variables.items()),
    ]
    return "\n".join(comments) + "\n" + yaml.safe_dump(document, sort_keys=False)


def _quoted(value: str) -> str:
    return f'"{value}"' if (" " in value and not value.startswith('"')) or not value else value


def tuned_target(path: Path) -> float:
    """Return the target of in-flight requests of a replica, from a `tune.json` or a tune's folder. Raises `ConfigError`."""
    file = path / "tune.json" if path.is_dir() else path
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
        ladder = document["ladder"]
        knee = cast(object, ladder["knee"]) if ladder is not None else None
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} is not the tune.json of `dragoman tune`") from error
    if type(knee) is not int or knee < 1:
        raise ConfigError(
            f"{file}: the ladder has no knee, so nothing was measured: run the tune again, or use --target-in-flight"
        )
    return round(OF_KNEE * knee, 1)


def autoscaling(fewest: int, most: int, target_in_flight: float) -> dict[str, Any]:
    """Return Serve's autoscaling options for a target of in-flight requests per replica. Raises `ConfigError`."""
    if not 1 <= fewest <= most:
        raise ConfigError(f"replicas from {fewest} to {most}: the first must be at least 1 and no more than the second")
    return {
        "min_replicas": fewest,
        "max_replicas": most,
        "target_ongoing_requests": target_in_flight,
        **_AUTOSCALING,
    }
