"""A server that needs keys, for the tests of whose a glossary or a translation memory is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx

from dragoman.service.service import TranslationService
from dragoman.storage.collections import StoredCollection


@dataclass
class OwnersServer:
    """`keys` and what is `stored` are by the names that the tests give them."""

    http: httpx.AsyncClient
    service: TranslationService
    keys: dict[str, str]
    stored: dict[str, StoredCollection] = field(default_factory=dict[str, StoredCollection])

    async def call(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.http.request(method, path, headers={"X-API-Key": self.keys[key]}, **options)
