"""A Prometheus of the test's own: it scrapes one dragoman, with the rules of ops/, and forgets everything afterwards."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.ops.tools import ALERTS
from tests.waiting import HANG_S

PATIENCE_S = DEADLINE_S = HANG_S


@dataclass(frozen=True)
class Prometheus:
    client: httpx.AsyncClient

    async def query(self, expr: str) -> list[dict[str, Any]]:
        """The samples of now. Fails the test where Prometheus does not understand the expression."""
        answer = (await self.client.get("/api/v1/query", params={"query": expr})).json()
        assert answer["status"] == "success", f"{expr}: {answer}"
        return answer["data"]["result"]

    async def has_numbers(self, expr: str) -> bool:
        return any(math.isfinite(float(sample["value"][1])) for sample in await self.query(expr))

    async def rules(self) -> list[dict[str, Any]]:
        groups = (await self.client.get("/api/v1/rules")).json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


@asynccontextmanager
async def prometheus(folder: Path, *targets: str, **job: object) -> AsyncIterator[Prometheus]:
    """Scrapes `targets` (host:port) as job `dragoman`, twice a second; or what the other keys of the job find."""
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "dragoman", **(job or {"static_configs": [{"targets": list(targets)}]})}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    flags = (f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb")
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "prometheus", *flags, f"--web.listen-address={address}", stdout=log, stderr=log
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE_S) as client:
            async with asyncio.timeout(DEADLINE_S):
                await _ready(client, process, folder / "prometheus.log")
            yield Prometheus(client)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _ready(client: httpx.AsyncClient, process: asyncio.subprocess.Process, log: Path) -> None:
    while True:
        assert process.returncode is None, log.read_text()
        try:
            if (await client.get("/-/ready")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.05)
