"""Keys of servers that run as processes, on each database: what is counted, also by several and after kill -9; where a
server refuses to start; and that no key is in what a server writes.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import httpx
import pytest

pytestmark = pytest.mark.acceptance

UNCOUNTED_S = 1.0
"""A server that is killed has counted every request that it had answered longer ago."""
CLIENTS = 256


def dragoman(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dragoman.cli.main", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def new_key(folder: Path, url: str, name: str, *limits: str) -> str:
    made = dragoman(folder, "keys", "create", name, "--storage-url", url, *limits)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def used(folder: Path, url: str, name: str) -> tuple[int, int]:
    """Characters and requests of all months."""
    rows = json.loads(dragoman(folder, "keys", "usage", name, "--json", "--storage-url", url).stdout)
    return sum(row["characters"] for row in rows), sum(row["requests"] for row in rows)


@asynccontextmanager
async def serving(
    folder: Path, url: str, *flags: str
) -> AsyncGenerator[tuple[asyncio.subprocess.Process, str, list[str]]]:
    """A server over the fake pipeline that needs keys; the process, its address, and what it has written on stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman.cli.main", "serve", "--pipeline", "fake", "--port", "0"),
        *("--storage-url", url, "--auth", "keys", "--log-level", "debug", *flags),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    written: list[str] = []

    async def read() -> None:
        assert process.stderr is not None
        while line := (await process.stderr.readline()).decode():
            written.append(line)

    try:
        while not written or (ready := re.search(r"listens on (https?://\S+)", written[-1])) is None:
            line = (await process.stderr.readline()).decode()
            assert line, f"the server did not start: {written}"
            written.append(line)
        reading = asyncio.create_task(read())
        yield process, ready[1], written
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await reading


class Load:
    """Clients that send requests of one key until `count` are answered, or until the server has gone."""

    def __init__(self, key: str, count: int | None = None) -> None:
        self.headers = {"Authorization": f"Bearer {key}"}
        self.left = count
        self.answered: list[tuple[float, int]] = []  # when, and its characters
        self.longest = 0

    async def run(self, *urls: str) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, headers=self.headers) as session:
            await asyncio.gather(*(self._client(session, urls[one % len(urls)], one) for one in range(CLIENTS)))

    async def _client(self, session: aiohttp.ClientSession, url: str, number: int) -> None:
        text = "x" * (1 + number % 100)
        self.longest = max(self.longest, len(text))
        body = {"text": text, "source": "en", "target": "ja"}
        while self.left is None or self.left > 0:
            if self.left is not None:
                self.left -= 1
            try:
                async with session.post(f"{url}/v1/translate", json=body) as answer:
                    assert answer.status == 200, await answer.text()
                    await answer.read()
            except (aiohttp.ClientError, ConnectionError):
                assert self.left is None, "the server has gone"
                return
            self.answered.append((monotonic(), len(text)))


async def test_10000_requests_256_at_once_are_counted_exactly_on_one_server_and_on_two(
    tmp_path: Path, url: str
) -> None:
    key = new_key(tmp_path, url, "load")
    async with serving(tmp_path, url) as (first, address, _), serving(tmp_path, url) as (second, other, _):
        loads = Load(key, 10_000), Load(key, 2_000)
        await loads[0].run(address)
        await loads[1].run(address, other)
        for process in (first, second):
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    answered = [one for load in loads for one in load.answered]
    assert len(answered) == 12_000
    assert used(tmp_path, url, "load") == (sum(characters for _, characters in answered), 12_000)


async def test_kill_9_leaves_at_most_the_last_second_uncounted_and_counts_nothing_twice(
    tmp_path: Path, url: str
) -> None:
    key = new_key(tmp_path, url, "load")
    load = Load(key)
    async with serving(tmp_path, url) as (process, address, _):
        running = asyncio.create_task(load.run(address))
        began_s = monotonic()
        while len(load.answered) < 500 or monotonic() - began_s < 4 * UNCOUNTED_S:
            await asyncio.wait([running], timeout=0.05)
            assert not running.done()
        killed_s = monotonic()
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await running
    old = [characters for at_s, characters in load.answered if at_s < killed_s - UNCOUNTED_S]
    characters, requests = used(tmp_path, url, "load")
    assert len(old) > 100
    assert len(old) <= requests <= len(load.answered) + CLIENTS  # whose answers were on their way
    assert sum(old) <= characters <= sum(one for _, one in load.answered) + CLIENTS * load.longest
    async with serving(tmp_path, url) as (process, _, _):  # the next start adds nothing
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert used(tmp_path, url, "load") == (characters, requests)


