"""The file that `dragoman deploy config` prints, as its users run it: its variables, `ray start`, `serve deploy`, an update."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.replicated import Load, stats_when
from tests.acceptance.test_replicas_of_two_nodes import free_ports
from tests.processes import ROOT, START_S, title

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

CLIENTS = 25
PROGRAMS = Path(sys.executable).parent


class Cluster:
    """A Ray cluster of this machine alone, started from the variables of `serve.yaml`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self._ray_port, self._dashboard, self._agent, *others = free_ports(9)
        self._stats, self._metrics, self._fallback, self._grpc, self._client = others
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "DRAGOMAN_"))},
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(self._stats),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(self._metrics),
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(self._fallback),
            "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(self._grpc),
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
        } | {
            f"RAY_SERVE_HAPROXY_{name}": str(folder / file)
            for name, file in {
                "CONFIG_FILE_LOC": "haproxy.cfg",
                "SOCKET_PATH": "admin.sock",
                "METRICS_SOCKET_PATH": "metrics.sock",
            }.items()
        }

    async def write(self, *flags: str) -> None:
        """`serve.yaml` and the variables in it."""
        await self._run(
            f'"{sys.executable}" -m dragoman.cli.main deploy config --replicas=2 --cpus=0.5 --pipeline=fake '
            f"--port={self.port} --storage-url= --auth=none --cache-max-bytes=0 {' '.join(flags)} > serve.yaml; "
            "sed -n 's/^#   //p' serve.yaml > node.sh"
        )

    async def start(self) -> None:
        await self._run(
            f". ./node.sh; export RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S=3; "
            f"ray start --head --port {self._ray_port} --node-ip-address 127.0.0.1 --dashboard-port {self._dashboard} "
            f"--dashboard-agent-listen-port {self._agent} --ray-client-server-port {self._client} --num-cpus 4 "
            f'--object-store-memory {80 * 2**20} --temp-dir "{self.folder}/ray"'
        )

    async def deploy(self) -> None:
        await self._run(f". ./node.sh; serve deploy serve.yaml --address http://127.0.0.1:{self._dashboard}")

    def processes(self) -> list[psutil.Process]:
        """Ray's, whose command lines name this cluster's folder, and all below them: HAProxy's and the replicas'."""
        named = [process for process in psutil.process_iter() if str(self.folder) in title(process)]
        below: list[psutil.Process] = []
        for process in named:
            with suppress(psutil.Error):
                below += process.children(recursive=True)
        return list({*named, *below})

    def replicas(self) -> set[int]:
        return {one.pid for one in self.processes() if title(one).startswith("ray::ServeReplica")}

    async def stop(self) -> list[str]:
        """What `ray stop` does, to this cluster alone: end Ray's processes, at last by force. Returns those of replicas and
        HAProxy that did not end by themselves."""
        found = self.processes()
        for process in found:
            with suppress(psutil.NoSuchProcess):
                if "haproxy" not in title(process):
                    process.terminate()
        ours = [process for process in found if title(process).startswith("ray::") or "haproxy" in title(process)]
        _, alive = await asyncio.to_thread(psutil.wait_procs, ours, 60)
        names = [title(process) for process in alive]
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return names

    async def _run(self, script: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euc", script),
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await asyncio.wait_for(process.communicate(), START_S)
        assert process.returncode == 0, output.decode()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="dragoman-", dir="/tmp") as folder:  # sockets' paths have 107 bytes at most
        cluster = Cluster(Path(folder))
        try:
            yield cluster
        finally:
            await cluster.stop()


async def test_the_printed_file_deploys_and_an_update_fails_no_call(cluster: Cluster) -> None:
    await cluster.write("--fake-step-ms=20")
    await cluster.start()
    await cluster.deploy()
    url = f"http://127.0.0.1:{cluster.port}"
    async with httpx.AsyncClient(base_url=url, timeout=START_S) as http:
        async with asyncio.timeout(START_S):
            while not await answers(http):  # noqa: ASYNC110 (the state is in other processes)
                await asyncio.sleep(0.2)
        await stats_when(http, serving=2)
        before = cluster.replicas()
        assert len(before) == 2
        assert {psutil.Process(pid).nice() for pid in before} == {psutil.Process().nice()}
        async with Load(url).running(CLIENTS) as load:
            await load.more(2 * CLIENTS)
            await cluster.write("--fake-step-ms=10")
            await cluster.deploy()
            async with asyncio.timeout(START_S):
                while before & cluster.replicas() or len(cluster.replicas()) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
            await stats_when(http, serving=2)
            await load.more(2 * CLIENTS)
        assert load.failed == []
    assert await cluster.stop() == []


async def answers(http: httpx.AsyncClient) -> bool:
    """Whether requests reach a replica of ours, which gives them an id."""
    try:
        return "x-request-id" in (await http.get("/readyz")).headers
    except httpx.TransportError:
        return False
