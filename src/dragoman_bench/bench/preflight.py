"""Before anything is measured: is the server there, does it speak the API, does it take every language pair?

A benchmark that fails each request for one and the same reason has measured nothing; each reason is told in one line,
as a ConfigError.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

import aiohttp

from dragoman.errors import ConfigError
from dragoman_bench.bench.jsons import members
from dragoman_bench.bench.targets import Target, TargetOptions, make_target
from dragoman_bench.bench.targets.contract import BadReplyError, part
from dragoman_bench.bench.workload import Item

LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def check_url(url: str) -> str:
    """The URL without its last slash. Raises ConfigError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not a URL like http://127.0.0.1:8000", param="url")
    return url.rstrip("/")


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL


async def resolve(session: aiohttp.ClientSession, url: str, options: TargetOptions) -> TargetOptions:
    """The options with what they leave to the server: the model of an OpenAI-compatible one, whether dragoman takes
    forced lengths."""
    if options.kind == "dragoman" and options.forced is None:
        return replace(options, forced=await _takes_forced_lengths(session, url, _bearer(options)))
    if options.model is not None or not options.kind.startswith("openai"):
        return options
    status, body = await _ask(session, "GET", f"{url}/v1/models", None, _bearer(options), 10.0)
    if status != 200:
        raise ConfigError(f"{url}/v1/models answered {status}: name the model", param="model")
    try:
        model = part(json.loads(body), "data", 0, "id")
    except (ValueError, BadReplyError) as error:
        raise ConfigError(f"{url}/v1/models names no model: name it", param="model") from error
    return replace(options, model=str(model))


def _bearer(options: TargetOptions) -> dict[str, str]:
    return {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}


async def _takes_forced_lengths(session: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> bool:
    """Whether its weights are dummies; True where it does not tell: then its own refusal is clearer than a guess."""
    try:
        status, body = await _ask(session, "GET", f"{url}/v1/stats", None, headers, 10.0)
        engine = members(members(members(json.loads(body)).get("settings")).get("engine")) if status == 200 else {}
    except (ConfigError, ValueError):  # `check_server` will say what is wrong with it
        return True
    return engine.get("load_format", "dummy") == "dummy"


async def check_server(
    session: aiohttp.ClientSession, url: str, options: TargetOptions, items: Iterable[Item], timeout_s: float
) -> None:
    """Sends each item. Raises ConfigError on the first that the server cannot answer."""
    target = make_target(replace(options, stream=False))
    for item in items:
        headers = {"Content-Type": "application/json", **target.headers}
        body = json.dumps(target.body(item), ensure_ascii=False).encode()
        status, answer = await _ask(session, "POST", url + target.path, body, headers, timeout_s)
        _judge(url + target.path, options, target, item, status, answer)


def _judge(url: str, options: TargetOptions, target: Target, item: Item, status: int, answer: bytes) -> None:
    said = answer[:200].decode("utf-8", "replace")
    if status in (404, 405):
        raise ConfigError(f"{url} is not there ({status}): is this a {options.kind} server?", param="target")
    if status == 429:
        return  # it is there and busy: refusals are counted, not a fault of the plan
    if not 200 <= status < 300:
        pair = f"{item.source or 'auto'}-{item.target}"
        raise ConfigError(f"{url} answered {status} to a text of the pair {pair}: {said}")
    try:
        target.whole(json.loads(answer))
    except (ValueError, BadReplyError) as error:
        raise ConfigError(f"{url} does not answer as a {options.kind} server: {error}", param="target") from error


async def _ask(
    session: aiohttp.ClientSession, method: str, url: str, body: bytes | None, headers: dict[str, str], timeout_s: float
) -> tuple[int, bytes]:
    try:
        async with asyncio.timeout(timeout_s), session.request(method, url, data=body, headers=headers) as response:
            return response.status, await response.read()
    except TimeoutError as error:
        raise ConfigError(f"{url} did not answer within {timeout_s:g} s", param="url") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ConfigError(f"cannot reach {url}: {error}", param="url") from error
