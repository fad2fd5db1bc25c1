"""Keys of servers that run as processes, on each database: what is counted, also by several and after kill -9; where a
server refuses to start; and that no key is in what a server writes.
"""

from __future__ import annotations

import asyncio
import re
import signal
import ssl
import subprocess
from collections import Counter
from pathlib import Path

import aiohttp
import httpx
import pytest

from dragoman.storage.database import Database
from dragoman.storage.usage import UsageLedger
from dragoman.telemetry.traffic.entry import TrafficReader, traffic_files
from tests.processes import ServerProcess, create_key, rotate_key, serving
from tests.waiting import HANG_S, until

pytestmark = pytest.mark.acceptance

CLIENTS = 256


async def used(url: str) -> tuple[int, int]:
    """Characters and requests of all keys and months."""
    database = Database(url)
    await database.open()
    rows = (await UsageLedger(database).by_month()).values()
    await database.close()
    return sum(row.characters for row in rows), sum(row.requests for row in rows)


def flags_of(url: str, *others: str) -> tuple[str, ...]:
    """Of a server that needs keys."""
    return ("--auth=keys", f"--storage-url={url}", "--log-level=debug", *others)


class Load:
    """Clients that send requests of one key until `count` are answered, or until the server has gone."""

    def __init__(self, key: str, count: int | None = None) -> None:
        self.headers = {"Authorization": f"Bearer {key}"}
        self.left = count
        self.answered: dict[str, int] = {}  # the characters of each, by its id
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
            self.answered[answer.headers["x-request-id"]] = len(text)


async def test_requests_256_at_once_are_counted_exactly_on_one_server_and_on_two(tmp_path: Path, url: str) -> None:
    key, other_folder = await create_key(url), tmp_path / "other"
    other_folder.mkdir()
    # Servers of one SQLite file keep documents in one folder.
    flags = ("--pipeline=fake", *flags_of(url, f"--documents-folder={tmp_path / 'documents'}"))
    with ServerProcess(tmp_path, *flags) as first, ServerProcess(other_folder, *flags) as second:
        await asyncio.gather(first.listening(), second.listening())
        loads = Load(key, 2_000), Load(key, 1_000)
        await loads[0].run(first.url)
        await loads[1].run(first.url, second.url)
        for server in (first, second):
            assert await server.end() == 0
    answered = [one for load in loads for one in load.answered.values()]
    assert len(answered) == 3_000
    assert await used(url) == (sum(answered), 3_000)


async def test_kill_9_loses_only_the_last_answers_from_usage_and_traffic(tmp_path: Path, url: str) -> None:
    """And counts nothing twice, and corrupts no file."""
    load, folder = Load(await create_key(url)), tmp_path / "traffic"
    flags = flags_of(url, f"--traffic-folder={folder}")

    def recorded() -> set[str]:
        return {entry.request_id for entry in TrafficReader([folder])} if folder.exists() else set()

    async with serving(tmp_path, *flags) as server:
        running = asyncio.create_task(load.run(server.url))
        await until(lambda: len(load.answered) >= 500, "five hundred answers")
        old = dict(load.answered)
        async with asyncio.timeout(HANG_S):
            while not old.keys() <= recorded():
                assert not running.done()
            # More can be counted than answered: two of each client may be on their way. Beyond that all of `old` is written.
            most_counted = len(load.answered) + 2 * CLIENTS
            while (await used(url))[1] <= most_counted:
                assert not running.done()
        server.process.kill()
        await server.ended()
        await running
    characters, requests = await used(url)
    assert len(old) <= requests <= len(load.answered) + CLIENTS  # whose answers were on their way
    assert sum(old.values()) <= characters <= sum(load.answered.values()) + CLIENTS * load.longest
    killed = TrafficReader([folder])
    assert old.keys() <= {entry.request_id for entry in killed}
    assert (killed.alien, killed.torn <= 1) == (0, True)
    before = {path: path.read_bytes() for path in traffic_files(folder)}
    async with serving(tmp_path, *flags) as server:  # the next start adds nothing
        assert await server.end() == 0
    assert await used(url) == (characters, requests)
    assert {path: path.read_bytes() for path in before} == before


