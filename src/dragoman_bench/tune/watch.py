"""`dragoman tune --watch URL`: looks at a running server once or again and again, and says whether it still fits.

It only reads (`GET /v1/stats`, `GET /v1/traffic`): a look changes nothing and translates nothing. Knows how to look and how
to say it; what is judged is `fit`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp

from dragoman.errors import ConfigError
from dragoman_bench.bench.benchmark import check_url
from dragoman_bench.bench.results import members
from dragoman_bench.bench.summary import Slo
from dragoman_bench.bench.tables import number
from dragoman_bench.tune.fit import Case, Remark, Severity, Verdict, remarks, verdict
from dragoman_bench.tune.vitals import Vitals, read_server, read_traffic

PATIENCE_S = 10.0
_SIGNS: dict[Severity, str] = {"problem": "✗", "warning": "!", "note": "·", "fits": "✓"}
_SAID: dict[Verdict, str] = {
    "fits": "the configuration fits",
    "fits, but look": "the configuration serves, but look at what is marked !",
    "does not fit": "the configuration does not fit",
    "cannot be told": "whether the configuration fits cannot be told yet",
}


@dataclass(frozen=True, slots=True)
class Look:
    """One look and what it found, the worst first. `vitals` None: the server did not answer."""

    at: str  # ISO 8601, UTC
    url: str
    vitals: Vitals | None
    remarks: tuple[Remark, ...]
    verdict: Verdict

    @property
    def fits(self) -> bool:
        return self.verdict in ("fits", "fits, but look")


async def watch(
    url: str,
    slo: Slo | None = None,
    every_s: float | None = None,
    interrupted: asyncio.Event | None = None,
    api_key: str | None = None,
) -> AsyncGenerator[Look]:
    """Looks: one, or with `every_s` until `interrupted`. Raises ConfigError where the first one finds no dragoman; later
    a server that does not answer is a remark, as it may come back."""
    url, ended = check_url(url), interrupted or asyncio.Event()
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as session:
        before = await _vitals(session, url)
        yield _look(url, Case(before, None, slo))
        while every_s is not None and not await _set_within(ended, every_s):
            try:
                now = await _vitals(session, url)
            except ConfigError as error:
                yield Look(_now(), url, None, (Remark("server", "problem", error.message),), "cannot be told")
                continue
            yield _look(url, Case(now, before, slo))
            before = now


def told(look: Look) -> str:
    """For a terminal: a line that says it, and one a remark."""
    lines = [f"{look.at} {look.url}{_served(look.vitals)}: {_SAID[look.verdict]}."]
    for remark in look.remarks:
        advice = f"; {remark.advice}" if remark.advice else ""
        lines.append(f"  {_SIGNS[remark.severity]} {remark.about}: {remark.told}{advice}.")
    return "\n".join(lines)


def to_document(look: Look) -> dict[str, Any]:
    """JSON-ready."""
    found = [
        {"about": one.about, "severity": one.severity, "told": one.told, "advice": one.advice} for one in look.remarks
    ]
    return {"at": look.at, "url": look.url, "verdict": look.verdict, "remarks": found}


def _look(url: str, case: Case) -> Look:
    found = remarks(case)
    return Look(_now(), url, case.now, found, verdict(found, case.now.traffic))


def _served(vitals: Vitals | None) -> str:
    if vitals is None:
        return ""
    model = f", {vitals.server.model}" if vitals.server.model else ""
    if vitals.traffic is None or vitals.traffic.arrivals_per_s is None:
        return model
    return f"{model}, {vitals.traffic.records:,} texts, {number(vitals.traffic.arrivals_per_s)} a second"


async def _vitals(session: aiohttp.ClientSession, url: str) -> Vitals:
    stats = members(await _read(session, f"{url}/v1/stats"))
    if "running" not in stats:
        raise ConfigError(f"{url}/v1/stats does not tell of an engine: is this a dragoman server?", param="url")
    return Vitals(read_server(stats), read_traffic(await _read(session, f"{url}/v1/traffic")))


async def _read(session: aiohttp.ClientSession, url: str) -> object:
    """The JSON there; None where the server has no such page. Raises ConfigError where nobody answers."""
    try:
        async with session.get(url) as response:
            return await response.json(content_type=None) if response.status == 200 else None
    except TimeoutError as error:
        raise ConfigError(f"{url} did not answer within {PATIENCE_S:g} s", param="url") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ConfigError(f"cannot reach {url}: {error}", param="url") from error
    except ValueError:
        return None


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
