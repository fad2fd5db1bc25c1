"""The Model Context Protocol's official client, of a server under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.waiting import HANG_S

PRESENT = "2026-07-28"
MODES = (PRESENT, "legacy")
"""The protocol's versions as the SDK's client chooses them; legacy: the last of 2025."""


@asynccontextmanager
async def agent(http: httpx.AsyncClient, key: str = "", mode: str = PRESENT, **headers: str) -> AsyncIterator[Client]:
    """A client of the server that `http` is a client of."""
    sent = {**({"Authorization": f"Bearer {key}"} if key else {}), **headers}
    url = f"{str(http.base_url).rstrip('/')}/mcp"
    async with httpx2.AsyncClient(headers=sent, timeout=HANG_S, verify=False) as transport:
        async with Client(streamable_http_client(url, http_client=transport), mode=mode, cache=None) as client:
            yield client
