"""Who calls: the key of a request, and the account that it belongs to.

A key comes in a header (`Authorization: Bearer K`, `Authorization: DeepL-Auth-Key K`, `X-API-Key: K`, `X-Goog-Api-Key: K`);
APIs whose clients send it in the body or the query pass it to `account_of`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, cast

from fastapi import Depends, Request

from dragoman.errors import Forbidden, QueueFull
from dragoman.service.service import TranslationService
from dragoman.types import Account

_SCHEMES = frozenset({"bearer", "deepl-auth-key"})
MAX_KEYLESS_BODIES = 8
"""Large bodies that are read concurrently for clients whose key, if they have one, is in the body."""
SMALL_BODY_BYTES = 65_536
_KEYLESS_WAIT_S = 5.0


async def service_of(request: Request) -> TranslationService:
    """The app's service. Async, though it awaits nothing: FastAPI runs a plain function in a thread."""
    return cast(TranslationService, request.app.state.service)


Service = Annotated[TranslationService, Depends(service_of)]


def key_in_headers(request: Request) -> str | None:
    """The key that a header carries, if one does."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in _SCHEMES and key.strip():
        return key.strip()
    return request.headers.get("x-api-key") or request.headers.get("x-goog-api-key") or None


@asynccontextmanager
async def key_first(request: Request, service: TranslationService, key: str = "") -> AsyncGenerator[None]:
    """Around the reading of a body that may have the key: `key`, from the query, or one in a header is looked at before.

    Without either, large bodies are read a few at a time. Raises `Unauthenticated`, `InvalidKey`, and `QueueFull` where
    others keep all turns for too long.
    """
    if key or key_in_headers(request):
        await account_of(request, service, key)
        yield
        return
    length = request.headers.get("content-length", "0")
    is_small = "transfer-encoding" not in request.headers and len(length) < 9 and int(length) <= SMALL_BODY_BYTES
    if is_small or not service.accounts.required:
        yield
        return
    turns: asyncio.Semaphore = request.app.state.keyless_bodies
    try:
        async with asyncio.timeout(_KEYLESS_WAIT_S):
            await turns.acquire()
    except TimeoutError:
        message = "too many large bodies without a key in a header arrive together: send the key in X-API-Key"
        raise QueueFull(message, retry_after_s=_KEYLESS_WAIT_S) from None
    try:
        yield
    finally:
        turns.release()


async def account_of(request: Request, service: TranslationService, key: str | None = None) -> Account:
    """The caller's account: `key` from a body or a query, else that of the headers. Raises `Unauthenticated`, `InvalidKey`."""
    return await service.accounts.authenticate(key or key_in_headers(request))


async def _caller(request: Request, service: Service) -> Account:
    """The account, which a route that looks at the key before the body has set already."""
    known: Account | None = getattr(request.state, "account", None)
    return known or await account_of(request, service)


Caller = Annotated[Account, Depends(_caller)]
"""The account of a call whose key is in a header."""
NEEDS_KEY = Depends(_caller)
"""Requires, on each route of a router, a key in a header where the server needs keys."""


async def _operator(account: Caller) -> None:
    if account.role != "operator":
        raise Forbidden("this needs an operator's key: dragoman keys create NAME --role operator")


NEEDS_OPERATOR = Depends(_operator)
"""Requires an operator's key on each route of a router."""