async def test_signals_and_operators_have_keys_read_again_and_no_key_is_written(tmp_path: Path, url: str) -> None:
    alice, operator = new_key(tmp_path, url, "alice"), new_key(tmp_path, url, "op", "--role", "operator")
    wrong, slow = "drg_wrong-but-secret", ("--auth-refresh-s", "3600")
    async with (
        serving(tmp_path, url, *slow) as (process, address, written),
        httpx.AsyncClient(base_url=address, timeout=60) as client,
    ):

        async def status(key: str) -> int:
            headers = {"Authorization": f"DeepL-Auth-Key {key}:fx"}
            body = {"text": "Good morning.", "source": "en", "target": "ja"}
            return (await client.post(f"/v1/translate?key={key}", json=body, headers=headers)).status_code

        assert [await status(alice), await status(wrong)] == [200, 401]
        command_line = (
            Path(f"/proc/{process.pid}/cmdline").read_text() + Path(f"/proc/{process.pid}/environ").read_text()
        )
        for reload in ("signal", "endpoint"):
            replaced = dragoman(
                tmp_path, "keys", "rotate", "alice", "--overlap", "0", "--storage-url", url
            ).stdout.strip()
            assert await status(alice) == 200  # known, and not read again yet
            if reload == "signal":
                process.send_signal(signal.SIGHUP)
                async with asyncio.timeout(60):
                    while await status(alice) == 200:
                        pass
            else:
                assert dragoman(tmp_path, "reload", "--url", address).returncode == 2  # without a key
                environment = os.environ | {"DRAGOMAN_API_KEY": operator}
                command = [sys.executable, "-m", "dragoman.cli.main", "reload", "--url", address]
                reloaded = await asyncio.create_subprocess_exec(*command, env=environment, cwd=tmp_path)
                assert await reloaded.wait() == 0
            assert [await status(alice), await status(replaced)] == [401, 200]
            alice = replaced
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    contents = b"".join(file.read_bytes() for file in files).decode("latin-1")
    for key in (alice, operator, wrong):
        secret = key.removeprefix("drg_")
        assert secret not in "".join(written) + command_line + contents


def test_off_loopback_a_server_refuses_to_start_without_keys(tmp_path: Path, url: str) -> None:
    flags = ("serve", "--pipeline", "fake", "--port", "0", "--host", "0.0.0.0", "--storage-url", url)
    refused = dragoman(tmp_path, *flags)
    assert refused.returncode == 2
    assert "dragoman keys create" in refused.stderr
    assert "--auth none" in refused.stderr


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed one for localhost, with its key beside it in key.pem."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"),
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    return tmp_path / "certificate.pem"


async def test_tls_and_the_operators_port(tmp_path: Path, url: str, certificate: Path) -> None:
    key = new_key(tmp_path, url, "alice")
    flags: tuple[str, ...] = ("--tls-certificate", "certificate.pem", "--tls-key", "key.pem", "--operator-port", "0")
    async with serving(tmp_path, url, *flags) as (_, address, written):
        trusted = ssl.create_default_context(cafile=certificate)
        assert address.startswith("https://")
        async with httpx.AsyncClient(base_url=address, verify=trusted, timeout=60) as client:
            body = {"text": "Good morning.", "source": "en", "target": "ja"}
            assert (await client.post("/v1/translate", json=body, headers={"X-API-Key": key})).status_code == 200
            assert (await client.get("/metrics")).status_code == 401
        found = re.search(r"operators' endpoints on (http://\S+)", "".join(written))
        assert found is not None
        async with httpx.AsyncClient(base_url=found[1], timeout=60) as client:
            statuses: Counter[int] = Counter()
            for path in ("/metrics", "/v1/stats", "/readyz", "/v1/languages"):
                statuses[(await client.get(path)).status_code] += 1
            assert statuses == {200: 3, 404: 1}


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    cases: list[tuple[str, ...]] = [
        ("--tls-certificate", "none.pem"),
        ("--tls-certificate", "bad.pem"),
        ("--tls-key", "k"),
    ]
    for flags in cases:
        refused: Any = dragoman(tmp_path, "serve", "--pipeline", "fake", "--port", "0", *flags)
        assert refused.returncode == 2, flags
        assert "tls_certificate" in refused.stderr
