"""Looking at a running server: once, again and again, and what becomes of one that goes away."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from dragoman.errors import ConfigError
from dragoman_bench.bench.summary import parse_slo
from dragoman_bench.tune.watch import Look, to_document, told, watch
from tests.bench.serving import Handler, serving
from tests.serving import fake_service, served
from tests.tune.watched import STATS, TRAFFIC


def saying(document: dict[str, Any], asked: list[str] | None = None) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        if asked is not None:
            asked.append(f"{request.method} {request.path}")
        return web.json_response(document)

    return answer


async def looks(url: str, count: int = 1, **options: Any) -> list[Look]:
    found: list[Look] = []
    async with aclosing(watch(url, **options)) as watching:
        async for look in watching:
            found.append(look)
            if len(found) == count:
                break
    return found


async def test_one_look_reads_two_pages_and_changes_nothing() -> None:
    asked: list[str] = []
    async with serving({"/v1/stats": saying(STATS, asked), "/v1/traffic": saying(TRAFFIC, asked)}) as url:
        every = [look async for look in watch(url + "/", parse_slo("p95_s=2"))]
    assert [look.verdict for look in every] == ["fits"] and every[0].fits
    assert asked == ["GET /v1/stats", "GET /v1/traffic"]


async def test_a_look_is_told_in_lines_the_worst_first() -> None:
    async with serving({"/v1/stats": saying(STATS | {"preemptions": 400}), "/v1/traffic": saying(TRAFFIC)}) as url:
        [look] = await looks(url)
    lines = told(look).splitlines()
    assert f"{url}, Qwen/Qwen3-4B, 4,211 texts, 1.17 a second: the configuration does not fit." in lines[0]
    assert lines[1].startswith("  ✗ preemptions: 400 since the server's start")
    assert any(line.startswith("  ✓ slots: 64 slots") for line in lines)
    document = to_document(look)
    assert document["verdict"] == "does not fit" and document["remarks"][0]["about"] == "preemptions"


async def test_later_looks_count_from_the_one_before() -> None:
    numbers = iter(range(100, 1000))

    async def stats(_: web.Request) -> web.StreamResponse:
        number = next(numbers)
        return web.json_response(STATS | {"uptime_s": float(number), "preemptions": number, "finished": number})

    async with serving({"/v1/stats": stats, "/v1/traffic": saying(TRAFFIC)}) as url:
        first, second, third = await looks(url, 3, every_s=0.001)
    assert "100 since the server's start" in told(first)
    assert "1 since the last look" in told(second) and "1 since the last look" in told(third)


async def test_it_ends_when_it_is_interrupted() -> None:
    interrupted = asyncio.Event()
    async with serving({"/v1/stats": saying(STATS), "/v1/traffic": saying(TRAFFIC)}) as url:
        found: list[Look] = []
        async for look in watch(url, every_s=3600.0, interrupted=interrupted):
            found.append(look)
            interrupted.set()
    assert len(found) == 1


async def test_a_server_that_goes_away_is_a_remark_and_may_come_back() -> None:
    answers = iter([200, 200, 503, 503, 200, 200])

    async def stats(_: web.Request) -> web.StreamResponse:
        return web.json_response(STATS, status=next(answers))

    async with serving({"/v1/stats": stats, "/v1/traffic": saying(TRAFFIC)}) as url:
        found = await looks(url, 5, every_s=0.001)
    assert [look.fits for look in found] == [True, True, False, False, True]
    assert found[2].vitals is None and "does not tell of an engine" in told(found[2])


async def test_a_server_that_does_not_tell_its_traffic_is_looked_at_all_the_same() -> None:
    async with serving({"/v1/stats": saying(STATS)}) as url:
        [look] = await looks(url)
    assert look.verdict == "cannot be told"
    assert any("does not tell its traffic" in remark.told for remark in look.remarks)


async def test_what_is_no_dragoman_is_told_in_one_line() -> None:
    async with serving({"/v1/stats": saying({"hello": "world"})}) as url:
        with pytest.raises(ConfigError, match="is this a dragoman server"):
            await looks(url)
    with pytest.raises(ConfigError, match="cannot reach"):
        await looks(url)  # it has gone
    with pytest.raises(ConfigError, match="is not a URL"):
        await looks("localhost")


async def test_a_key_is_sent_where_one_is_given() -> None:
    sent: list[str | None] = []

    async def stats(request: web.Request) -> web.StreamResponse:
        sent.append(request.headers.get("Authorization"))
        return web.json_response(STATS)

    async with serving({"/v1/stats": stats}) as url:
        await looks(url, api_key="secret")
        await looks(url)
    assert sent == ["Bearer secret", None]


async def test_a_real_server_is_read() -> None:
    async with served(fake_service()) as client:
        answers = [client.post("/v1/translate", json={"text": f"Hello {n}", "target": "ja"}) for n in range(5)]
        assert all(answer.status_code == 200 for answer in await asyncio.gather(*answers))
        [look] = await looks(str(client.base_url))
    assert look.vitals is not None and look.vitals.server.slots == 32 and look.vitals.server.state == "serving"
    traffic = look.vitals.traffic
    assert traffic is not None and traffic.records == 5 and traffic.outcomes == {"ok": 5}
    assert traffic.in_flight.highest and traffic.peak_tokens and traffic.e2e_s.p95
    assert look.verdict == "cannot be told"
