"""A Ray cluster of two nodes on one machine: the loss of a node."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.acceptance.replicated import Load
from tests.processes import ROOT, START_S

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

CLIENTS = 25
CUT, MOST_CUT = "without sending complete message body", 3
"""An answer of which the lost node had sent the head, in the instant before its body: no proxy can ask another for the rest."""


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to connections: until it is bound, each of those may be taken by one of Ray's."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 20 * count):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found


async def test_the_loss_of_a_node_fails_no_call_at_the_other(tmp_path: Path) -> None:
    port, other_port = free_ports(2)
    command = [sys.executable, "-m", "tests.acceptance.two_nodes", str(port), str(other_port)]
    with (tmp_path / "errors.log").open("w") as errors:
        cluster = await asyncio.create_subprocess_exec(
            *command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert cluster.stdin is not None and cluster.stdout is not None

    async def printed(line: bytes) -> None:
        assert cluster.stdout is not None
        async with asyncio.timeout(START_S):
            async for found in cluster.stdout:
                if found.strip() == line:
                    return
        raise AssertionError((tmp_path / "errors.log").read_text())

    try:
        await printed(b"serving")
        async with Load(f"http://127.0.0.1:{port}").running(CLIENTS) as load:
            await load.more(2 * CLIENTS)
            cluster.stdin.write(b"remove\n")
            await printed(b"removed")
            await load.more(4 * CLIENTS)
        cut = [one for one in load.failed if CUT in one]
        assert [one for one in load.failed if one not in cut] == []
        assert len(cut) <= MOST_CUT
    finally:
        below = psutil.Process(cluster.pid).children(recursive=True) if cluster.returncode is None else []
        cluster.stdin.close()
        try:
            await asyncio.wait_for(cluster.wait(), 60)
        finally:
            _, alive = await asyncio.to_thread(psutil.wait_procs, below, 15)
            for process in alive:
                process.kill()
            if cluster.returncode is None:
                cluster.kill()
