"""A Ray cluster of two nodes on this machine, one replica on each: `python -m tests.acceptance.two_nodes PORT OTHER_PORT`.

Prints `serving` when both nodes' HAProxy pass requests on, at PORT and OTHER_PORT. With the first line of standard input it
takes the second node down, as a loss of power would, and prints `removed`; with the next one, or its end, it stops.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from dragoman.deploy import config
from dragoman.settings import PipelineSettings, ServerSettings, Settings, StorageSettings

SETTINGS = Settings(
    server=ServerSettings(host="127.0.0.1"),
    pipeline=PipelineSettings(name="fake", fake_step_ms=20),
    storage=StorageSettings(url=""),
)


def environment(folder: Path, other_port: int) -> dict[str, str]:
    """What an operator sets on each node, and what two nodes on one machine need besides."""
    launcher = folder / "haproxy"
    launcher.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dragoman.deploy.haproxy "$@"\n')
    launcher.chmod(0o700)
    return {
        **config.ray_environment(SETTINGS),
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_SERVE_HAPROXY_BINARY_PATH": str(launcher),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder / "metrics.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
        "RAY_SERVE_WORKER_PROXY_HTTP_PORT": str(other_port),
        "SERVE_SOCKET_REUSE_PORT_ENABLED": "1",  # both nodes' HAProxy report at the same port
    }


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.headers["x-request-id"])
    except OSError:
        return False


def main(port: int, other_port: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="dragoman-", dir="/tmp"))
    os.environ |= environment(folder, other_port)
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    from dragoman.deploy import app

    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    other = cluster.add_node(**{**node, "include_dashboard": None})
    ray.init(address=cluster.address, log_to_driver=False, namespace="dragoman")
    serve.start(proxy_location="EveryNode", http_options={"host": "127.0.0.1", "port": port})
    deployment = {"replicas": 2, "num_cpus": 1, "several_hosts": True}
    target = serve.RunTarget(target=app.build({"settings": config.changed(SETTINGS), "deployment": deployment}))
    serve.run_many([target])
    while not (answers(port) and answers(other_port)):
        time.sleep(0.2)
    print("serving", flush=True)
    if sys.stdin.readline():
        cluster.remove_node(other, allow_graceful=False)
        print("removed", flush=True)
        sys.stdin.readline()
    ray.shutdown()
    cluster.shutdown()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
