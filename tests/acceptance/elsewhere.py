"""A stand-in of an engine elsewhere, as a process that can be killed and started again."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

from dragoman import phrasebook
from tests.processes import ROOT


class EngineProcess:
    """A stand-in of `vllm serve` for the packaged model, as a process that can be killed and started again at its port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        program = (sys.executable, "-m", "tests.pipelines.upstream", str(phrasebook.model_dir()), str(self.port))
        self._process = subprocess.Popen(program, cwd=ROOT, env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"})

    @property
    def listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    async def kill(self) -> None:
        self._process.kill()
        await asyncio.to_thread(self._process.wait)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]