async def test_signals_and_operators_have_keys_read_again_and_no_key_is_written(tmp_path: Path, url: str) -> None:
    alice, operator = await create_key(url, "alice"), await create_key(url, "op", role="operator")
    wrong = "drg_wrong-but-secret"
    async with (
        serving(tmp_path, *flags_of(url, "--auth-refresh-s=3600")) as server,
        httpx.AsyncClient(base_url=server.url, timeout=HANG_S) as client,
    ):

        async def status(key: str) -> int:
            headers = {"Authorization": f"DeepL-Auth-Key {key}:fx"}
            body = {"text": "Good morning.", "source": "en", "target": "ja"}
            return (await client.post(f"/v1/translate?key={key}", json=body, headers=headers)).status_code

        assert [await status(alice), await status(wrong)] == [200, 401]
        process = Path(f"/proc/{server.process.pid}")
        command_line = (process / "cmdline").read_text() + (process / "environ").read_text()
        for reload in ("signal", "endpoint"):
            replaced = await rotate_key(url, "alice")
            assert await status(alice) == 200  # known, and not read again yet
            if reload == "signal":
                server.process.send_signal(signal.SIGHUP)
                async with asyncio.timeout(HANG_S):
                    while await status(alice) == 200:
                        pass
            else:
                assert (await client.post("/v1/reload")).status_code == 401
                headers = {"X-API-Key": operator}
                assert (await client.post("/v1/reload", headers=headers)).status_code == 204
            assert [await status(alice), await status(replaced)] == [401, 200]
            alice = replaced
        assert await server.end() == 0
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    contents = b"".join(file.read_bytes() for file in files).decode("latin-1")
    assert "listens on" in contents  # the log is among them
    for key in (alice, operator, wrong):
        assert key.removeprefix("drg_") not in command_line + contents


async def refused(folder: Path, *flags: str) -> str:
    """What a server says that does not start: exit code 2."""
    folder.mkdir()
    with ServerProcess(folder, "--pipeline=fake", *flags) as server:
        assert await server.ended() == 2, flags
        return server.output


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
    key = await create_key(url)
    flags = flags_of(url, "--tls-certificate=certificate.pem", "--tls-key=key.pem", "--operator-port=0")
    async with serving(tmp_path, *flags) as server:
        trusted = ssl.create_default_context(cafile=certificate)
        assert server.url.startswith("https://")
        async with httpx.AsyncClient(base_url=server.url, verify=trusted, timeout=HANG_S) as client:
            body = {"text": "Good morning.", "source": "en", "target": "ja"}
            assert (await client.post("/v1/translate", json=body, headers={"X-API-Key": key})).status_code == 200
            assert (await client.get("/metrics")).status_code == 401
        found = re.search(r"operators' endpoints on (http://\S+)", server.output)
        assert found is not None
        async with httpx.AsyncClient(base_url=found[1], timeout=HANG_S) as client:
            statuses: Counter[int] = Counter()
            for path in ("/metrics", "/v1/stats", "/readyz", "/v1/languages"):
                statuses[(await client.get(path)).status_code] += 1
            assert statuses == {200: 3, 404: 1}


async def test_a_server_that_cannot_serve_safely_does_not_start(tmp_path: Path) -> None:
    """Off loopback without keys, and with a certificate that cannot be used."""
    (tmp_path / "bad.pem").write_text("no certificate")
    cases = {
        "--host=0.0.0.0": ("dragoman keys create", "--auth none"),
        "--tls-certificate=none.pem": ("tls_certificate",),
        f"--tls-certificate={tmp_path}/bad.pem": ("tls_certificate",),
        "--tls-key=k": ("tls_certificate",),
    }
    outputs = await asyncio.gather(*(refused(tmp_path / str(one), flag) for one, flag in enumerate(cases)))
    for output, named in zip(outputs, cases.values(), strict=True):
        assert all(name in output for name in named), output
