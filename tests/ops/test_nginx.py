"""The block for nginx in docs/operating.md: its limits against the server's, and nginx with it before a server."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from dragoman.settings import Settings
from tests.ops.tools import OPS
from tests.processes import ServerProcess
from tests.waiting import until

TEXT = (OPS.parent / "docs" / "operating.md").read_text(encoding="utf-8")
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{ listen 127.0.0.1:{port};
{location}
    }}
}}
"""


def location() -> str:
    (block,) = re.findall(r"^    location /mt/ \{\n.*?^    \}$", TEXT, re.MULTILINE | re.DOTALL)
    return block


def directive(name: str) -> str:
    (value,) = re.findall(rf"^ +{name} ([^;]+);", location(), re.MULTILINE)
    return value


def test_the_limit_of_bodies_is_above_every_limit_of_the_server() -> None:
    number, unit = re.fullmatch(r"(\d+)([kmg]?)", directive("client_max_body_size")).groups()  # type: ignore[union-attr]
    settings = Settings()
    largest = max(settings.documents.max_bytes, settings.server.max_body_bytes)
    assert int(number) * UNITS[unit] > 1.1 * largest  # a form has more than its file


def test_streams_are_passed_on_and_timeouts_are_longer_than_the_server_s() -> None:
    assert (directive("proxy_buffering"), directive("proxy_request_buffering")) == ("off", "off")
    for name in ("proxy_read_timeout", "proxy_send_timeout"):
        assert int(directive(name).removesuffix("s")) > Settings().server.drain_timeout_s


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def behind_nginx(folder: Path) -> AsyncIterator[str]:
    """The address of a server behind nginx, with the flags and the block of the documentation."""
    assert NGINX is not None
    (flags,) = re.findall(r"^    dragoman serve (.*--root-path /mt)$", TEXT, re.MULTILINE)
    flags = flags.replace("--auth keys", "--auth none")
    with ServerProcess(folder, "--pipeline=fake", *flags.split()) as server:
        inner = await server.listening()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        block = location().replace("http://127.0.0.1:8000", inner)
        file = folder / "nginx.conf"
        file.write_text(CONFIGURATION.format(folder=folder, port=port, location=block))
        process = await asyncio.create_subprocess_exec(NGINX, "-c", str(file), "-p", str(folder))
        try:
            await until(lambda: accepts(port) or process.returncode is not None, "nginx")
            assert process.returncode is None, (folder / "error.log").read_text()
            yield f"http://127.0.0.1:{port}/mt"
        finally:
            process.terminate()
            await process.wait()


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
async def test_documents_bodies_that_are_too_large_and_streams_pass_nginx(tmp_path: Path) -> None:
    async with behind_nginx(tmp_path) as url, httpx.AsyncClient(timeout=120) as client:
        megabytes = b"word " * 1_000_000
        upload = await client.post(f"{url}/v1/documents", files={"file": ("a.txt", megabytes)}, data={"target": "ja"})
        assert upload.status_code == httpx.codes.CREATED, upload.text
        await client.delete(f"{url}/v1/documents/{upload.json()['id']}")

        limit = Settings().server.max_body_bytes
        refused = await client.post(f"{url}/v1/translate", json={"text": "x" * limit, "target": "ja"})
        assert refused.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
        assert refused.json()["error"]["code"] == "body_too_large"

        body = {"text": "Hello there. " * 3, "target": "ja", "stream": True}
        async with client.stream("POST", f"{url}/v1/translate", json=body) as stream:
            lines = [line async for line in stream.aiter_lines() if line]
        assert len(lines) > 2
